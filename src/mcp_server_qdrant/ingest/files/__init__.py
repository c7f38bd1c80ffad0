"""Syncs files into collections: finds them, compares them with the stored state, reads them."""
