"""The caller of each MCP message, and the tools that it may see.

The SDK handles messages in other tasks than the HTTP requests that brought them, and a session's
messages in the task of its first one; so the caller is taken from each message's own request.
"""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST

from mcp_server_qdrant.core.context import ADMIN, CALLER, Caller, calling


class ForCaller:
    """Middleware of an MCP server: every message is handled for its sender, or not at all."""

    def __init__(self, scopes: Mapping[str, str]) -> None:
        """`scopes` maps a tool's name to the scope it needs."""
        self._scopes = scopes

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle one message; tools that the caller may not call are left out of a list."""
        who = ctx.request.scope.get(CALLER) if ctx.request is not None else None
        if not isinstance(who, Caller):
            raise MCPError(INVALID_REQUEST, "This message came without a caller.")
        with calling(who):
            result = await call_next(ctx)
        if ctx.method == "tools/list" and isinstance(result, dict):
            result["tools"] = [tool for tool in result["tools"] if self._may(who, tool["name"])]
        return result

    def _may(self, who: Caller, tool: str) -> bool:
        return self._scopes.get(tool, ADMIN) in who.scopes
