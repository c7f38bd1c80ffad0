"""Folders of qdrant-client's local mode: read and imported, never written."""
