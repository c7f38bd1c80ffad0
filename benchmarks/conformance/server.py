"""The server with the conformance suite's fixtures beside its own tools; started by `run.py`.

All else is the product's own: command, settings, transport, guard, limits, sessions.
"""

from typing import Any

from fixtures import add
from mcp.server import MCPServer

from mcp_server_qdrant.__main__ import main
from mcp_server_qdrant.app import http

made = http.make_server


def with_fixtures(*given: Any, **named: Any) -> MCPServer[Any]:
    mcp = made(*given, **named)
    add(mcp)
    return mcp


if __name__ == "__main__":
    http.make_server = with_fixtures
    main()
