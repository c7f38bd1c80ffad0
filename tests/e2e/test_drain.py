"""How a server over HTTP ends: calls under way finish, new ones are refused, then it goes."""

import asyncio
import contextlib
import json
import signal
import subprocess
import warnings
from collections.abc import Iterator

import httpx
import pytest
from mcp.client import Client

from tests.e2e.raw import serving
from tests.qdrant.rest_stub import RestServer, rest_server
from tests.support import HELLO

QUERY = "/collections/notes/points/query/batch"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
FIND = {"query": "roses", "collections": ["notes"]}


@pytest.fixture
def engine() -> Iterator[RestServer]:
    with warnings.catch_warnings(), rest_server() as one:
        warnings.simplefilter("ignore")
        yield one


def settings(engine: RestServer, **more: str) -> dict[str, str]:
    """A server over the stub, by keyword alone: it is there at once, and waits as long as asked."""
    patient = {"QDRANT_TIMEOUT": "75"}
    return {"QDRANT_URL": engine.url, "EMBEDDING_PROVIDER": "none", **patient, **more}


@contextlib.asynccontextmanager
async def finding(address: str, engine: RestServer, path: str = "/mcp", transport=None):
    """A find that waits in the engine, in a client of its own."""
    async with Client(transport or address + path) as client:
        stored = {"information": "roses need sun", "collection_name": "notes"}
        assert not (await client.call_tool("qdrant-store", stored)).is_error
        engine.held.add(QUERY)
        call = asyncio.ensure_future(client.call_tool("qdrant-find", FIND))
        await asyncio.to_thread(engine.reached.acquire)
        try:
            yield call
        finally:
            call.cancel()
            await asyncio.wait([call])


async def draining(http: httpx.AsyncClient, process: subprocess.Popen) -> httpx.Response:
    """Sends SIGTERM; the answer of the first health check that knows of it."""
    process.send_signal(signal.SIGTERM)
    while (ready := await http.get("/readyz")).status_code == 200:
        pass
    return ready


async def test_calls_under_way_finish_and_new_ones_are_refused(engine, tmp_path):
    with serving(settings(engine), "streamable-http", tmp_path) as (address, process):
        async with (
            finding(address, engine) as call,
            httpx.AsyncClient(base_url=address) as http,
        ):
            while (await http.get("/readyz")).status_code != 200:
                pass
            session = (await http.post("/mcp", json=HELLO, headers=ACCEPT)).headers
            stream = {"Mcp-Session-Id": session["mcp-session-id"], "Accept": "text/event-stream"}
            async with http.stream("GET", "/mcp", headers=stream) as events:
                ready = await draining(http, process)
                refused = await http.post("/mcp", json=HELLO, headers=ACCEPT)
                alive = await http.get("/healthz")
                engine.release.set()
                found = await call
                rest = [line async for line in events.aiter_lines()]
        status = await asyncio.to_thread(process.wait, 30)
        log = process.stderr.read().decode()

    assert ready.json()["server"]["state"] == "draining"
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "The server is shutting down" in refused.json()["error"]["message"]
    assert alive.status_code == 200
    assert "roses need sun" in found.content[0].text
    assert all(not line or line.startswith(":") for line in rest)
    assert status == 0
    assert log.startswith("mcp-server-qdrant serves http://127.0.0.1:")
    assert len(log.splitlines()) == 1


async def test_over_sse_the_answer_is_written_before_the_stream_is_ended(engine, tmp_path):
    from mcp.client.sse import sse_client

    with serving(settings(engine), "sse", tmp_path) as (address, process):
        async with finding(address, engine, transport=sse_client(f"{address}/sse")) as call:
            async with httpx.AsyncClient(base_url=address) as http:
                await draining(http, process)
                refused = await http.post("/messages/", json=HELLO)
            engine.release.set()
            found = await call
        status = await asyncio.to_thread(process.wait, 30)

    assert refused.status_code == 503
    assert "roses need sun" in found.content[0].text
    assert status == 0


async def test_a_call_that_takes_longer_than_it_may_is_cut_off(engine, tmp_path):
    env = settings(engine)  # for ten seconds
    with serving(env, "streamable-http", tmp_path) as (address, process):
        async with finding(address, engine) as call:
            process.send_signal(signal.SIGTERM)
            status = await asyncio.to_thread(process.wait, 30)
            engine.release.set()
            failed = await asyncio.wait([call])

    assert status == 0
    assert failed


async def test_a_second_signal_ends_it_at_once(engine, tmp_path):
    env = settings(engine, FASTMCP_STATELESS_HTTP="true")
    engine.held.add("/collections")
    params = {"name": "qdrant-find", "arguments": FIND}
    find = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    with serving(env, "streamable-http", tmp_path) as (address, process):
        async with httpx.AsyncClient(base_url=address, headers=ACCEPT) as http:
            call = asyncio.ensure_future(http.post("/mcp", json=find, timeout=60))
            await asyncio.to_thread(engine.reached.acquire)
            await draining(http, process)
            process.send_signal(signal.SIGTERM)
            status = await asyncio.to_thread(process.wait, 30)
            with pytest.raises(httpx.RemoteProtocolError):
                await call

    assert status == 128 + signal.SIGTERM


async def test_lines_of_the_log_are_json_with_ids_and_without_contents(engine, tmp_path):
    env = settings(engine, LOG_FORMAT="json", FASTMCP_LOG_LEVEL="DEBUG")
    secret = "platypus"
    with serving(env, "streamable-http", tmp_path) as (address, process):
        async with (
            Client(f"{address}/mcp") as client,
            httpx.AsyncClient(base_url=address, headers=ACCEPT) as http,
        ):
            stored = {"information": f"the {secret} lays eggs", "collection_name": "notes"}
            await client.call_tool("qdrant-store", stored)
            await client.call_tool("qdrant-find", {"query": secret, "collections": ["notes"]})
            await client.call_tool("qdrant-find", {"query": {secret: secret}})
            await client.call_tool("qdrant-find", {"query": secret, secret: 5})
            await http.post("/mcp", content=f'{{"{secret}": '.encode())
            await http.post("/mcp", json={"jsonrpc": "2.0", "id": secret, "method": secret})
            await http.get(f"/mcp?q={secret}")
            named = await http.post("/mcp", json=HELLO, headers={"X-Request-ID": "mine-1"})
            session = {"Mcp-Session-Id": named.headers["mcp-session-id"]}
            params = {"name": "qdrant-find", "arguments": {"query": secret}}
            find = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            await http.post("/mcp", json=find, headers={**session, "X-Request-ID": "mine-2"})
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 30)
        log = process.stderr.read().decode()

    assert secret not in log
    assert named.headers["x-request-id"] == "mine-1"
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["message"] == "Request"]
    assert {line["path"] for line in requests} >= {"/mcp", "/healthz"}
    assert [line["status"] for line in requests if line["request_id"] == "mine-1"] == [200]
    made = [line for line in lines if line["message"] == "Call"]
    assert made[-1]["request_id"] == "mine-2"  # and not that of the session's first request
    assert [(line["tool"], line["outcome"]) for line in made] == [
        ("qdrant-store", "ok"),
        ("qdrant-find", "ok"),
        ("qdrant-find", "rejected"),
        ("qdrant-find", "ok"),
        ("qdrant-find", "ok"),
    ]
    assert all(line["request_id"] for line in lines if line["message"] in ("Call", "Request"))
    assert not any(line["logger"].startswith("uvicorn.access") for line in lines)
