"""The server with the conformance suite's fixtures beside its own tools; started by `run.py`.

All else is the product's own: command, settings, transport, guard, limits, sessions.
"""

from collections.abc import Callable
from typing import Any

from fixtures import add
from mcp.server import MCPServer

from mcp_server_qdrant.__main__ import main
from mcp_server_qdrant.app import http

page_of = http.page_of


def with_fixtures(settings: Any) -> Callable[[MCPServer[Any], Any], None]:
    def extend(mcp: MCPServer[Any], services: Any) -> None:
        page_of(settings)(mcp, services)
        add(mcp)

    return extend


if __name__ == "__main__":
    http.page_of = with_fixtures
    main()
