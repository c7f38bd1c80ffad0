"""Words of queries and collections: terms, corrections, tags, vocabularies. Nothing here ranks."""
