"""The client of a Qdrant server: requests, retries, versions and limits."""
