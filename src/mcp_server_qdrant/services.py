"""Composition root of the engine side: opens engine and encoders, wires the read and write paths.

Imports the engine's libraries, which take most of a second: `server.py` loads this module in a
thread, after the handshake.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.datatypes import Document, Hit, Payload, PointId
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.encoders.rerank_fastembed import FastEmbedReranker
from mcp_server_qdrant.encoders.rerank_http import HttpReranker
from mcp_server_qdrant.errors import ConfigError
from mcp_server_qdrant.ingest.chunk import split, tokens
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.ingest.sync import Parts, Sync
from mcp_server_qdrant.qdrant.catalog import Catalog
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.edge import EdgeClient
from mcp_server_qdrant.qdrant.edge_trips import EdgeQueries
from mcp_server_qdrant.qdrant.files import Files
from mcp_server_qdrant.qdrant.lookup import Lookup
from mcp_server_qdrant.qdrant.payload import read, title_of
from mcp_server_qdrant.qdrant.points import stored_payload
from mcp_server_qdrant.qdrant.query import Queries
from mcp_server_qdrant.qdrant.sample import Sampler
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
from mcp_server_qdrant.services_check import CheckedLookup, CheckedPipeline
from mcp_server_qdrant.services_models import (
    blueprint,
    inference_headers,
    open_encoders,
)
from mcp_server_qdrant.services_shared import Shared
from mcp_server_qdrant.services_tenants import Tenants, tenant_of_call
from mcp_server_qdrant.settings import Settings

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
    lookup: Lookup
    lexicon: Lexicon
    shared: Shared

    @property
    def filling(self) -> asyncio.Task[None] | None:
        """What fills pending points."""
        return self.shared.filling

    def mine(self) -> "Services":
        """What the caller may use: all of it."""
        return self

    async def rest(self) -> None:
        """Stop what goes on in the background."""
        await self.pipeline.tags.close()
        await self.lexicon.close()
        await self.catalog.close()

    async def close(self) -> None:
        """Let engine and models go."""
        await self.shared.close([self])


async def open_services(settings: Settings) -> Services:
    """Open the engine that the settings name and begin to load the model; for one tenant, if any.

    Raises EngineUnavailable where the embedded engine cannot be started, ConfigError.
    """
    if settings.tenant_field and settings.tenant_id is None:
        raise ConfigError("Whose points are meant? TENANT_FIELD is set: set TENANT_ID too.")
    return wire(settings, await _client(settings), open_encoders(settings))


async def open_for_callers(settings: Settings) -> "Services | Tenants[Services]":
    """The same for a server, whose callers may be of several tenants."""
    return assemble(settings, await _client(settings), open_encoders(settings))


async def _client(settings: Settings) -> AsyncQdrantBase:
    key = settings.qdrant_api_key
    return await open_client(
        url=settings.qdrant_url,
        api_key=key.get_secret_value() if key else None,
        prefer_grpc=settings.qdrant_prefer_grpc,
        local_path=settings.local_path,
        timeout=settings.qdrant_timeout,
        inference=inference_headers(settings),
    )


def assemble(
    settings: Settings, client: AsyncQdrantBase, encoders: Registry
) -> Services | Tenants[Services]:
    """The services over an open engine, for each tenant its own where tenants are kept apart."""
    if not settings.tenant_field:
        return wire(settings, client, encoders)
    shared = Shared(settings, client, encoders, _rerank(settings))
    return Tenants(
        partial(tenant_of_call, settings), lambda name: services_of(shared, name), shared.close
    )


def wire(settings: Settings, client: AsyncQdrantBase, encoders: Registry) -> Services:
    """The services over an open engine, of the one tenant that the settings name, if any."""
    if settings.tenant_field and settings.tenant_id is None:
        raise ConfigError("Whose points are meant? TENANT_FIELD is set: set TENANT_ID too.")
    tenant = settings.tenant_id if settings.tenant_field else None
    return services_of(Shared(settings, client, encoders, _rerank(settings)), tenant)


def services_of(shared: Shared, tenant: str | None) -> Services:
    """The services of a tenant; None: of everyone."""
    settings, view = shared.settings, shared.view(tenant)
    encoders, bm25 = view.encoders, shared.bm25
    catalog, points = shared.catalog(view), shared.points(view, view.writer)
    in_memory = settings.qdrant_url == ":memory:"  # it counts without an index, and has none
    facets = TagFacets(view.reader, lambda name, key: in_memory or catalog.indexed(name, key))
    sampler = Sampler(view.reader, settings.qdrant_content_fields)
    lexicon = Lexicon(sampler, _word_cache(settings, view.words))
    embedded = isinstance(shared.client, EdgeClient)
    queries = (EdgeQueries if embedded else Queries)(view.reader)
    search, look_up = _checked(shared, tenant)
    pipeline = _pipeline(shared, search, queries, catalog, encoders, facets, lexicon)
    written = partial(_written, pipeline, lexicon)
    store = Store(
        catalog,
        points,
        encoders,
        bm25,
        blueprint=partial(blueprint, settings, encoders, shared.choice),
        split=split,
        payload=stored_payload,
        default=settings.collection_name,
        pending=shared.pending,
        written=written,
        title_factor=settings.title_factor,
        identify=view.identify,
    )
    return Services(
        client=view.reader,
        catalog=catalog,
        encoders=encoders,
        pipeline=pipeline,
        store=store,
        sync=Sync(
            Parts(
                collections=catalog,
                points=points,
                files=Files(view.writer),
                encoders=encoders,
                bm25=bm25,
                ensure=store.ensure,
                split=split,
                count=tokens,
                payload=stored_payload,
                written=written,
                title_factor=settings.title_factor,
                identify=view.identify,
            )
        ),
        lookup=look_up(catalog, shared.points(view, view.reader)),
        lexicon=lexicon,
        shared=shared,
    )


def _checked(
    shared: Shared, tenant: str | None
) -> tuple[Callable[..., Pipeline], Callable[..., Lookup]]:
    """What searches, and what finds by id: their answers checked where the operator says so."""
    if shared.check is None or tenant is None:
        return Pipeline, Lookup
    return (
        partial(CheckedPipeline, shared.check, tenant),
        partial(CheckedLookup, shared.check, tenant),
    )


def _written(pipeline: Pipeline, lexicon: Lexicon, collection: str, texts: Sequence[str]) -> None:
    """What a search remembers of a collection follows what was written to it."""
    pipeline.terms.changed(collection)
    pipeline.tags.changed(collection)
    lexicon.stored(collection, texts)


def _word_cache(settings: Settings, whose: str) -> WordCache | None:
    """Where vocabularies are kept; those of a trial engine are nowhere."""
    if settings.qdrant_url == ":memory:":
        return None
    engine = settings.qdrant_url or str(settings.local_path.resolve())
    return WordCache(settings.cache_path / "words", engine + whose)


def _pipeline(
    shared: Shared,
    search: Callable[..., Pipeline],
    queries: Queries,
    catalog: Catalog,
    encoders: Registry,
    facets: TagFacets,
    lexicon: Lexicon,
) -> Pipeline:
    settings, bm25 = shared.settings, shared.bm25

    def document(collection: str, point: PointId, payload: Payload | None) -> Document:
        return read(collection, point, payload, settings.qdrant_content_fields)

    def title(hit: Hit) -> str | None:
        return title_of(hit.payload)

    return search(
        catalog,
        queries,
        encoders,
        TermWeights(bm25, queries),
        Speller(bm25.tokens, lexicon, encoders.default.knows),
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
        shared.rerank,
    )


def _rerank(settings: Settings) -> Rerank:
    """Reranking as configured. Its model is loaded by the first call, or now where all need it."""
    reranker = _reranker(settings)
    if reranker and settings.rerank:
        reranker.start()
    return Rerank(
        reranker,
        Bounds(settings.rerank_pool, settings.rerank_timeout, settings.rerank_cooldown),
    )


def _reranker(settings: Settings) -> FastEmbedReranker | HttpReranker | None:
    provider, key = settings.rerank_provider, settings.rerank_api_key
    if provider == "none":
        return None
    if provider == "fastembed" or (provider is None and settings.rerank_url is None):
        return FastEmbedReranker(
            settings.rerank_model,
            cache_dir=settings.embedding_cache_dir,
            model_path=settings.rerank_model_path,
            threads=settings.embedding_threads,
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
