"""The MCP server and its tools; their services are opened after the handshake."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.caching import CacheableMethod, CacheHint

from mcp_server_qdrant import __version__
from mcp_server_qdrant.app.opening import Opening, open_services
from mcp_server_qdrant.core.context import serving_client
from mcp_server_qdrant.core.find import Tuning
from mcp_server_qdrant.core.notation import one_line, visible
from mcp_server_qdrant.http.page.app import app_extension
from mcp_server_qdrant.ingest.secrets import masked
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.tools.toolset import Options, instructions, make_tools

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from mcp_server_qdrant.app.services import Services, Shared
    from mcp_server_qdrant.http.monitor import Monitor

NAME = "mcp-server-qdrant"
# The list of tools depends on the caller's scopes, so it is not public.
HINTS: dict[CacheableMethod, CacheHint] = {
    "server/discover": CacheHint(3_600_000, "public"),
    "resources/list": CacheHint(3_600_000, "public"),
    "tools/list": CacheHint(300_000),
}
# The pending calls of a conversation, where each call has a task, as over stdio.
UNDER_WAY: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("under_way", default=None)
MAX_CLIENT = 60  # characters of a client's name or version


class SharedServer:
    """The server for one set of settings, shared by all clients that have the same settings."""

    def __init__(self, settings: Settings, linger: float = 0.0) -> None:
        self.opening = Opening(partial(open_services, settings), linger)
        mcp = make_server(settings, self.opening)
        mcp.streamable_http_app()  # makes the SDK create the server that it wraps
        self.server: Server[Any] = mcp.session_manager.app


def make_server(
    settings: Settings,
    opened: "Opening | Callable[[], Awaitable[Shared]] | None" = None,
    *,
    monitor: "Monitor | None" = None,
    page: bool = False,
) -> MCPServer[Opening]:
    """Build the server, not yet running. `opened` replaces the services of the settings.

    `monitor` identifies the caller of each HTTP message and measures the calls. `page` adds /viz,
    over the same services.
    """
    if isinstance(opened, Opening):
        opening = opened
    else:
        opening = Opening(opened or partial(open_services, settings))
    tools = make_tools(opening.services, options_of(settings))
    mcp = MCPServer(
        NAME,
        title="Qdrant collections",
        version=__version__,
        instructions=instructions(read_only=settings.qdrant_read_only),
        log_level=settings.fastmcp_log_level,
        lifespan=lambda _: opening,
        tools=[*tools],
        cache_hints=HINTS,
        subscriptions=False,  # nothing changes that a client could subscribe to
        middleware=[*([monitor.observe] if monitor else []), _opening_middleware(opening)],
        extensions=[app_extension()],
    )
    if monitor is not None:
        monitor.register(mcp, opening.begin, {tool.name: tool.scope for tool in tools})
    if page:
        _add_page(mcp, settings, opening.services)
    return mcp


def _add_page(
    mcp: MCPServer[Any], settings: Settings, services: Callable[[], Awaitable["Services"]]
) -> None:
    """Add /viz. Its tools always take arbitrary filters, for its filter by tags."""
    from mcp_server_qdrant.http.page.desk import Desk
    from mcp_server_qdrant.http.page.routes import register

    options = replace(options_of(settings), arbitrary_filter=True)
    tuning = Tuning(recency_weight=settings.qdrant_recency_weight, rerank=settings.rerank)
    defaults = {
        **tuning.model_dump(),
        "version": __version__,
        "limit": settings.qdrant_search_limit,
        "priority_order": settings.qdrant_collection_priority_order,
        "alpha": settings.hybrid_alpha,
        "filters": [field.model_dump() for field in options.fields],
    }
    register(mcp, Desk(partial(make_tools, options=options), services, defaults))


def _opening_middleware(opening: Opening) -> Any:
    """Middleware that tracks pending calls and opens the services after the first message."""

    async def begin_after_first_message(ctx: Any, call_next: Any) -> Any:
        task, under_way = asyncio.current_task(), UNDER_WAY.get()
        if under_way is not None and task:
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        try:
            with serving_client(_client(ctx)):
                result = await call_next(ctx)
                return visible(result) if ctx.method == "tools/call" else result
        finally:
            opening.begin()

    return begin_after_first_message


def _client(ctx: Any) -> tuple[str, str] | None:
    """The name and version that the client gives itself."""
    if (params := ctx.session.client_params) is None:
        return None
    return _short_and_masked(params.client_info.name), _short_and_masked(params.client_info.version)


@lru_cache(256)
def _short_and_masked(text: str) -> str:
    return one_line(masked(text)[0], MAX_CLIENT)


def options_of(settings: Settings) -> Options:
    """The options of the tools, from the settings."""
    return Options(
        read_only=settings.qdrant_read_only,
        arbitrary_filter=settings.arbitrary_filter,
        fields=tuple(one for one in settings.filterable_fields if one.condition is not None),
        find_description=settings.tool_find_description,
        store_description=settings.tool_store_description,
    )
