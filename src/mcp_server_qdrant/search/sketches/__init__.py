"""Sketches of collections: which of many can have the best results; the others are not asked."""
