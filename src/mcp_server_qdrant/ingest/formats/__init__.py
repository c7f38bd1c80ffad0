"""Turns the bytes of a file into texts, one module per format; no access to disk or collections."""
