"""For each call a figure, a span, and a line in the log."""

import logging
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from mcp.shared.exceptions import MCPError

from mcp_server_qdrant.core.access import CALLER, Caller
from mcp_server_qdrant.core.telemetry import Call, Outcome, within_call, within_request
from mcp_server_qdrant.http import tracing
from mcp_server_qdrant.http.load import PLACE
from mcp_server_qdrant.http.metrics import Metrics
from mcp_server_qdrant.http.requests import REQUEST_ID

logger = logging.getLogger(__name__)

Next = Callable[[Any], Awaitable[Any]]


class Telemetry:
    """An MCP middleware around each tool call."""

    def __init__(self, metrics: Metrics, *, traced: bool = False) -> None:
        self._metrics = metrics
        self._traced = traced

    async def observe(self, ctx: Any, call_next: Next) -> Any:
        """One MCP message, within the place of its request; tool calls are measured.

        The SDK handles a session's messages in the task of its first one, so that the id is taken
        from each message's own request.
        """
        scope = ctx.request.scope if ctx.request is not None else {}
        request = scope.get(REQUEST_ID)
        with within_request(request) if request else nullcontext(), scope.get(PLACE, nullcontext()):
            if ctx.method != "tools/call":
                return await call_next(ctx)
            return await self._called(ctx, call_next, scope.get(CALLER))

    async def _called(self, ctx: Any, call_next: Next, who: Caller | None) -> Any:
        call = Call(_tool(ctx.params))
        if self._traced:
            tracing.mark()
        began = time.perf_counter()
        ending: Outcome = "crashed"
        try:
            with within_call(call):
                result = await call_next(ctx)
            ending = "rejected" if _is_error(result) else "ok"
        except MCPError:
            ending = "rejected"
            raise
        except CancelledError:
            ending = "cancelled"
            raise
        finally:
            self._ended(call, call.outcome or ending, time.perf_counter() - began, who)
        return result

    def _ended(self, call: Call, outcome: Outcome, seconds: float, who: Caller | None) -> None:
        self._metrics.called(call.tool, outcome, seconds)
        fields = {
            "tool": self._metrics.known(call.tool),
            "outcome": outcome,
            "ms": round(seconds * 1000, 1),
            **({"caller": who.name} if who else {}),
        }
        logger.info("Call", extra={"fields": fields})


def _tool(params: Any) -> str:
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else ""


def _is_error(result: Any) -> bool:
    return isinstance(result, dict) and bool(result.get("isError"))
