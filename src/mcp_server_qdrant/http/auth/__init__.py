"""Tokens, and what each kind proves about who calls; knows no tools and no collections."""
