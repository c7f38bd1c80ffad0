"""The lean line to a Qdrant server: its reads without what qdrant-client adds to them."""
