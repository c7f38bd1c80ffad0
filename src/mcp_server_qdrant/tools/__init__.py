"""What an agent sees: tools, their schemas and texts; no engine and no transport."""
