"""Composition root of the engine side: wires the read and write paths.

Imports the engine's libraries, which take most of a second: `app/opening.py` loads this module in a
thread, after the handshake.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.app.models import blueprint
from mcp_server_qdrant.app.shared import Shared
from mcp_server_qdrant.core.datatypes import CollectionInfo
from mcp_server_qdrant.core.find import Preferences
from mcp_server_qdrant.core.tasks import gathered
from mcp_server_qdrant.encoders.language import stop_words
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.ingest.demo import store_demo
from mcp_server_qdrant.ingest.files.background import SYNC_SHARE, Background, Pace, Run
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.revise import Revision
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.projection.map import Projector
from mcp_server_qdrant.qdrant.history import History
from mcp_server_qdrant.qdrant.payload import document_of
from mcp_server_qdrant.qdrant.read.draw import Drawer
from mcp_server_qdrant.qdrant.read.facets import Facets
from mcp_server_qdrant.qdrant.read.lookup import Lookup
from mcp_server_qdrant.qdrant.read.newest import Newest
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.search.pipeline import Pipeline
from mcp_server_qdrant.search.query import Rules
from mcp_server_qdrant.search.retrieve import Fetch
from mcp_server_qdrant.search.understand import Understanding
from mcp_server_qdrant.search.words.lexicon import Lexicon
from mcp_server_qdrant.search.words.spelling import Speller
from mcp_server_qdrant.search.words.tags import TagIndex
from mcp_server_qdrant.search.words.terms import TermWeights
from mcp_server_qdrant.settings.environment import Settings

MOST_WRITERS = 8  # callers and clients that are named for a collection
VECTORLESS = "some texts get their vectors just now; until then keywords find them."


class Services:
    """Everything a tool may call, over one engine, as a tenant sees it; None: as everyone does."""

    def __init__(self, shared: Shared, tenant: str | None) -> None:
        settings, view = shared.settings, shared.view(tenant)
        points, queries = shared.points(view), shared.queries(view)
        fields = settings.qdrant_content_fields
        self.shared = shared
        self.client = view.client
        self.encoders = shared.encoders
        self.catalog = shared.everything if tenant is None else shared.catalog(view)
        in_memory = settings.qdrant_url == ":memory:"  # it counts without an index, and has none
        self.facets = Facets(
            view.client,
            lambda name, key: in_memory or self.catalog.indexed(name, key),
            [f"metadata.{name}" for name, _ in shared.filterable],
        )
        self.lookup = Lookup(self.catalog, points)
        drawer = Drawer(view.client, fields)
        self.lexicon = _lexicon(settings, drawer, tenant)
        self.pipeline = Pipeline(
            self._understanding(queries),
            Fetch(queries, partial(document_of, content_fields=fields, identify=view.identify)),
            shared.rerank,
            Newest(view.client, shared.dates, fields),
            self.facets,
        )
        self.projector = Projector(self.catalog, drawer, self.encoders, self.pipeline.search)
        self.history = History(
            view.client, points, settings.history_days, self.catalog.visible, view.indexes
        )
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
        self.deletion = Deletion(self.store, self.lookup, self._deleted)
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
        self.projector.changed(collection)
        self.pipeline.understanding.terms.probes.changed(collection)
        self.pipeline.understanding.tags.changed(collection)
        self.lexicon.stored(collection, texts)

    def _deleted(self, collection: str) -> None:
        """Forget what searches remember of deleted texts."""
        self.projector.changed(collection)
        self.pipeline.understanding.terms.probes.forget(collection)
        self.pipeline.understanding.tags.changed(collection)

    def of_caller(self) -> "Services":
        """The services that the caller may use: these."""
        return self

    def work(self) -> dict[str, int]:
        """Counts of writes since the start, by kind, and of the folders kept in step."""
        return {**self.shared.work(), **self.background.counts()}

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
        await self.stop()
        await self.shared.close()


def wire(settings: Settings, client: AsyncQdrantBase, encoders: Registry) -> Services:
    """The services over an open engine, of the one tenant that the settings name, if any."""
    tenant = settings.tenant_id if settings.tenant_field else None
    return Services(Shared(settings, client, encoders), tenant)


def _background(settings: Settings, run: Run, tenant: str | None) -> Background:
    """Keeps folders in step from now on, if any are to be and this server may write.

    They are of the tenant that the settings name; no other learns of them.
    """
    may = not settings.qdrant_read_only and tenant in (None, settings.tenant_id)
    folders = settings.sync_sources if may else ()
    alone = settings.qdrant_url == ":memory:"
    background = Background(run, folders, None if alone else settings.cache_path / "sync")
    background.start()
    return background


def _lexicon(settings: Settings, drawer: Drawer, tenant: str | None) -> Lexicon:
    """The words of the collections; those of a trial engine are not kept on disk."""
    if settings.qdrant_url == ":memory:":
        return Lexicon(drawer.texts)
    engine = settings.qdrant_url or str(settings.local_path.resolve())
    owner = engine if tenant is None else f"{engine}\0{tenant}"
    return Lexicon(drawer.texts, settings.cache_path / "words", owner)
