"""One server's load, health and figures, for its operator."""

from collections.abc import Iterable
from typing import Any

from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import Response

from mcp_server_qdrant.core.access import ADMIN, caller
from mcp_server_qdrant.http.health import Health, Opening, healthz, opened
from mcp_server_qdrant.http.load import Load
from mcp_server_qdrant.http.metrics import CONTENT_TYPE, Metrics
from mcp_server_qdrant.http.telemetry import Telemetry
from mcp_server_qdrant.settings.environment import Settings

NAMED_COLLECTIONS = 20  # in /metrics; the rest are `other`


class Watch:
    """The state that limits, /readyz and /metrics share."""

    def __init__(self, settings: Settings) -> None:
        self.load = Load(settings.http_max_calls)
        named = settings.tenant_claim or settings.tenant_field
        self._claim = named if settings.tenant_field else None
        # Who reads the figures of all tenants need not know what theirs are called.
        named_collections = 0 if settings.tenant_field else NAMED_COLLECTIONS
        self.metrics = Metrics(self.load, named_collections, traced=settings.traced)
        self.telemetry = Telemetry(self.metrics, traced=settings.traced)

    def register(self, mcp: MCPServer[Any], opening: Opening, tools: Iterable[str]) -> None:
        """Add /healthz, /readyz and /metrics. Figures have the names in `tools` as labels."""
        health = Health(opening, lambda: self.load.draining)
        self.metrics.tools = frozenset(tools)

        async def metrics(_: Request) -> Response:
            """Figures for Prometheus; of all tenants, hence for none of them."""
            if self._of_a_tenant():
                return Response(
                    "/metrics needs a token with the scope admin and without a tenant.",
                    status_code=403,
                )
            parts = await health.parts()
            services = opened(opening())
            work = services.work() if services else {}
            text = self.metrics.text(parts["engine"].state, parts["encoder"].state, work)
            return Response(text, media_type=CONTENT_TYPE)

        routes = {"/healthz": healthz, "/readyz": health.readyz, "/metrics": metrics}
        for path, handler in routes.items():
            mcp.custom_route(path, methods=["GET"])(handler)

    def _of_a_tenant(self) -> bool:
        """True where the caller is one of several tenants, or may not administer."""
        who = caller()
        if self._claim is None or who is None:
            return False
        return self._claim in who.claims or ADMIN not in who.scopes
