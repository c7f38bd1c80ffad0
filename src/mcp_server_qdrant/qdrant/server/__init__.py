"""The line to a Qdrant server: requests, versions, its limits, its encoders."""
