"""Backups of collections, and what such a folder holds."""
