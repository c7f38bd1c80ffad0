"""Composition: builds a running service from the settings. Logic belongs to the other parts."""
