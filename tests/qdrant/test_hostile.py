"""Whatever a server sends, a call of it ends in time, takes little memory, and is a sentence."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
from qdrant_client import AsyncQdrantClient, models

import mcp_server_qdrant.qdrant
from mcp_server_qdrant.app.services import assemble
from mcp_server_qdrant.core.errors import EngineFailure, EngineTimeout, QdrantMcpError
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.server.remote import RemoteClient
from tests.fakes import FakeEncoder
from tests.hostile import ENDLESS, IN_BUFFERS, LATE, hostile
from tests.qdrant.rest_stub import RestServer
from tests.support import COSINE, find, make_settings, registry, remember

POINT = models.PointStruct(id=1, vector=[1.0], payload={})
VECTORS = models.PointVectors(id=1, vector={"v": [1.0]})
NAMED = models.SparseVectorNameConfig(sparse=models.SparseVectorConfig())
WHERE = models.Filter(must=[])
CALLS = {
    "info": (),
    "get_collections": (),
    "get_aliases": (),
    "get_collection": ("c",),
    "collection_exists": ("c",),
    "create_collection": ("c", COSINE),
    "update_collection": ("c",),
    "create_payload_index": ("c", "k", models.PayloadSchemaType.KEYWORD),
    "create_vector_name": ("c", "v", NAMED),
    "delete_vector_name": ("c", "v"),
    "query_batch_points": ("c", [models.QueryRequest(query=[1.0], limit=2)]),
    "count": ("c",),
    "facet": ("c", "k"),
    "scroll": ("c",),
    "retrieve": ("c", [1]),
    "upsert": ("c", [POINT]),
    "update_vectors": ("c", [VECTORS]),
    "delete": ("c", WHERE),
    "set_payload": ("c", {"k": 1}, [1]),
    "delete_payload": ("c", ["k"], [1]),
}


@asynccontextmanager
async def opened(url: str, timeout: float = 1) -> AsyncIterator[RemoteClient]:
    client = await open_client(url=url, timeout=timeout)
    try:
        yield client
    finally:
        await client.close()


def test_these_are_all_calls_that_are_made():
    folder = Path(mcp_server_qdrant.qdrant.__path__[0])
    embedded = {folder / "backup.py", *(folder / "edge").glob("*.py")}
    files = {*folder.rglob("*.py")} - embedded
    source = "".join(file.read_text("utf-8") for file in files)
    named = set(re.findall(r"(?:client|engine|inner|self)\.(\w+)\(", source))

    made = {name for name in named if iscoroutinefunction(getattr(AsyncQdrantClient, name, None))}
    assert made - {"close"} == CALLS.keys()


async def refused(url: str) -> None:
    async with opened(url) as client, asyncio.timeout(60):
        for name, arguments in CALLS.items():
            with pytest.raises(QdrantMcpError, match="Qdrant"):
                await getattr(client, name)(*arguments)


@pytest.mark.parametrize("kind", ENDLESS)
async def test_of_an_answer_without_an_end_no_call_reads_more_than_it_may(kind, little):
    async with hostile(kind) as server:
        await refused(server.url)

    assert 0 < server.sent < little + IN_BUFFERS


@pytest.mark.parametrize("kind", LATE)
async def test_every_call_ends_where_an_answer_comes_byte_by_byte(kind):
    async with hostile(kind) as server, opened(server.url) as client, asyncio.timeout(30):
        calls = [getattr(client, name)(*arguments) for name, arguments in CALLS.items()]
        answers = await asyncio.gather(*calls, return_exceptions=True)

    assert {type(answer) for answer in answers} <= {EngineTimeout, EngineFailure}


SHAPES = (None, [], {}, "", "x", 7, -1, 1.5, True, [None], [7], ["x"], [[]], [{}], {"x": 1})
FEWER = (None, [], {}, "x", 7, [None])
INSIDE = ("count", "hits", "points", "collections", "aliases", "exists", "config", "status")


@pytest.mark.parametrize("call", CALLS)
async def test_answers_of_another_shape_are_sentences(server: RestServer, call):
    """What is not an error has the shape that was asked for, as far as a call can tell."""
    shapes = [*SHAPES, *({name: shape} for name in INSIDE for shape in FEWER)]
    unheard = []
    async with opened(server.url) as client:
        for result in shapes:
            server.always = {"result": result, "status": "ok", "time": 0.0}
            try:
                await getattr(client, call)(*CALLS[call])
            except QdrantMcpError as error:
                if "Qdrant" not in str(error):
                    unheard.append((result, error))

    assert unheard == []


FOUND = {"id": 1, "score": 0.5, "payload": {"document": "text"}}
UNSOUND = {
    "an id that is a list": FOUND | {"id": [1]},
    "an id that is an object": FOUND | {"id": {"num": 1}},
    "an id that is a fraction": FOUND | {"id": 1.5},
    "no id": {"score": 0.5},
    "a score that is a text": FOUND | {"score": "0.5"},
    "no score": {"id": 1},
    "a payload that is a list": FOUND | {"payload": ["document"]},
    "a payload that is a text": FOUND | {"payload": "document"},
    "a vector without numbers": FOUND | {"vector": {"bm25": {"indices": [1]}}},
    "a vector of texts": FOUND | {"vector": {"bm25": {"indices": ["x"], "values": [1.0]}}},
    "a point that is a text": "point",
}
POINTS = {fault: [point] for fault, point in UNSOUND.items()} | {"none": None, "a number": 7}


@pytest.mark.parametrize("fault", POINTS)
async def test_a_find_over_unsound_answers_is_an_error_and_never_finds_nothing(
    server: RestServer, fault
):
    settings = make_settings(qdrant_url=server.url, qdrant_read_only=True)
    async with opened(server.url, timeout=30) as client:
        services = assemble(settings, client, registry(FakeEncoder()))
        await remember(services, "notes", "roses need sun")
        server._post_points_query_batch = lambda _, body: [
            {"points": POINTS[fault]} for _ in body["searches"]
        ]
        with pytest.raises(QdrantMcpError, match="Qdrant's answer could not be read"):
            await find(services, "roses", "notes")
        await services.close()
