"""Models that run in this process; the only package that imports fastembed."""
