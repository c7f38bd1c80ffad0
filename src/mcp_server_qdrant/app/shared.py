"""What all services over one engine share: the engine, the models, the filling of points."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from mcp_server_qdrant.app.check import HitCheck
from mcp_server_qdrant.app.models import open_choice
from mcp_server_qdrant.app.tenants import View, view_of
from mcp_server_qdrant.app.upkeep import upgrades_of
from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest.pending import Backfill
from mcp_server_qdrant.qdrant.bulk import Bulk
from mcp_server_qdrant.qdrant.catalog import Catalog
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.leftovers import Leftovers
from mcp_server_qdrant.qdrant.payload import paths
from mcp_server_qdrant.qdrant.points import Points, Tally
from mcp_server_qdrant.qdrant.query import Queries
from mcp_server_qdrant.qdrant.tenant.reads import Corpus
from mcp_server_qdrant.qdrant.trips import EdgeQueries
from mcp_server_qdrant.settings.environment import Settings


class Resting(Protocol):
    """What does things in the background."""

    async def rest(self) -> None:
        """Stop."""


class Shared:
    """What all services over one engine have in common; nothing of it remembers contents."""

    def __init__(self, settings: Settings, client: Any, encoders: Registry, rerank: Any) -> None:
        encoders.default.start()
        self.settings = settings
        self.client = client
        self.encoders = encoders
        self.bm25 = Bm25Encoder(settings.bm25_language)
        self.choice = open_choice(settings, encoders)
        self.rerank = rerank
        self.check = _check(settings)
        self._tally = Tally()
        remote = settings.qdrant_url not in (None, ":memory:")
        self.corpus = Corpus(partial(_version, client) if remote else None)
        self._all = View(client, client, encoders)
        self.everything = self._catalog_of(self._all)
        self._upgrades = upgrades_of(settings, Bulk(client, settings.qdrant_content_fields))
        # It fills points of all tenants, and shows them to nobody.
        points = self.points(self._all, client)
        self._leftovers = Leftovers(points)
        sweep = self._leftovers.sweep
        self._backfill = Backfill(self.everything, points, encoders, self._refill, sweep)
        self.tasks = Tasks()
        fill = partial(self.tasks.start, "The filling of vectors", self._backfill.run)
        self.filling = None if settings.qdrant_read_only else fill()

    def work(self) -> dict[str, int]:
        """What was written since the start, by kind."""
        return {"points_written": self._tally.written, "vectors_filled": self._tally.filled}

    def pending(self) -> None:
        """Points wait for their vectors."""
        if self.settings.tenant_field:
            self.everything.forget_all()
        self._backfill.wake()

    def catalog(self, view: View) -> Catalog:
        """The collections of a view."""
        return self.everything if view is self._all else self._catalog_of(view)

    def _catalog_of(self, view: View) -> Catalog:
        named, allowed = self.settings.collection_name, self.settings.qdrant_collections
        return Catalog(
            view.reader,
            self.choice,
            default=named,
            allowed=allowed,
            gained=self._upgraded,
            shown=Leftovers(self.points(view, view.reader)).shown,
        )

    def leftovers(self, met: Sequence[Document]) -> None:
        """A search met parts that no reader is shown."""
        if due := self._leftovers.due(met):
            self._backfill.met(due)

    def _upgraded(self, name: str) -> None:
        """A collection turned out to have been upgraded."""
        self._backfill.upgraded(name)

    async def _refill(self, name: str) -> None:
        await self._upgrades.refill(await self.everything.target(name), self.encoders.of)

    def points(self, view: View, client: Any) -> Points:
        """Points by id, through the reader or the writer of a view."""
        fields = [(field.name, field.field_type) for field in self.settings.filterable_fields]
        return Points(
            client,
            self.settings.qdrant_content_fields,
            fields,
            identify=view.identify,
            indexes=view.indexes,
            tally=self._tally,
        )

    def queries(self, view: View) -> Queries:
        """The read side of a view's engine."""
        if not isinstance(self.client, EdgeClient):
            return Queries(view.reader, view.hidden)
        settings = self.settings
        tenant = (settings.tenant_field, settings.tenant_shared_field)
        more = (*settings.recency_fields, *(tenant if settings.tenant_field else ()))
        read = paths(settings.qdrant_content_fields, *map(str, more))
        return EdgeQueries(view.reader, view.hidden, read)

    def view(self, tenant: str | None) -> View:
        """What a tenant works with; where none are kept apart, everyone with everything."""
        if tenant is None:
            if self.settings.tenant_field:
                raise ConfigError("Tenants are kept apart: nobody gets everything.")
            return self._all
        return view_of(tenant, self.settings, self.client, self.encoders, self.corpus)

    async def close(self, several: Sequence[Resting]) -> None:
        """Let engine and models go, and these services before them."""
        for services in several:
            await services.rest()
        await self.tasks.close()
        await self.everything.close()
        await self.rerank.close()
        if self.check is not None:
            await self.check.close()
        await self.encoders.close()
        await self.client.close()


def _check(settings: Settings) -> HitCheck | None:
    key = settings.tenant_check_key
    if settings.tenant_check_url is None:
        return None
    return HitCheck(
        settings.tenant_check_url,
        key.get_secret_value() if key else None,
    )


async def _version(client: Any) -> str:
    return str((await client.info()).version)
