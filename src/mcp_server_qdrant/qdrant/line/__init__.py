"""The lean line to a Qdrant server: batches of queries without what qdrant-client adds to them."""
