"""Texts to vectors and scores; knows models, no collections and no settings."""
