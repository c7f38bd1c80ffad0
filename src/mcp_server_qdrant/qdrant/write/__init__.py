"""Writes points and whole collections, and cleans up after interrupted writes."""
