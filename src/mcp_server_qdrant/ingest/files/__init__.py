"""Files to collections: found, compared with what is stored, read and kept in step."""
