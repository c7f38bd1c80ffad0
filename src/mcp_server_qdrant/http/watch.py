"""What an operator sees of a server over HTTP: limits, health and figures over one state."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import Response

from mcp_server_qdrant.core.access import ADMIN, caller
from mcp_server_qdrant.http import tracing as http_tracing
from mcp_server_qdrant.http.health import Health
from mcp_server_qdrant.http.load import Bounds, Load
from mcp_server_qdrant.http.metrics import CONTENT_TYPE, Metrics
from mcp_server_qdrant.http.telemetry import Telemetry
from mcp_server_qdrant.http.tracing import Tracing

if TYPE_CHECKING:
    import asyncio

    from mcp_server_qdrant.settings.environment import Settings


class Services(Protocol):
    """What is watched."""

    @property
    def catalog(self) -> Any:
        """The collections."""

    @property
    def encoders(self) -> Any:
        """The embedding models."""

    def record(self, recorder: Any) -> None:
        """Tell it how searches go."""

    def work(self) -> Mapping[str, int]:
        """What was written since the start, by kind."""


class Watch:
    """One server's load, figures and health.

    `background` counts calls whose request is over, of a holder or of all.
    """

    def __init__(
        self, settings: "Settings", background: Callable[[str | None], int] = lambda _: 0
    ) -> None:
        bounds = Bounds(
            settings.max_calls,
            settings.max_streams,
            settings.max_sessions,
            settings.caller_share,
        )
        self.load = Load(bounds, background)
        named = settings.tenant_claim or settings.tenant_field
        self._claim = named if settings.tenant_field else None
        # Who reads the figures of all tenants need not know what theirs are called.
        named_collections = 0 if settings.tenant_field else settings.metrics_collections
        self.metrics = Metrics(self.load, named_collections)
        self.tracing = Tracing() if settings.traced else None
        self.telemetry = Telemetry(self.metrics, self.tracing)

    def recording(
        self, open_services: Callable[[], Awaitable[Any]]
    ) -> Callable[[], Awaitable[Any]]:
        """The same opening, whose searches are recorded."""

        async def opened() -> Any:
            services = await open_services()
            services.record(self.telemetry)
            return services

        return opened

    def register(
        self,
        mcp: MCPServer[Any],
        opening: "Callable[[], asyncio.Task[Services]]",
        tools: Iterable[str],
    ) -> None:
        """Add /readyz and /metrics. `tools` are the names that figures may be told by."""
        for path, handler in self.routes(opening, tools).items():
            mcp.custom_route(path, methods=["GET"])(handler)

    def routes(
        self, opening: "Callable[[], asyncio.Task[Services]]", tools: Iterable[str]
    ) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """What is served, by path. `tools` are the names that figures may be told by."""
        health = Health(opening, lambda: self.load.draining)
        self.metrics.tools = frozenset(tools)

        async def metrics(_: Request) -> Response:
            """Figures for Prometheus; of all tenants, hence for none of them."""
            if self._of_a_tenant():
                return Response("These figures are for the operator's token.", status_code=403)
            parts = await health.parts()
            opened = opening()
            done = opened.done() and not opened.cancelled() and opened.exception() is None
            work = opened.result().work() if done else {}
            text = self.metrics.text(parts["engine"].state, parts["encoder"].state, work)
            return Response(text, media_type=CONTENT_TYPE)

        return {"/readyz": health.readyz, "/metrics": metrics}

    def _of_a_tenant(self) -> bool:
        """Whether who asks is one of several tenants, or may not administer."""
        who = caller()
        if self._claim is None or who is None:
            return False
        return self._claim in who.claims or ADMIN not in who.scopes

    def start_tracing(self) -> None:
        """Set up what spans go to. Raises ConfigError."""
        if self.tracing is not None:
            http_tracing.start()

    def flush(self) -> None:
        """Send the spans that were not sent yet."""
        if self.tracing is not None:
            http_tracing.flush()
