"""The layers around /mcp over HTTP: authentication, limits, metrics. No tools here."""
