"""The parts that all services over one engine share: engine, models, the filling of points."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mcp_server_qdrant.app.models import open_rerank
from mcp_server_qdrant.core.dates import DATES
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.notation import Identify, date_paths, point_id, point_ids_of
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest.files.background import SYNC_SHARE, Pace
from mcp_server_qdrant.ingest.pending import Backfill
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.payload import paths
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.tenant import Tenant, TenantClient
from mcp_server_qdrant.qdrant.write.points import DATE_INDEX, SERVER_INDEXES, Points, Tally
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.ranking import TIME_FIELDS


@dataclass(frozen=True, slots=True)
class TenantView:
    """The part of the engine that one set of services works with; by default all of it.

    `indexes` are payload fields that new collections index.
    """

    client: Any
    identify: Identify = point_id
    indexes: Mapping[str, Any] = field(default_factory=dict)


class Shared:
    """Common parts of all services over one engine; none of them remembers contents."""

    def __init__(self, settings: Settings, client: Any, encoders: Registry) -> None:
        encoders.default.start()
        self.settings = settings
        self.client = client
        self.encoders = encoders
        self.bm25 = Bm25Encoder(settings.bm25_language)
        self.rerank = open_rerank(settings, encoders.host)
        self._tally = Tally()
        self.filterable = [(each.name, each.field_type) for each in settings.filterable_fields]
        self.dates = tuple(dict.fromkeys((*DATES, *date_paths(settings.qdrant_recency_fields))))
        everything = TenantView(client)
        self.everything = self.catalog(everything)
        # It fills points of all tenants, and no caller sees them.
        points = self.points(everything)
        self._backfill = Backfill(self.everything, points, encoders, Pace(SYNC_SHARE))
        self.tasks = Tasks()
        fill = partial(self.tasks.start, "The filling of vectors", self._backfill.run)
        self.filling = None if settings.qdrant_read_only else fill()

    def work(self) -> dict[str, int]:
        """Counts of writes since the start, by kind."""
        return {"points_written": self._tally.written, "vectors_filled": self._tally.filled}

    def filling_now(self) -> Collection[str]:
        """The collections whose texts are getting their vectors; none where tenants are apart."""
        return () if self.settings.tenant_field else self._backfill.filling

    def pending(self) -> None:
        """Points wait for their vectors."""
        if self.settings.tenant_field:
            self.everything.forget_all()
        self._backfill.wake()

    def catalog(self, view: TenantView) -> Catalog:
        """The collections of a view."""
        return Catalog(
            view.client,
            self.encoders,
            default=self.settings.collection_name,
            allowed=self.settings.qdrant_collections,
            folder=self.settings.qdrant_folder,
            dates=self.dates,
        )

    def points(self, view: TenantView) -> Points:
        """The points of a view by id."""
        named = (name for name in self.settings.qdrant_recency_fields if name not in TIME_FIELDS)
        dates = [path for path in date_paths(named) if "." in path]
        return Points(
            view.client,
            self.settings.qdrant_content_fields,
            self.filterable,
            identify=view.identify,
            indexes={
                **({} if isinstance(self.client, EdgeClient) else SERVER_INDEXES),
                **dict.fromkeys(dates, DATE_INDEX),
                **view.indexes,
            },
            tally=self._tally,
        )

    def queries(self, view: TenantView) -> Queries:
        """The searches of a view."""
        if isinstance(self.client, EdgeClient):
            return Queries(view.client, self.dates, together=True)
        read = paths(self.settings.qdrant_content_fields, *self.settings.qdrant_recency_fields)
        return Queries(view.client, self.dates, read)

    def view(self, tenant: str | None) -> TenantView:
        """The view of a tenant, which leads to nobody else's points; of everything where None."""
        if tenant is None:
            if self.settings.tenant_field:
                raise ConfigError("TENANT_FIELD is set, but no tenant is named: set TENANT_ID too.")
            return TenantView(self.client)
        assert self.settings.tenant_field is not None
        kept = Tenant(tenant, self.settings.tenant_field)
        return TenantView(TenantClient(self.client, kept), point_ids_of(tenant), kept.indexes)

    async def close(self) -> None:
        """Let engine and models go."""
        await self.tasks.close()
        await self.everything.close()
        await self.rerank.close()
        await self.encoders.close()
        await self.client.close()
