"""Models behind HTTP or in the Qdrant server; nothing here loads one."""
