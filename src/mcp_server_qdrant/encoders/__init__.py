"""Turns texts into vectors and scores; knows models, but no collections and no settings."""
