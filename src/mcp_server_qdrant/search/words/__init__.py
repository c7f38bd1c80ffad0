"""Words of queries and collections: terms, vocabularies, corrections. Nothing here ranks."""
