"""Tokens: what each kind proves about who calls."""
