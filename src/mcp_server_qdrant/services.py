"""Composition root of the engine side: opens engine and encoders, wires the read and write paths.

Imports the engine's libraries, which take most of a second: `server.py` loads this module in a
thread, after the handshake.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.datatypes import Chunk, Document, Hit, Payload, PointId
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.choice import Choice
from mcp_server_qdrant.encoders.embedder import Embedder
from mcp_server_qdrant.encoders.hosted import ModelHost
from mcp_server_qdrant.encoders.hosted_rerank import DEFAULT_MODEL, HostedReranker
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.encoders.rerank_http import HttpReranker
from mcp_server_qdrant.ingest import walk
from mcp_server_qdrant.ingest.background import Background, Folder, Pace
from mcp_server_qdrant.ingest.chunk import split, tokens
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.ingest.pending import Backfill
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.ingest.sync import Parts, Sync
from mcp_server_qdrant.ingest.upgrade import Upgrades
from mcp_server_qdrant.projection_map import Projector
from mcp_server_qdrant.qdrant.bulk import Bulk
from mcp_server_qdrant.qdrant.catalog import Catalog
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.draw import Drawer
from mcp_server_qdrant.qdrant.edge import EdgeClient
from mcp_server_qdrant.qdrant.edge_trips import EdgeQueries
from mcp_server_qdrant.qdrant.files import Files
from mcp_server_qdrant.qdrant.lookup import Lookup
from mcp_server_qdrant.qdrant.payload import read, title_of
from mcp_server_qdrant.qdrant.points import Points, stored_payload
from mcp_server_qdrant.qdrant.query import Queries
from mcp_server_qdrant.qdrant.remote import Cluster
from mcp_server_qdrant.qdrant.sample import Sampler
from mcp_server_qdrant.qdrant.selection import Selection
from mcp_server_qdrant.qdrant.tags import TagFacets
from mcp_server_qdrant.search.algorithm import DenseShare
from mcp_server_qdrant.search.decay import Recency
from mcp_server_qdrant.search.lexicon import Lexicon
from mcp_server_qdrant.search.pipeline import Limits, Pipeline, Preferences
from mcp_server_qdrant.search.present import Presenter
from mcp_server_qdrant.search.rerank import Bounds, Rerank
from mcp_server_qdrant.search.spelling import Speller
from mcp_server_qdrant.search.tags import TagIndex
from mcp_server_qdrant.search.terms import TermWeights
from mcp_server_qdrant.search.titles import Titles
from mcp_server_qdrant.search.word_cache import WordCache
from mcp_server_qdrant.services_host import local_model, open_host
from mcp_server_qdrant.services_models import (
    blueprint,
    inference_headers,
    open_choice,
    open_encoders,
)
from mcp_server_qdrant.settings import Settings
from mcp_server_qdrant.upkeep import import_local_mode, upgrades_of

__all__ = ["Services", "open_encoders", "open_services", "wire"]


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a tool may call, over one engine."""

    client: AsyncQdrantBase
    catalog: Catalog
    encoders: Registry
    pipeline: Pipeline
    store: Store
    sync: Sync
    deletion: Deletion
    lookup: Lookup
    lexicon: Lexicon
    facets: TagFacets
    projector: Projector
    filling: asyncio.Task[None] | None
    points: Points
    background: Background

    def work(self) -> dict[str, int]:
        """What was written since the start, by kind, and what is kept in step."""
        return {
            "points_written": self.points.written,
            "vectors_filled": self.points.filled,
            **self.background.counts(),
        }

    async def close(self) -> None:
        """Let engine and models go."""
        await self.background.close()
        if self.filling is not None:
            self.filling.cancel()
            await asyncio.wait([self.filling])
        await self.projector.close()
        await self.pipeline.tags.close()
        await self.lexicon.close()
        await self.catalog.close()
        await self.pipeline.rerank.close()
        await self.encoders.close()
        await self.client.close()


async def open_services(settings: Settings, host: ModelHost | None = None) -> Services:
    """Open the engine that the settings name and begin to load the model.

    Raises EngineUnavailable where the embedded engine cannot be started, ConfigError.
    """
    key = settings.qdrant_api_key
    client = await open_client(
        url=settings.qdrant_url,
        api_key=key.get_secret_value() if key else None,
        prefer_grpc=settings.qdrant_prefer_grpc,
        local_path=settings.local_path,
        timeout=settings.qdrant_timeout,
        inference=inference_headers(settings),
        cluster=_cluster(settings),
    )
    if settings.qdrant_url is None:
        await import_local_mode(settings, client)
    return wire(settings, client, open_encoders(settings, host))


def wire(settings: Settings, client: AsyncQdrantBase, encoders: Registry) -> Services:
    """The services over an open engine."""
    encoders.default.start()
    bm25 = Bm25Encoder(settings.bm25_language)
    choice = open_choice(settings, encoders)
    catalog = _catalog(settings, client, choice, lambda name: backfill.upgraded(name))  # noqa: PLW0108 - made below
    points = _points(settings, client)
    upgrades = upgrades_of(settings, Bulk(client, settings.qdrant_content_fields))
    refill = partial(_refill, upgrades, catalog, encoders)
    backfill = Backfill(catalog, points, encoders, refill)
    facets = _facets(settings, client, catalog)
    lexicon = Lexicon(Sampler(client, settings.qdrant_content_fields), _word_cache(settings))
    pipeline = _pipeline(settings, _queries(client), catalog, encoders, bm25, facets, lexicon)
    projector = _projector(settings, client, catalog, encoders, pipeline)
    written = partial(_written, pipeline, lexicon, projector)
    deleted = partial(_deleted, pipeline, projector)
    store = Store(
        catalog,
        points,
        encoders,
        bm25,
        blueprint=partial(blueprint, settings, encoders, choice),
        split=cut,
        payload=stored_payload,
        default=settings.collection_name,
        pending=backfill.wake,
        written=written,
        title_factor=settings.title_factor,
    )
    parts = Parts(
        collections=catalog,
        points=points,
        files=Files(client),
        encoders=encoders,
        bm25=bm25,
        ensure=store.ensure,
        split=split,
        count=tokens,
        payload=stored_payload,
        written=written,
        title_factor=settings.title_factor,
    )
    return Services(
        client=client,
        catalog=catalog,
        encoders=encoders,
        pipeline=pipeline,
        store=store,
        sync=Sync(parts),
        deletion=_deletion(settings, client, catalog, points, store, deleted),
        lookup=Lookup(catalog, points),
        lexicon=lexicon,
        points=points,
        facets=facets,
        projector=projector,
        filling=None if settings.qdrant_read_only else asyncio.ensure_future(backfill.run()),
        background=_background(settings, parts),
    )


async def _refill(upgrades: Upgrades, catalog: Catalog, encoders: Registry, name: str) -> None:
    await upgrades.refill(await catalog.target(name), encoders.of)


def _cluster(settings: Settings) -> Cluster:
    return Cluster(
        timeout=settings.qdrant_timeout,
        shards=settings.shard_number,
        replicas=settings.replication_factor,
        write_consistency=settings.write_consistency_factor,
        on_disk_vectors=settings.on_disk_vectors,
        on_disk_payload=settings.on_disk_payload,
        quantization=settings.quantization,
        read_consistency=settings.read_consistency,
    )


def _background(settings: Settings, parts: Parts) -> Background:
    """Keeps folders in step from now on, if any are to be and this server may write."""
    paced = Sync(replace(parts, pace=Pace(settings.sync_share).of))
    folders = [
        Folder(one.path, one.collection, one.name, walk.Selection(one.include, one.exclude))
        for one in settings.sync_sources
        if not settings.qdrant_read_only
    ]
    alone = settings.qdrant_url == ":memory:"
    background = Background(paced, folders, None if alone else settings.cache_path / "sync")
    background.start()
    return background


async def cut(encoder: Embedder, text: str, limit: int, overlap: int) -> list[Chunk]:
    """The chunks of a text, counted where the model is; by guessed tokens where it is nowhere."""
    spans = await encoder.split(text, limit, overlap)
    if spans is None:
        tokenizer = await encoder.tokenizer_json()
        here = partial(split, limit=limit, tokenizer_json=tokenizer, overlap=overlap)
        return await asyncio.to_thread(here, text)
    return [Chunk(text[start:end], start, end) for start, end in spans]


def _points(settings: Settings, client: AsyncQdrantBase) -> Points:
    fields = [(field.name, field.field_type) for field in settings.filterable_fields]
    return Points(client, settings.qdrant_content_fields, fields)


def _facets(settings: Settings, client: AsyncQdrantBase, catalog: Catalog) -> TagFacets:
    in_memory = settings.qdrant_url == ":memory:"  # it counts without an index, and has none
    return TagFacets(client, lambda name, key: in_memory or catalog.indexed(name, key))


def _queries(client: AsyncQdrantBase) -> Queries:
    return EdgeQueries(client) if isinstance(client, EdgeClient) else Queries(client)


def _projector(
    settings: Settings,
    client: AsyncQdrantBase,
    catalog: Catalog,
    encoders: Registry,
    pipeline: Pipeline,
) -> Projector:
    drawer = Drawer(client, settings.qdrant_content_fields)
    return Projector(catalog, drawer, encoders, pipeline.search)


def _written(
    pipeline: Pipeline,
    lexicon: Lexicon,
    projector: Projector,
    collection: str,
    texts: Sequence[str],
) -> None:
    """What a search remembers of a collection follows what was written to it."""
    projector.changed(collection)
    pipeline.terms.changed(collection)
    pipeline.tags.changed(collection)
    lexicon.stored(collection, texts)


def _deleted(pipeline: Pipeline, projector: Projector, collection: str) -> None:
    """And what was deleted is forgotten."""
    projector.changed(collection)
    pipeline.terms.forget(collection)
    pipeline.tags.changed(collection)


def _deletion(
    settings: Settings,
    client: AsyncQdrantBase,
    catalog: Catalog,
    points: Points,
    store: Store,
    deleted: Callable[[str], None],
) -> Deletion:
    selection = Selection(client, settings.qdrant_content_fields)
    lookup = Lookup(catalog, points)
    return Deletion(catalog, lookup, points, selection, lock=store.lock, deleted=deleted)


def _catalog(
    settings: Settings, client: AsyncQdrantBase, choice: Choice, gained: Callable[[str], None]
) -> Catalog:
    """The collections as the settings show them; `gained` is told of upgrades."""
    return Catalog(
        client,
        choice,
        default=settings.collection_name,
        allowed=settings.qdrant_collections,
        gained=gained,
    )


def _word_cache(settings: Settings) -> WordCache | None:
    """Where vocabularies are kept; those of a trial engine are nowhere."""
    if settings.qdrant_url == ":memory:":
        return None
    engine = settings.qdrant_url or str(settings.local_path.resolve())
    return WordCache(settings.cache_path / "words", engine)


def _pipeline(
    settings: Settings,
    queries: Queries,
    catalog: Catalog,
    encoders: Registry,
    bm25: Bm25Encoder,
    facets: TagFacets,
    lexicon: Lexicon,
) -> Pipeline:
    def document(collection: str, point: PointId, payload: Payload | None) -> Document:
        return read(collection, point, payload, settings.qdrant_content_fields)

    def title(hit: Hit) -> str | None:
        return title_of(hit.payload)

    return Pipeline(
        catalog,
        queries,
        encoders,
        TermWeights(bm25, queries),
        Speller(bm25.tokens, lexicon, encoders.default.common),
        TagIndex(facets, bm25.tokens),
        Titles(title, bm25.tokens, settings.title_factor),
        Presenter(document, bm25.tokens),
        Limits(
            results=settings.qdrant_search_limit,
            factor=settings.search_limit_factor,
            deadline=settings.search_timeout,
            concurrency=settings.search_concurrency,
        ),
        Preferences(
            adaptive=_dense_share(settings),
            correct=settings.correct_typos,
            fuzzy=settings.fuzzy_weight,
            order=settings.priority_order,
            priority=settings.priority,
            recency=Recency(
                settings.recency_weight, settings.recency_decay, settings.recency_fields
            ),
            fold=settings.fold_duplicates,
            diversity=settings.diversity,
            rerank=settings.rerank,
        ),
        _rerank(settings, encoders.host or open_host(settings)),
    )


def _rerank(settings: Settings, host: ModelHost) -> Rerank:
    """Reranking as configured. Its model is loaded by the first call, or now where all need it."""
    reranker = _reranker(settings, host)
    if reranker and settings.rerank:
        reranker.start()
    return Rerank(
        reranker,
        Bounds(settings.rerank_pool, settings.rerank_timeout, settings.rerank_cooldown),
    )


def _reranker(settings: Settings, host: ModelHost) -> HostedReranker | HttpReranker | None:
    provider, key = settings.rerank_provider, settings.rerank_api_key
    if provider == "none":
        return None
    if provider == "fastembed" or (provider is None and settings.rerank_url is None):
        model = settings.rerank_model or DEFAULT_MODEL
        return HostedReranker(
            host, local_model(settings, model, settings.rerank_model_path, "rerank")
        )
    return HttpReranker(
        settings.rerank_url,
        speech=provider,
        model=settings.rerank_model,
        api_key=key.get_secret_value() if key else None,
    )


def _dense_share(settings: Settings) -> DenseShare:
    if settings.hybrid_alpha is not None:
        return DenseShare((settings.hybrid_alpha,))
    return DenseShare(settings.hybrid_alpha_steps, settings.hybrid_alpha_sizes)
