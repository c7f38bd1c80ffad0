"""The layers around /mcp over HTTP: who may call, how much, what is counted. No tools here."""
