"""Labelled queries to figures of the ranking; measures the services of a server."""
