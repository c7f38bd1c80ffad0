"""Bytes of a file to texts, a file per format; nothing here touches the disk or a collection."""
