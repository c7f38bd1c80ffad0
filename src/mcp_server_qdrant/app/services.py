"""Composition root of the engine side: wires the read and write paths.

Imports the engine's libraries, which take most of a second: `app/opening.py` loads this module in a
thread, after the handshake.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from mcp_server_qdrant.app.models import blueprint, open_rerank
from mcp_server_qdrant.core.context import caller
from mcp_server_qdrant.core.datatypes import CollectionInfo
from mcp_server_qdrant.core.dates import DATES
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import Preferences
from mcp_server_qdrant.core.notation import Identify, date_paths, point_id, point_ids_of
from mcp_server_qdrant.core.tasks import Tasks, gathered
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.language import stop_words
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.ingest.demo import store_demo
from mcp_server_qdrant.ingest.files.background import SYNC_SHARE, Background, Pace, Run
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.pending import Backfill
from mcp_server_qdrant.ingest.revise import Revision
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.projection.map import Projector, Shelf
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.engine import Engine, WholeEngine
from mcp_server_qdrant.qdrant.history import History
from mcp_server_qdrant.qdrant.payload import document_of, paths
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.draw import Drawer
from mcp_server_qdrant.qdrant.read.facets import Facets
from mcp_server_qdrant.qdrant.read.lookup import Lookup
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.tenant import Tenant, TenantClient
from mcp_server_qdrant.qdrant.write.points import DATE_INDEX, SERVER_INDEXES, Points, Tally
from mcp_server_qdrant.search.pipeline import Pipeline
from mcp_server_qdrant.search.retrieve import Fetch
from mcp_server_qdrant.search.understand import Rules, Understanding
from mcp_server_qdrant.search.words.lexicon import Lexicon
from mcp_server_qdrant.search.words.spelling import Speller
from mcp_server_qdrant.search.words.tags import TagIndex
from mcp_server_qdrant.search.words.terms import TermWeights
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.ranking import TIME_FIELDS

MOST_WRITERS = 8  # callers and clients that are named for a collection
KEPT = 256  # tenants whose catalogs, words and tags are remembered
LONGEST_NAME = 255
VECTORLESS = "some texts get their vectors just now; until then keywords find them."


class Services:
    """Everything a tool may call, over one engine, as a tenant sees it; None: as everyone does."""

    def __init__(self, shared: "Shared", tenant: str | None) -> None:
        settings = shared.settings
        client: Engine = shared.client
        identify: Identify = point_id
        indexes: Mapping[str, Any] = {}
        if tenant is not None:
            assert settings.tenant_field is not None
            kept = Tenant(tenant, settings.tenant_field)
            client, indexes = TenantClient(shared.client, kept), kept.indexes
            identify = point_ids_of(tenant)
        points = shared.open_points(client, identify, indexes)
        fields, embedded = settings.qdrant_content_fields, shared.embedded
        read = () if embedded else paths(fields, *settings.qdrant_recency_fields)
        queries = Queries(client, shared.dates, read)
        self.shared = shared
        self.client = client
        self.encoders = shared.encoders
        self.catalog = shared.catalog if tenant is None else shared.open_catalog(client)
        in_memory = settings.qdrant_url == ":memory:"  # it counts without an index, and has none
        self.facets = Facets(
            client,
            lambda name, key: in_memory or self.catalog.indexed(name, key),
            [f"metadata.{name}" for name, _ in shared.filterable],
        )
        self.lookup = Lookup(self.catalog, points)
        drawer = Drawer(client, fields)
        self.lexicon = _lexicon(settings, drawer, tenant)
        self.pipeline = Pipeline(
            self._understanding(queries),
            Fetch(queries, partial(document_of, content_fields=fields, identify=identify)),
            shared.rerank,
            Newest(client, shared.dates, fields),
            self.facets,
        )
        self.projector = Projector(
            self.catalog, drawer, self.encoders, self.pipeline.search, shared.maps
        )
        self.history = History(client, points, settings.history_days, self.catalog.visible, indexes)
        self.store = Store(
            self.catalog,
            points,
            self.encoders,
            shared.bm25,
            blueprint=partial(blueprint, settings, self.encoders),
            default=settings.collection_name,
            pending=shared.pending,
            written=self._written,
            queries=queries,
            history=self.history,
            mask=settings.mask_secrets,
        )
        self.deletion = Deletion(self.store, self.lookup, self._changed)
        self.revision = Revision(self.store, self.deletion)
        paced = partial(self.sync, pace=Pace(SYNC_SHARE))
        self.background = _background(settings, paced, tenant)

    async def sync(
        self,
        request: SyncRequest,
        report: Report | None = None,
        before: Report | None = None,
        pace: Pace | None = None,
    ) -> Report:
        """Bring files and a collection in step, as `Sync` does."""
        # Most servers keep no folder in step, and are spared the readers of all formats.
        await asyncio.to_thread(import_module, "mcp_server_qdrant.ingest.files.sync")
        from mcp_server_qdrant.ingest.files.sync import Sync

        return await Sync(self.store, request, report or Report(), before, pace).run()

    def _understanding(self, queries: Queries) -> Understanding:
        settings, bm25 = self.shared.settings, self.shared.bm25
        default = self.encoders.default
        return Understanding(
            catalog=self.catalog,
            lookup=self.lookup,
            queries=queries,
            encode=self.encoders.encode_query,
            reader=bm25.reader,
            terms=TermWeights(bm25.words, queries, bm25.markers, bm25.compounds),
            speller=Speller(bm25.tokens, self.lexicon, default.common, bm25.language_of),
            tags=TagIndex(self.facets.tags, bm25.tokens),
            timeout=settings.qdrant_search_timeout,
            results=settings.qdrant_search_limit,
            preferences=Preferences.among(settings),
            rules=Rules(
                alpha=settings.hybrid_alpha,
                order=settings.qdrant_collection_priority_order,
                decay=settings.qdrant_recency_decay,
                time_fields=settings.qdrant_recency_fields,
            ),
            pool=self.shared.rerank.pool,
        )

    def _written(self, collection: str, texts: Sequence[str]) -> None:
        """Bring up to date what searches remember of a collection."""
        self._changed(collection)
        self.lexicon.stored(collection, texts)

    def _changed(self, collection: str) -> None:
        """Forget what searches remember of texts that were replaced or deleted."""
        self.projector.changed(collection)
        self.pipeline.understanding.terms.forget(collection)
        self.pipeline.understanding.tags.changed(collection)

    def coming(self) -> dict[str, str]:
        """Collection -> what of it cannot be found yet, in a sentence."""
        filling = {name: f"{name}: {VECTORLESS}" for name in self.shared.filling_now()}
        waiting = self.background.status(waiting=True)
        return {**filling, **{name: f"{name}: {said}." for name, said in waiting.items()}}

    def faults(self) -> list[str]:
        """A sentence on each thing in the background that died, but for the sync of folders."""
        parts = (self.shared.tasks, self.lexicon.tasks, self.pipeline.understanding.tags.tasks)
        return [sentence for part in parts for sentence in part.faults.values()]

    async def demo(self, name: str) -> int:
        """Store one of the demo's collections; how many texts it has."""
        return await store_demo(self.store, name)

    async def described(self, names: Sequence[str]) -> list[CollectionInfo]:
        """These collections; one without a description by the words that tell it from others."""
        infos = await self.catalog.describe(names)
        found, _ = await gathered(names, lambda name: self.facets.writers(name, MOST_WRITERS))
        infos = [replace(info, writers=tuple(found.get(info.name, ()))) for info in infos]
        silent = [info.name for info in infos if not info.description]
        targets = [await self.catalog.target(name) for name in silent]
        words = await self.lexicon.about(targets, self._stop_words)
        return [
            replace(info, description=info.description or words.get(info.name)) for info in infos
        ]

    def _stop_words(self, words: str) -> frozenset[str]:
        """Those of keyword search, and of the language of `words`."""
        bm25 = self.shared.bm25
        return stop_words({bm25.language, bm25.language_of(words)})

    async def stop(self) -> None:
        """Stop the work in the background."""
        await self.background.close()
        await self.projector.close()
        await self.pipeline.understanding.tags.close()
        await self.lexicon.close()
        await self.catalog.close()

    async def close(self) -> None:
        """Let engine and models go."""
        await self.shared.close()


class Shared:
    """What all services over one engine share, none of it contents, and the services of each
    tenant: of those used last, and always of TENANT_ID. Without tenants there are those of None.

    All that services remember (names, counts, words, tags) is one tenant's, as they are.
    """

    def __init__(self, settings: Settings, client: WholeEngine, encoders: Registry) -> None:
        encoders.default.start()
        self.settings = settings
        self.client = client
        self.embedded = isinstance(client, EdgeClient)
        self.encoders = encoders
        self.bm25 = Bm25Encoder(settings.bm25_language)
        self.rerank = open_rerank(settings, encoders.host)
        self.maps = Shelf()
        self._tally = Tally()
        self.filterable = [(each.name, each.field_type) for each in settings.filterable_fields]
        self.dates = tuple(dict.fromkeys((*DATES, *date_paths(settings.qdrant_recency_fields))))
        # These see the points of all tenants, and are no caller's.
        self.catalog = self.open_catalog(client)
        points = self.open_points(client)
        self._backfill = Backfill(self.catalog, points, encoders, Pace(SYNC_SHARE))
        self.tasks = Tasks()
        fill = partial(self.tasks.start, "The filling of vectors", self._backfill.run)
        self.filling = None if settings.qdrant_read_only else fill()
        self._known: dict[str | None, Services] = {}  # the one used last stands last
        self._fixed = settings.tenant_id if settings.tenant_field else None
        if self._fixed or not settings.tenant_field:
            self._known[self._fixed] = Services(self, self._fixed)

    def of_caller(self) -> Services:
        """Those of the call under way. Raises RequestError where it has no tenant."""
        tenant = self._tenant()
        services = self._known.pop(tenant, None) or Services(self, tenant)
        self._known[tenant] = services
        others = [one for one in self._known if one != self._fixed]  # which may sync folders
        if len(others) > KEPT:
            del self._known[others[0]]  # it finishes its work under way
        return services

    def _tenant(self) -> str | None:
        """The tenant that the caller's verified claim names, else that of the settings."""
        field, who = self.settings.tenant_field, caller()
        if field is None:
            return None
        if who is None:
            if self._fixed is None:
                raise RequestError(
                    "Tenants are kept apart here: call with a token that names one, or set "
                    "TENANT_ID."
                )
            return self._fixed
        claim = self.settings.tenant_claim or field
        name = who.claims.get(claim)
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
            raise RequestError(f"This token names no tenant: it needs the claim {claim!r}, a text.")
        return name

    def work(self) -> dict[str, int]:
        """Counts of writes since the start, by kind, and of the folders kept in step."""
        fixed = self._known.get(self._fixed)
        counts = {"points_written": self._tally.written, "vectors_filled": self._tally.filled}
        return {**counts, **(fixed.background.counts() if fixed else {})}

    def filling_now(self) -> Collection[str]:
        """The collections whose texts are getting their vectors; none where tenants are apart."""
        return () if self.settings.tenant_field else self._backfill.filling

    def pending(self) -> None:
        """Points wait for their vectors."""
        if self.settings.tenant_field:
            self.catalog.forget_all()
        self._backfill.wake()

    def open_catalog(self, client: Engine) -> Catalog:
        """The collections that a client sees."""
        return Catalog(
            client,
            self.encoders,
            default=self.settings.collection_name,
            allowed=self.settings.qdrant_collections,
            folder=self.settings.qdrant_folder,
            dates=self.dates,
        )

    def open_points(
        self,
        client: Engine,
        identify: Identify = point_id,
        indexes: Mapping[str, Any] | None = None,
    ) -> Points:
        """Its points by id; new collections have these `indexes` too."""
        named = (name for name in self.settings.qdrant_recency_fields if name not in TIME_FIELDS)
        dates = [path for path in date_paths(named) if "." in path]
        return Points(
            client,
            self.settings.qdrant_content_fields,
            self.filterable,
            identify=identify,
            indexes={
                **({} if self.embedded else SERVER_INDEXES),
                **dict.fromkeys(dates, DATE_INDEX),
                **(indexes or {}),
            },
            tally=self._tally,
        )

    async def close(self) -> None:
        """Let engine and models go."""
        for services in [*self._known.values()]:
            await services.stop()
        await self.tasks.close()
        await self.catalog.close()
        await self.rerank.close()
        await self.encoders.close()
        await self.client.close()


def wire(settings: Settings, client: WholeEngine, encoders: Registry) -> Services:
    """The services of the caller over an open engine. Raises RequestError as `of_caller`."""
    return Shared(settings, client, encoders).of_caller()


def _background(settings: Settings, run: Run, tenant: str | None) -> Background:
    """Keeps folders in step from now on, if any are to be and this server may write.

    They are of the tenant that the settings name; no other learns of them.
    """
    may = not settings.qdrant_read_only and tenant in (None, settings.tenant_id)
    folders = settings.sync_sources if may else ()
    locks = None if settings.qdrant_url == ":memory:" else settings.cache_path / "sync"
    background = Background(run, folders, locks, _owner(settings, tenant))
    background.start()
    return background


def _owner(settings: Settings, tenant: str | None) -> str:
    """What tells these collections from those of other engines and tenants."""
    engine = (settings.qdrant_url or str(settings.local_path.resolve())).rstrip("/")
    return engine if tenant is None else f"{engine}\0{tenant}"


def _lexicon(settings: Settings, drawer: Drawer, tenant: str | None) -> Lexicon:
    """The words of the collections; those of a trial engine are not kept on disk."""
    if settings.qdrant_url == ":memory:":
        return Lexicon(drawer.texts)
    return Lexicon(drawer.texts, settings.cache_path / "words", _owner(settings, tenant))
