"""Qdrant, remote or embedded: owns qdrant_client and the engine. No ranking, no models."""
