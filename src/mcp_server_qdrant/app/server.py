"""The MCP server: its tools and resources, opened after the handshake."""

import asyncio
import contextlib
import gc
import importlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.subscriptions import InMemorySubscriptionBus, SubscriptionBus
from mcp.types import SERVER_INFO_META_KEY

from mcp_server_qdrant import __version__
from mcp_server_qdrant.core.context import calling, speaking
from mcp_server_qdrant.core.find import Preferences, Tuning
from mcp_server_qdrant.core.lean import import_qdrant_client
from mcp_server_qdrant.core.notation import line
from mcp_server_qdrant.http.caller import ForCaller
from mcp_server_qdrant.http.page.app import app, icon
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.tools import resources
from mcp_server_qdrant.tools.toolset import Options, make_tools

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services
    from mcp_server_qdrant.app.tenants import Tenants
    from mcp_server_qdrant.http.monitor import Monitor

    Opened = Services | Tenants

NAME = "mcp-server-qdrant"
# What depends on the caller's scopes is for that caller alone; collections change at any time.
HINTS: dict[CacheableMethod, CacheHint] = {
    "server/discover": CacheHint(3_600_000, "public"),
    "resources/templates/list": CacheHint(3_600_000, "public"),
    "resources/list": CacheHint(3_600_000, "public"),
    "tools/list": CacheHint(300_000),
    "resources/read": CacheHint(0),  # a text just stored counts
}
MAX_CLIENT = 60  # characters of a client's name, and of its version
LISTEN = "subscriptions/listen"  # lasts until the client goes


class Opening:
    """Opens the services once, in the background; a failure is tried again at the next call."""

    def __init__(
        self,
        open_services: Callable[[], Awaitable["Opened"]],
        recall_path: Path | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """`at_once`: what answers at `recall_path` does not wait for a client's first message."""
        self._open = open_services
        self._at_once = at_once
        self._recall_path = recall_path
        self._line = contextlib.AsyncExitStack()
        self._task: asyncio.Task[Opened] | None = None
        self._users = 0

    async def __aenter__(self) -> "Opening":
        """One user more: the SDK enters the lifespan once per process, over SSE per client."""
        self._users += 1
        if self._at_once:
            self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """One user less; the last one closes what was opened."""
        self._users -= 1
        if self._users == 0:
            await self._close()

    def begin(self) -> "asyncio.Task[Opened]":
        """Start opening unless that is done or under way; for all, whoever calls first."""
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            with calling(None):
                task = self._task = asyncio.ensure_future(self._opened())
        return task

    async def _opened(self) -> "Opened":
        services = await self._open()
        if self._recall_path:
            from mcp_server_qdrant.app.recall import answering

            await self._line.enter_async_context(answering(self._recall_path, self.services))
        return services

    async def services(self) -> "Services":
        """The open services of the caller's tenant. Raises why there are none."""
        return (await asyncio.shield(self.begin())).of_caller()

    async def _close(self) -> None:
        await self._line.aclose()
        task, self._task = self._task, None
        if task is None:
            return
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            with calling(None):
                await task.result().close()


class Calls:
    """The calls under way, so that the end of input can wait for their answers."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count everything inside as a call."""
        self._count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()

    async def finish(self, seconds: float) -> None:
        """Wait until none is under way, at most so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)


def import_services() -> None:
    """Import the services, and qdrant-client without what it needs to encode texts itself."""
    import_qdrant_client()
    importlib.import_module("mcp_server_qdrant.app.tenants")


async def open_lazily(settings: Settings) -> "Services":
    """The services of a command."""
    opened = await _opened(settings)
    return opened.of_caller()


async def _opened(settings: Settings) -> "Opened":
    """The services, their libraries imported in a thread: the event loop goes on meanwhile.

    All that was loaded until now is kept out of garbage collection, which would otherwise walk
    200,000 objects now and then and hold up every call for a tenth of a second.
    """
    try:
        hosts = await asyncio.to_thread(
            importlib.import_module, "mcp_server_qdrant.app.local_models"
        )
        async with contextlib.AsyncExitStack() as undo:
            host = hosts.open_host(settings)
            undo.push_async_callback(host.close)
            engine = hosts.open_engine_host(settings)
            # The hosts start, and load model and collections, while this process imports.
            starting: list[Any] = [hosts.load_default(settings, host)]
            if engine is not None:
                undo.push_async_callback(engine.close)
                starting.append(engine.open())
            for task in map(asyncio.create_task, starting):
                task.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.to_thread(import_services)
            from mcp_server_qdrant.app import models, services, tenants

            client = await services.open_engine(settings, engine)
            undo.push_async_callback(client.close)
            opened = tenants.assemble(settings, client, models.open_encoders(settings, host))
            undo.pop_all()
            return opened
    finally:
        gc.freeze()
        gc.enable()


def make_server(
    settings: Settings,
    open_services: Callable[[], Awaitable["Opened"]] | None = None,
    calls: Calls | None = None,
    *,
    asking: bool = False,
    monitor: "Monitor | None" = None,
    page: bool = False,
) -> MCPServer[Opening]:
    """The server, not yet running. `open_services` replaces what the settings would open.

    `asking`: every message comes over HTTP from a caller, who has scopes. `monitor` measures every
    call. `page`: /viz is served beside the tools, over the same services.
    """
    open_services = open_services or (lambda: _opened(settings))
    at_once = monitor is not None and settings.qdrant_recall_path is not None
    opening = Opening(open_services, settings.qdrant_recall_path, at_once=at_once)

    bus = InMemorySubscriptionBus()
    tools = make_tools(opening.services, options_of(settings))
    scopes = {tool.name: tool.scope for tool in tools}
    mcp = MCPServer(
        NAME,
        title="Qdrant collections",
        icons=[icon()],
        version=__version__,
        instructions=resources.instructions(read_only=settings.qdrant_read_only),
        log_level=settings.log_level,
        lifespan=lambda _: opening,
        tools=[*tools],
        cache_hints=HINTS,
        # A tenant would learn when another one stores.
        subscriptions=False if settings.tenant_field else bus,
        middleware=[
            *([monitor.observe] if monitor else []),
            _beginning(opening, calls or Calls()),
            *([ForCaller(scopes)] if asking else []),
        ],
        extensions=[app()],
    )
    resources.register(mcp, opening.services)
    if monitor is not None:
        monitor.register(mcp, opening.begin, scopes)
    if page:
        _add_page(mcp, settings, opening.services, bus)
    return mcp


def _add_page(
    mcp: MCPServer[Any],
    settings: Settings,
    services: Callable[[], Awaitable["Services"]],
    bus: SubscriptionBus,
) -> None:
    """Add /viz. It asks the tools, the filter by tags beside the operator's own."""
    from mcp_server_qdrant.http.page.desk import Desk
    from mcp_server_qdrant.http.page.routes import register

    options = replace(options_of(settings), arbitrary_filter=True)
    preferred = Preferences.among(settings).model_dump()
    defaults = {
        **Tuning(**preferred).model_dump(),
        "version": __version__,
        "limit": settings.qdrant_search_limit,
        "priority_order": settings.priority_order,
        "alpha": settings.hybrid_alpha,
        "filters": [field.model_dump() for field in options.fields],
    }
    register(mcp, Desk(partial(make_tools, options=options), services, defaults, bus))


def _beginning(opening: Opening, under_way: Calls) -> Any:
    """Counts the calls, and opens the services after the first message."""

    async def begin_after_first_message(ctx: Any, call_next: Any) -> Any:
        try:
            counted = under_way.counted() if ctx.method != LISTEN else contextlib.nullcontext()
            with counted, speaking(_client(ctx)):
                return _light(ctx.method, await call_next(ctx))
        finally:
            opening.begin()

    return begin_after_first_message


def _client(ctx: Any) -> tuple[str, str] | None:
    """The name and version that the client gives itself."""
    if (params := ctx.session.client_params) is None:
        return None
    info = params.client_info
    return line(info.name, MAX_CLIENT), line(info.version, MAX_CLIENT)


def _light(method: str, result: Any) -> Any:
    """The result without the icon, which the SDK puts into every one, where none looks for it."""
    if method != "server/discover" and isinstance(result, dict):
        result.get("_meta", {}).get(SERVER_INFO_META_KEY, {}).pop("icons", None)
    return result


def options_of(settings: Settings) -> Options:
    """The options of the tools, from the settings."""
    return Options(
        read_only=settings.qdrant_read_only,
        arbitrary_filter=settings.arbitrary_filter,
        fields=tuple(one for one in settings.filterable_fields if one.condition is not None),
        find_description=settings.tool_find_description,
        store_description=settings.tool_store_description,
    )
