"""gRPC is spoken where the server answers on it, and REST where it does not."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import grpc
import pytest
from qdrant_client import grpc as messages

from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.remote import RemoteClient
from tests.qdrant.rest_stub import BROKEN, RestServer
from tests.support import COSINE

CLOSED = 9  # a port where nobody listens
OVER_REST, OVER_GRPC = 0, 7  # the numbers of points that the two ways tell of

pytestmark = pytest.mark.usefixtures("at_once")


class Root(messages.QdrantServicer):
    """It says its version."""

    def __init__(self, version: str, keys: list[str | None]) -> None:
        self.version = version
        self.keys = keys

    async def HealthCheck(self, _, context):  # noqa: N802
        self.keys.append(dict(context.invocation_metadata()).get("api-key"))
        return messages.HealthCheckReply(title="qdrant", version=self.version)


class Points(messages.PointsServicer):
    async def Count(self, *_):  # noqa: N802
        return messages.CountResponse(result=messages.CountResult(count=OVER_GRPC))


@asynccontextmanager
async def grpc_server(port: int = 0, version: str = "1.20.0") -> AsyncIterator[tuple[int, list]]:
    """Its port, and the API keys of the health checks."""
    keys: list[str | None] = []
    one = grpc.aio.server()
    messages.add_QdrantServicer_to_server(Root(version, keys), one)
    messages.add_PointsServicer_to_server(Points(), one)
    port = one.add_insecure_port(f"127.0.0.1:{port}")
    await one.start()
    try:
        yield port, keys
    finally:
        await one.stop(None)


@asynccontextmanager
async def opened(server: RestServer, **line) -> AsyncIterator[RemoteClient]:
    """A client that has met the server."""
    client = await open_client(
        url=server.url, api_key="secret", local_path=Path("unused"), timeout=5, **line
    )
    try:
        await client.create_collection("notes", COSINE)
        await counted(client)
        yield client
    finally:
        await client.close()


async def counted(client: RemoteClient) -> int:
    """The answer to a count; afterwards the server has been met."""
    found = await client.count("notes")
    if client._meeting is not None:
        await client._meeting
    return found.count


async def test_grpc_is_spoken_once_the_server_is_seen_to_answer_on_it(server, caplog):
    caplog.set_level(logging.INFO)
    async with grpc_server() as (port, keys), opened(server, grpc_port=port) as client:
        assert await counted(client) == OVER_GRPC
        assert client.line == "gRPC, searches over REST"
        assert keys == ["secret"]

    assert "Qdrant 1.20.0 is spoken to over gRPC, searches over REST." in caplog.messages


@pytest.mark.parametrize(
    ("https", "asked", "line"),
    [
        (False, "auto", "gRPC, searches over REST"),
        (False, True, "gRPC"),
        (True, "auto", "gRPC"),  # a new connection costs more there than REST saves
        (True, True, "gRPC"),
    ],
)
async def test_searches_go_over_rest_where_connections_cost_nothing_and_grpc_is_not_asked_for(
    server, monkeypatch, https, asked, line
):
    url = server.url.replace("http:", "https:") if https else server.url
    client = await open_client(url=url, grpc=asked, local_path=Path("unused"), timeout=5)
    spoken = {}
    for name in ("_rest", "_grpc"):
        line_of = getattr(client, name)
        monkeypatch.setattr(line_of, "query_batch", partial(search, spoken, name))
    client._speak(grpc=True)
    await client.query_batch_points("notes", [])
    assert spoken == {"notes": "_grpc" if line == "gRPC" else "_rest"}
    assert client.line == line
    await client.close()


async def search(spoken, name, collection, requests, **_):
    spoken[collection] = name
    return []


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("1.20.0", {"grpc": False}),
        ("1.20.0", {"grpc_port": None}),  # beside REST on another port than 6333
        ("1.19.0", {}),  # it is another server's
        ("", {}),
    ],
)
async def test_rest_is_spoken_where_grpc_is_not_wanted_or_not_this_servers(server, version, line):
    async with (
        grpc_server(version=version) as (port, _),
        opened(server, **{"grpc_port": port} | line) as client,
    ):
        assert await counted(client) == OVER_REST
        assert client.line == "REST"


async def test_a_closed_port_costs_no_call_anything(server, monkeypatch, caplog):
    monkeypatch.setattr("mcp_server_qdrant.qdrant.remote.PROBE_SECONDS", 0.1)
    caplog.set_level(logging.INFO)
    async with opened(server, grpc_port=CLOSED) as client:
        assert await counted(client) == OVER_REST

    assert "Qdrant 1.20.0 is spoken to over REST." in caplog.messages


async def test_reads_go_on_over_rest_where_grpc_breaks_until_the_server_is_back(
    server, monkeypatch
):
    async with AsyncExitStack() as stack:
        async with grpc_server() as (port, _):
            client = await stack.enter_async_context(opened(server, grpc_port=port))
            assert await counted(client) == OVER_GRPC
        with monkeypatch.context() as patch:
            patch.setattr("mcp_server_qdrant.qdrant.remote.PROBE_SECONDS", 0.1)
            assert [await counted(client) for _ in range(2)] == [OVER_REST] * 2
        async with grpc_server(port):
            server.faults["POST /collections/notes/points/count"] = [BROKEN]
            assert [await counted(client) for _ in range(2)] == [OVER_REST, OVER_GRPC]


async def test_grpc_that_is_asked_for_is_never_left(server):
    client = await open_client(
        url=server.url, grpc=True, grpc_port=CLOSED, local_path=Path("unused"), timeout=5
    )
    with pytest.raises(EngineUnavailable):
        await client.count("notes")
    assert client.line == "gRPC"
    await client.close()
