"""Composition root of the engine side: wires the read and write paths.

Importing the engine's libraries takes most of a second, so `app/opening.py` imports this module in
a thread, after the handshake.
"""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mcp_server_qdrant.app.engines import open_engine
from mcp_server_qdrant.app.models import blueprint, open_encoders, open_rerank
from mcp_server_qdrant.app.process import local_models
from mcp_server_qdrant.core.context import caller, use_zone
from mcp_server_qdrant.core.datatypes import CollectionInfo, SyncedFolder
from mcp_server_qdrant.core.dates import DATES
from mcp_server_qdrant.core.errors import BackendError, RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import Identify, date_paths, point_id, point_ids_of
from mcp_server_qdrant.core.tasks import Tasks, gather
from mcp_server_qdrant.encoders.bm25 import AUTO, Bm25Encoder
from mcp_server_qdrant.encoders.language import stop_words
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.ingest.demo import store_demo
from mcp_server_qdrant.ingest.files.background import SYNC_SHARE, Background, Pace, Run
from mcp_server_qdrant.ingest.files.followed import Followed
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.pending import Backfill
from mcp_server_qdrant.ingest.revise import Reviser
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.projection.map import MapCache, Projector
from mcp_server_qdrant.qdrant import marks
from mcp_server_qdrant.qdrant.daily import back_up_daily
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.engine import Engine, WholeEngine
from mcp_server_qdrant.qdrant.history import History
from mcp_server_qdrant.qdrant.payload import document_of, payload_fields
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.facets import Facets
from mcp_server_qdrant.qdrant.read.lookup import Lookup
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.read.sample import Sampler
from mcp_server_qdrant.qdrant.tenant import Tenant, TenantClient
from mcp_server_qdrant.qdrant.texts import Texts
from mcp_server_qdrant.qdrant.write.bulk import Bulk
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
from mcp_server_qdrant.tools import why

KINDS = ("metadata.session", "metadata.from")  # distinguish sessions and mail from other texts
MOST_WRITERS = 8  # callers and clients that are named for a collection
KEPT = 256  # tenants whose catalogs, words and tags are remembered
LONGEST_NAME = 255
SEARCH_SHARE = 0.8  # of QDRANT_TIMEOUT, after which a find returns what it has
VECTORLESS = "some texts are still getting vectors; until then only keywords find them."


class Services:
    """Everything a tool may call, over one engine, for one tenant; None: without tenants."""

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
        texts = shared.catalog.texts if tenant is None else Texts(settings.qdrant_content_fields)
        points = shared.open_points(client, texts, identify, indexes)
        more = (*settings.qdrant_recency_fields, *KINDS)
        read = () if shared.embedded else payload_fields(texts, *more)
        queries = Queries(client, shared.dates, read, texts)
        self.shared = shared
        self.client = client
        self.encoders = shared.encoders
        self.catalog = shared.catalog if tenant is None else shared.open_catalog(client, texts)
        in_memory = settings.qdrant_url == ":memory:"  # it has no indexes and needs none
        self.facets = Facets(
            client,
            lambda name, key: in_memory or self.catalog.has_index(name, key),
            [f"metadata.{name}" for name, _ in shared.filterable],
        )
        self.lookup = Lookup(self.catalog, points)
        drawer = Sampler(client, texts)
        self.lexicon = _lexicon(settings, drawer, tenant)
        self.history = History(client, points, settings.history_days, self.catalog.visible, indexes)
        self.pipeline = Pipeline(
            self._understanding(queries),
            Fetch(queries, partial(document_of, content_fields=texts, identify=identify)),
            shared.rerank,
            Newest(client, shared.dates, texts),
            self.facets,
            self.history,
        )
        self.projector = Projector(
            self.catalog, drawer, self.encoders, self.pipeline.search, shared.maps
        )
        self.store = Store(
            self.catalog,
            points,
            self.encoders,
            shared.bm25,
            blueprint=partial(blueprint, settings, self.encoders),
            default=settings.collection_name,
            pending=shared.pending,
            written=self._after_store,
            queries=queries,
            history=self.history,
            mask=settings.mask_secrets,
        )
        self.deletion = Deletion(self.store, self.lookup, self._invalidate)
        self.revision = Reviser(self.store, self.deletion)
        paced = partial(self.sync, pace=Pace(SYNC_SHARE))
        self._followed = _followed(settings, tenant)
        self.background = _background(settings, paced, tenant, self._followed)

    async def sync(
        self,
        request: SyncRequest,
        report: Report | None = None,
        before: Report | None = None,
        pace: Pace | None = None,
    ) -> Report:
        """Sync files into a collection; see `Sync`."""
        # Most servers sync no folder, and need not import the readers of all formats.
        await asyncio.to_thread(import_module, "mcp_server_qdrant.ingest.files.sync")
        from mcp_server_qdrant.ingest.files.sync import Sync

        request = replace(request, collection=await self.catalog.resolve_alias(request.collection))
        return await Sync(self.store, request, report or Report(), before, pace).run()

    def _understanding(self, queries: Queries) -> Understanding:
        settings, bm25 = self.shared.settings, self.shared.bm25
        default = self.encoders.default
        return Understanding(
            catalog=self.catalog,
            lookup=self.lookup,
            queries=queries,
            encode=self.encoders.encode_query,
            reader=bm25.term_reader,
            terms=TermWeights(bm25.words, queries, bm25.markers, bm25.compound_terms),
            speller=Speller(bm25.tokens, self.lexicon, default.common, bm25.language_of),
            tags=TagIndex(self.facets.tags, bm25.tokens),
            timeout=SEARCH_SHARE * settings.qdrant_timeout,
            results=settings.qdrant_search_limit,
            rules=Rules(
                alpha=settings.hybrid_alpha,
                order=settings.qdrant_collection_priority_order,
                time_fields=settings.qdrant_recency_fields,
                recency_weight=settings.qdrant_recency_weight,
                rerank=settings.rerank,
            ),
            pool=self.shared.rerank.pool,
        )

    def _after_store(self, collection: str, texts: Sequence[str]) -> None:
        """Update the search caches after texts were stored."""
        self._invalidate(collection)
        self.lexicon.stored(collection, texts)

    def _invalidate(self, collection: str) -> None:
        """Invalidate the search caches of a collection."""
        self.projector.note_write(collection)
        self.pipeline.understanding.terms.forget(collection)
        self.pipeline.understanding.tags.changed(collection)

    def unfinished(self) -> dict[str, str]:
        """Collection -> a sentence on what cannot be found yet."""
        filling = {name: f"{name}: {VECTORLESS}" for name in self.shared.collections_being_filled()}
        waiting = self.background.status(waiting=True)
        return {**filling, **{name: f"{name}: {said}." for name, said in waiting.items()}}

    def faults(self) -> list[str]:
        """A sentence on each background task that failed; folder syncs report elsewhere."""
        parts = (self.shared.tasks, self.lexicon.tasks, self.pipeline.understanding.tags.tasks)
        return [sentence for part in parts for sentence in part.faults.values()]

    async def demo(self, name: str) -> int:
        """Store one of the demo collections; returns its number of texts."""
        return await store_demo(self.store, name)

    async def why_not(
        self,
        asked: SearchRequest,
        wanted: str,
        collection: str | None = None,
        folder: Path | None = None,
    ) -> list[str]:
        """Why the text with this id is not among the results; see `tools.why`."""
        return await why.why_not(self, asked, wanted, collection, folder)

    async def why_not_recalled(self, prompt: str, wanted: str, folder: Path) -> list[str]:
        """Why a hook does not recall the text with this id; see `tools.why`."""
        return await why.why_not_recalled(self, prompt, wanted, folder)

    async def describe_collections(self, names: Sequence[str]) -> list[CollectionInfo]:
        """Describe these collections; one without a description gets its distinctive words."""
        infos = await self.catalog.describe(names)
        found, _ = await gather(names, lambda name: self.facets.writers(name, MOST_WRITERS))
        infos = [replace(info, writers=tuple(found.get(info.name, ()))) for info in infos]
        silent = [info.name for info in infos if not info.description]
        targets = [await self.catalog.target(name) for name in silent]
        words = await self.lexicon.about(targets, self._stop_words)
        return [
            replace(info, description=info.description or words.get(info.name)) for info in infos
        ]

    async def annotate(
        self,
        name: str,
        description: str | None,
        folder: Path | None,
        *,
        unassign: bool,
        create: bool,
    ) -> list[Path]:
        """Set a collection's description, add a folder, and return its folders.

        Raises RequestError if tenants share the collections.
        """
        if self.shared.settings.tenant_field:
            raise RequestError(
                "Tenants share collections here: only the operator can describe them."
            )
        await self.store.ensure(name, create=create)
        bulk = Bulk(self.shared.client, ())
        if description is not None:
            await bulk.set_description(name, description.strip())
        if folder or unassign:
            known = marks.folders((await bulk.shape(name)).metadata)
            await bulk.set_folders(name, [*known, folder] if folder else [])
        self.catalog.forget(name)
        return marks.folders((await bulk.shape(name)).metadata)

    async def follow(self, folder: Path, collection: str, *, follow: bool) -> bool:
        """Start or stop syncing this folder into the collection; False if that is not allowed.

        Raises RequestError if it conflicts with another followed folder.
        """
        synced = SyncedFolder(folder, collection)
        may = self._followed.allows(folder) if follow else synced in self._followed.folders()
        named = {(one.path, one.collection) for one in self.shared.settings.sync_sources}
        if not may or (folder, collection) in named:
            return False
        if follow:
            self.background.add(synced)
        else:
            self.background.remove(synced)
        try:
            await asyncio.to_thread(self._followed.keep, folder, collection if follow else None)
        except BackendError:
            self.background.remove(synced)
            raise
        return True

    def _stop_words(self, words: str) -> frozenset[str]:
        """The stop words of keyword search, and of the language of `words`."""
        bm25 = self.shared.bm25
        return stop_words({bm25.language, bm25.language_of(words)})

    async def stop(self) -> None:
        """Stop the background tasks."""
        await self.background.close()
        await self.projector.close()
        await self.pipeline.understanding.tags.close()
        await self.lexicon.close()
        await self.catalog.close()

    async def close(self) -> None:
        """Close the engine and the models."""
        await self.shared.close()


class Shared:
    """What all services over one engine share (no contents), and the services of each tenant.

    Services are cached for the tenants used last, and always for TENANT_ID; without tenants, under
    None. Their caches (names, counts, words, tags) hold one tenant's data only.
    """

    def __init__(self, settings: Settings, client: WholeEngine, encoders: Registry) -> None:
        use_zone(settings.zone)
        self.settings = settings
        self.client = client
        self.embedded = isinstance(client, EdgeClient)
        self.encoders = encoders
        self.bm25 = Bm25Encoder(AUTO)
        self.rerank = open_rerank(settings, local_models())
        self.maps = MapCache()
        self._tally = Tally()
        self.filterable = [(each.name, each.field_type) for each in settings.filterable_fields]
        self.dates = tuple(dict.fromkeys((*DATES, *date_paths(settings.qdrant_recency_fields))))
        # These see the points of all tenants, so no caller gets them.
        texts = Texts(settings.qdrant_content_fields)
        self.catalog = self.open_catalog(client, texts)
        points = self.open_points(client, texts)
        self._backfill = Backfill(self.catalog, points, encoders, Pace(SYNC_SHARE))
        self.tasks = Tasks()
        self.filling: asyncio.Task[None] | None = None
        self._known: dict[str | None, Services] = {}  # in order of use, the latest last
        self._fixed = settings.tenant_id if settings.tenant_field else None
        if self._fixed or not settings.tenant_field:
            self._known[self._fixed] = Services(self, self._fixed)

    def start(self, *, tending: bool = True) -> "Shared":
        """Load the models; `tending`: start background work too."""
        settings, client = self.settings, self.client
        self.encoders.default.start()
        if settings.rerank:
            self.rerank.reranker.start()
        if tending and not settings.qdrant_read_only:
            self.filling = self.tasks.start("The adding of missing vectors", self._backfill.run)
            if own := self._known.get(self._fixed):  # the folders belong to TENANT_ID
                own.background.start()
        if tending and isinstance(client, EdgeClient) and (folder := settings.qdrant_daily_backup):
            daily = partial(back_up_daily, client, folder, settings.qdrant_collections)
            self.tasks.start("The daily backup", daily)
        return self

    def services_of_caller(self) -> Services:
        """The services of the current call's tenant. Raises RequestError if it has none."""
        use_zone(self.settings.zone)
        tenant = self._tenant()
        services = self._known.pop(tenant, None) or Services(self, tenant)
        self._known[tenant] = services
        others = [one for one in self._known if one != self._fixed]  # that one may sync folders
        if len(others) > KEPT:
            del self._known[others[0]]  # pending work keeps its own reference
        return services

    def _tenant(self) -> str | None:
        """The tenant in the caller's verified claim, else TENANT_ID."""
        field, who = self.settings.tenant_field, caller()
        if field is None:
            return None
        if who is None:
            if self._fixed is None:
                raise RequestError(
                    "This server has tenants: call with a token that names one, or set TENANT_ID."
                )
            return self._fixed
        claim = self.settings.tenant_claim or field
        name = who.claims.get(claim)
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
            raise RequestError(
                f"This token names no tenant: it needs the claim {claim!r}, a string."
            )
        return name

    def work(self) -> dict[str, int]:
        """Counts of writes since the start, by kind, and of the synced folders."""
        fixed = self._known.get(self._fixed)
        counts = {"points_written": self._tally.written, "vectors_filled": self._tally.filled}
        return {**counts, **(fixed.background.counts() if fixed else {})}

    def collections_being_filled(self) -> Collection[str]:
        """The collections whose texts are getting vectors; always empty with tenants."""
        return () if self.settings.tenant_field else self._backfill.filling

    def pending(self) -> None:
        """Wake the backfill: points are waiting for vectors."""
        if self.settings.tenant_field:
            self.catalog.forget_all()
        self._backfill.wake()

    def open_catalog(self, client: Engine, texts: Texts) -> Catalog:
        """The collections that a client sees."""
        return Catalog(
            client,
            self.encoders,
            default=self.settings.collection_name,
            allowed=self.settings.qdrant_collections,
            folder=self.settings.qdrant_folder,
            dates=self.dates,
            unindexed=self.settings.qdrant_url == ":memory:",
            texts=texts,
        )

    def open_points(
        self,
        client: Engine,
        texts: Texts,
        identify: Identify = point_id,
        indexes: Mapping[str, Any] | None = None,
    ) -> Points:
        """The points of a client's collections; new collections also get these `indexes`."""
        named = (name for name in self.settings.qdrant_recency_fields if name not in TIME_FIELDS)
        dates = [path for path in date_paths(named) if "." in path]
        return Points(
            client,
            texts,
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
        """Close the engine and the models."""
        for services in [*self._known.values()]:
            await services.stop()
        await self.tasks.close()
        await self.catalog.close()
        await self.rerank.close()
        await self.encoders.close()
        await self.client.close()


async def open_shared(settings: Settings, *, tending: bool = True) -> Shared:
    """Open the engine and the models that the settings name, and start the services over them.

    Raises EngineUnavailable, ConfigError.
    """
    client = await open_engine(settings, settings.qdrant_timeout)
    shared = Shared(settings, client, open_encoders(settings, local_models()))
    return shared.start(tending=tending)


def assemble(settings: Settings, client: WholeEngine, encoders: Registry) -> Services:
    """The caller's services over an open engine. Raises like `Shared.services_of_caller`."""
    return Shared(settings, client, encoders).start().services_of_caller()


def _followed(settings: Settings, tenant: str | None) -> Followed:
    """The folders that agents let the server follow; none with tenants or if it only reads."""
    key = hashlib.sha256(_cache_key(settings, tenant).encode()).hexdigest()[:16]
    apart = settings.qdrant_read_only or settings.tenant_field or settings.qdrant_url == ":memory:"
    file = settings.cache_path / "sync" / f"followed-{key}.json"
    return Followed(file, () if apart else settings.qdrant_follow_roots)


def _background(settings: Settings, run: Run, tenant: str | None, followed: Followed) -> Background:
    """The sync of the configured folders, if this server may write.

    The folders belong to TENANT_ID; other tenants never see them.
    """
    may_sync = not settings.qdrant_read_only and tenant in (None, settings.tenant_id)
    named = settings.sync_sources if may_sync else ()
    taken = {(one.collection, one.label) for one in named}
    more = [one for one in followed.folders() if (one.collection, one.label) not in taken]
    folders = (*named, *more)
    locks = None if settings.qdrant_url == ":memory:" else settings.cache_path / "sync"
    return Background(run, folders, locks, _cache_key(settings, tenant))


def _cache_key(settings: Settings, tenant: str | None) -> str:
    """A key for this engine and tenant, for files in the cache folder."""
    engine = (settings.qdrant_url or str(settings.local_path.resolve())).rstrip("/")
    return engine if tenant is None else f"{engine}\0{tenant}"


def _lexicon(settings: Settings, drawer: Sampler, tenant: str | None) -> Lexicon:
    """The words of the collections, saved on disk unless the engine is in memory."""
    if settings.qdrant_url == ":memory:":
        return Lexicon(drawer.texts)
    return Lexicon(drawer.texts, settings.cache_path / "words", _cache_key(settings, tenant))
