"""What an agent sees: tools, resources, their schemas and texts; no engine and no transport."""
