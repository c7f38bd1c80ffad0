"""Whole collections: imported, copied, upgraded while they are used; no single texts."""
