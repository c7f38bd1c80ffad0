"""Shared helpers: services over qdrant-client's local mode, and injected failures."""

import asyncio
import os
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.types import CallToolResult
from qdrant_client import models

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.services import Services, Shared, assemble
from mcp_server_qdrant.core.datatypes import (
    Document,
    ModelChoice,
    NewDocument,
    Payload,
    PointId,
    SearchPage,
)
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.writes import Stored
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.engine import Ask, Candidates, Corpus, Leg
from mcp_server_qdrant.qdrant.errors import foreign_errors
from mcp_server_qdrant.qdrant.payload import document_of
from mcp_server_qdrant.qdrant.questions import SearchClient
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.settings.environment import Settings, environment_names
from tests.fakes import FakeEncoder
from tests.qdrant_server import URL, lent

SIZE = 64
COSINE = models.VectorParams(size=SIZE, distance=models.Distance.COSINE)
LONG = " ".join(f"Sentence number {n} is about harbour {n * 7}." for n in range(60))
IDF = models.SparseVectorParams(modifier=models.Modifier.IDF)
# The first message of a client without the SDK.
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    },
}


def make_settings(**values: Any) -> Settings:
    """Settings of the trial engine."""
    unknown = values.keys() - Settings.model_fields.keys()
    assert not unknown, f"these are no settings: {unknown}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    given = {_spelling(field): value for field, value in values.items()}
    return _settings(pickle.dumps(({"qdrant_url": ":memory:"} | given, environment)))


def _spelling(field: str) -> str:
    """The keyword of a setting: its variable, unless that is its name in capitals."""
    return environment_names()[field][0] if Settings.model_fields[field].alias_priority else field


@lru_cache
def _settings(given: bytes) -> Settings:
    """Cached settings: reading the environment takes milliseconds, and settings are frozen."""
    values, _ = pickle.loads(given)
    return Settings(**values)


class Clock:
    """A clock that only the test moves, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class OneModel:
    """A model resolver that knows the server's model and those named in metadata."""

    def __init__(self, name: str, vector: str, size: int | None) -> None:
        self.name = name
        self.known = (vector, size)

    async def choose(
        self, collection: str, metadata: Mapping[str, Any], vectors: Sequence[str]
    ) -> ModelChoice:
        said = metadata.get("embedding_model")
        return ModelChoice(said if isinstance(said, str) else self.name, isinstance(said, str))

    async def shape(self, model: str) -> tuple[str, int | None]:
        return self.known if model == self.name else ("", None)


class Engine:
    """An engine with injected failures.

    `broken` maps a collection ("": calls without one) to the exception that its calls raise,
    `broken_methods` a method; `down` is raised by all. Calls to a collection in `hanging` never
    return. `calls` lists (method, collection).
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.broken: dict[str, Exception] = {}
        self.broken_methods: dict[str, Exception] = {}
        self.down: Exception | None = None
        self.hanging: set[str] = set()
        self.calls: list[tuple[str, str]] = []

    @property
    def __class__(self) -> type:
        """The client's class, as the server calls an EdgeClient differently."""
        return type(self.client)

    async def close(self) -> None:
        """Do nothing: `memory_engine` closes it, since several services may share it."""

    async def candidates(self, ask: Ask) -> Candidates:
        """A search; its calls of local mode go through this class too."""
        return await self._searching().candidates(ask)

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """Term statistics, in the same way."""
        return await self._searching().idfs(corpus)

    def _searching(self) -> Any:
        searching = copy(self.client)
        if isinstance(searching, SearchClient):
            searching.query_batch_points = self.query_batch_points
        return searching

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            collection = args[0] if args else ""
            self.calls.append((name, collection))
            if collection in self.hanging:
                await asyncio.Event().wait()
            failure = self.down or self.broken_methods.get(name) or self.broken.get(collection)
            if failure:
                with foreign_errors(collection or None):  # like the engine's client
                    raise failure
            return await method(*args, **kwargs)

        return call


@asynccontextmanager
async def memory_engine() -> AsyncIterator[Engine]:
    """An empty local mode of qdrant-client."""
    client = await open_client(url=":memory:", timeout=5)
    try:
        yield Engine(client)
    finally:
        await client.close()


@asynccontextmanager
async def either_engine(kind: str, folder: Path, *, timeout: float = 60) -> AsyncIterator[Engine]:
    """An empty engine: embedded ("edge") in that folder, "server" or local mode."""
    if kind == "memory":
        async with memory_engine() as engine:
            yield engine
        return
    with lent(URL) if kind == "server" and URL else nullcontext():
        client: Any
        if kind == "server":
            client = await open_client(url=URL, timeout=20)
        else:
            client = await empty_edge(folder, timeout=timeout)
        try:
            yield Engine(client)
        finally:
            await client.close()


async def empty_edge(folder: Path, *, timeout: float = 60) -> EdgeClient:
    """The embedded engine in that folder, emptied."""
    client = await EdgeClient.open(folder, timeout=timeout)
    for found in (await client.get_collections()).collections:
        await client.delete_collection(found.name)
    return client


async def nearest(
    client: Any,
    collection: str,
    vector: Any,
    using: str = "",
    *,
    where: models.Filter | None = None,
    limit: int = 10,
) -> list[models.ScoredPoint]:
    """The best points of one leg with scores and payloads, from either engine."""
    if isinstance(vector, models.SparseVector):
        vector = {"indices": vector.indices, "values": vector.values}
    leg = Leg(using, vector, where and plain(where))
    found = await client.candidates(Ask((collection,), (leg,), 60, limit))
    return [
        models.ScoredPoint.model_construct(id=one.id, score=one.scores[0], payload=one.payload)
        for one in found.points
    ]


def read_hit(hit: Hit) -> Hit:
    """The hit with the document of its payload."""
    assert hit.payload is not None
    return hit._replace(reading=Read(to_document(hit.collection, hit.id, hit.payload)))


def to_document(collection: str, point: PointId, payload: Payload) -> Document:
    return document_of(collection, point, payload, ("document", "text"))


@dataclass(frozen=True)
class Read:
    """A reader of a fixed document, so that hits are compared by their documents."""

    document: Document

    def __call__(self) -> Document:
        return self.document


def registry(*encoders: FakeEncoder, mapping: Sequence[tuple[str, str]] = ()) -> Registry:
    """A registry of encoders, the first one the default; `mapping` is COLLECTION_MODELS."""
    by_name = {encoder.name: encoder for encoder in encoders}
    make: Any = lambda name: by_name.get(name) or missing(name)  # noqa: E731
    default: Any = encoders[0]
    return Registry(default, make, mapping=mapping)


def missing(name: str) -> FakeEncoder:
    """An encoder whose model cannot be loaded."""
    encoder = FakeEncoder(name)
    encoder.be("failed")
    return encoder


@asynccontextmanager
async def memory_services(
    *encoders: FakeEncoder, engine: Engine | None = None, **values: Any
) -> AsyncIterator[Services]:
    """The services over the local mode, without background work."""
    if engine is None:
        async with (
            memory_engine() as engine,
            memory_services(*encoders, engine=engine, **values) as services,
        ):
            yield services
        return
    settings = make_settings(**{"qdrant_read_only": True} | values)
    known = registry(*encoders or (FakeEncoder(),), mapping=settings.collection_models)
    services = assemble(settings, engine, known)  # type: ignore[arg-type]
    try:
        yield services
    finally:
        await services.close()


@asynccontextmanager
async def memory_server(
    *encoders: FakeEncoder, engine: Engine | None = None, **values: Any
) -> AsyncIterator[Client]:
    """An MCP client of the whole server over the local mode, or over `engine`."""
    if engine is None:
        async with (
            memory_engine() as engine,
            memory_server(*encoders, engine=engine, **values) as client,
        ):
            yield client
        return
    settings = make_settings(**values)

    async def opened() -> Shared:
        return assemble(settings, engine, registry(*encoders or (FakeEncoder(),))).shared  # type: ignore[arg-type]

    async with served(settings, opened) as client:
        yield client


@asynccontextmanager
async def served(
    settings: Settings, opened: Callable[[], Awaitable[Any]] | None
) -> AsyncIterator[Client]:
    """An MCP client of the server over the services that `opened` opens."""
    async with Client(make_server(settings, opened)) as client:
        yield client


def said(result: CallToolResult) -> str:
    """The text of a result, as an agent reads it."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def first_point(client: Client, stored: CallToolResult) -> str:
    """The id of the first point of a stored text."""
    done = stored.structured_content
    asked = {"ids": [done["id"]], "collection_name": done["collection"], "point_ids": True}
    got = await client.call_tool("qdrant-get", asked)
    return got.structured_content["documents"][0]["id"]


async def parts_of(engine: Engine, document: str) -> list[str]:
    """The ids of a document's points in the collection `notes`, in order."""
    records, _ = await engine.scroll("notes", limit=10_000, with_payload=True)
    parts = {
        one.payload["doc"]["chunk"]: one.id
        for one in records
        if one.payload["doc"]["id"] == document
    }
    return [parts[number] for number in sorted(parts)]


def refusal(result: CallToolResult) -> str:
    """The error of a refused call: one line, without internals."""
    assert result.is_error
    text = said(result)
    assert text
    assert "\n" not in text
    assert len(text) < 400
    for leak in ("Traceback", "pydantic", "https://errors", "/src/", ".py", "mcp_server_qdrant"):
        assert leak not in text
    return text


async def remember(services: Services, collection: str, *texts: str, **fields: Any) -> list[Stored]:
    """Store the texts one by one, even if the collection's name resembles another."""
    return [
        await services.store.store(NewDocument(text, **fields), collection, create=True)
        for text in texts
    ]


async def find(services: Services, query: str, *collections: str, **fields: Any) -> SearchPage:
    """Search these collections, or the default ones."""
    return await services.pipeline.search(
        SearchRequest(query=query, collections=collections or None, **fields)
    )


def texts(page: SearchPage) -> list[str]:
    """The texts found, best first."""
    return [result.document.text for result in page.results]


def states(page: SearchPage) -> dict[str, str]:
    """Collection -> its state in the search."""
    return {status.collection: status.state for status in page.statuses}


async def foreign(
    engine: Any,
    name: str,
    payloads: Mapping[int, Mapping[str, Any]],
    *,
    vectors: Any = None,
    sparse: Mapping[str, models.SparseVectorParams] | None = None,
    metadata: Mapping[str, Any] | None = None,
    values: Callable[[int], Any] = lambda _: {},
) -> None:
    """Create a collection like another tool's: id -> payload; `values` gives an id's vectors."""
    await engine.create_collection(
        name, vectors_config=vectors or {}, sparse_vectors_config=sparse, metadata=metadata
    )
    points = [
        models.PointStruct(id=point, vector=values(point), payload=dict(payload))
        for point, payload in payloads.items()
    ]
    if points:
        await engine.upsert(name, points)


def dense(text: str, size: int = SIZE) -> list[float]:
    """FakeEncoder's vector of a text."""
    return list(FakeEncoder(size=size)._vector(text))


def sparse_vector(vector: Any) -> models.SparseVector:
    """Our sparse vector in the engine's type."""
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def corpus(count: int) -> Sequence[str]:
    """Distinct texts that share words: text n has "alpha", and each word whose number divides n."""
    words = {2: "bridge", 3: "copper", 5: "delta", 7: "ember", 11: "falcon"}
    return [
        " ".join(["alpha", *(word for n, word in words.items() if number % n == 0), f"n{number}"])
        for number in range(count)
    ]
