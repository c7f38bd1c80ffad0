"""Reading collections: searches, documents, samples, lists."""
