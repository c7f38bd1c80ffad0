"""Labelled queries to figures of the ranking; searches only through what it is handed."""
