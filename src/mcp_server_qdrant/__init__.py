"""One MCP server over every Qdrant collection a person has."""

__version__ = "1.0.0.dev0"
