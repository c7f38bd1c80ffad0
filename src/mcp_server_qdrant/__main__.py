"""`python -m mcp_server_qdrant` is the console script."""

from mcp_server_qdrant.cli import main

if __name__ == "__main__":
    main()
