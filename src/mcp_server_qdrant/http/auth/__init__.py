"""Verifies tokens and identifies callers; knows no tools and no collections."""
