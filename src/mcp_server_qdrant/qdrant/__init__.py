"""Qdrant, remote or embedded: the only folder that knows qdrant_client and qdrant_edge."""
