"""Writing points and whole collections, and the leftovers of interrupted writes."""
