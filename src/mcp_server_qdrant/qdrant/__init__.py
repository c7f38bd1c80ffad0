"""Qdrant, remote or embedded: alone knows qdrant_client and qdrant_edge; no ranking, no models."""
