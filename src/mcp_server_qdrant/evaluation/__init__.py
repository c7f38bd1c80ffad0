"""Measures the ranking of a server with labelled queries."""
