"""Several servers over HTTP: over one Qdrant server side by side, over one folder one alone."""

import asyncio
import itertools
import json

import httpx
import pytest
from mcp.client import Client

from tests.e2e.raw import serving
from tests.e2e.test_drain import ACCEPT, engine, settings  # noqa: F401
from tests.support import HELLO

pytestmark = pytest.mark.model(False)


class Turns(httpx.AsyncBaseTransport):
    """A load balancer: each request goes to the next server."""

    def __init__(self, *addresses: str) -> None:
        self.served = dict.fromkeys(addresses, 0)
        self._next = itertools.cycle(map(httpx.URL, addresses))
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        to = next(self._next)
        self.served[str(to)] += 1
        request.url = request.url.copy_with(host=to.host, port=to.port)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def call(http: httpx.AsyncClient, tool: str, **arguments) -> dict:
    """A tool's result, asked for as a client of the session era does after its handshake."""
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    response = await http.post("/mcp", json=message, headers=ACCEPT)
    assert response.status_code == 200, response.text
    data = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(data[0] if data else response.text)["result"]


async def test_any_of_two_servers_answers_any_request(engine, tmp_path):  # noqa: F811
    env = settings(engine, FASTMCP_STATELESS_HTTP="true", QDRANT_CACHE_PATH=str(tmp_path))
    with (
        serving(env, "streamable-http", tmp_path) as (one, _),
        serving(env, "streamable-http", tmp_path) as (other, _),
    ):
        turns = Turns(one, other)
        async with httpx.AsyncClient(transport=turns, base_url=one, timeout=60) as http:
            hello = await http.post("/mcp", json=HELLO, headers=ACCEPT)
            stored = [
                await call(
                    http,
                    "qdrant-store",
                    information=f"Fact number {n} about otters",
                    collection_name="facts",
                )
                for n in range(7)
            ]
            found = [
                await call(http, "qdrant-find", query="otters", collections=["facts"], limit=7)
                for _ in range(6)
            ]
        async with Client(f"{other}/mcp") as modern:
            same = await modern.call_tool("qdrant-find", {"query": "otters", "limit": 7})

    assert hello.status_code == 200
    assert "mcp-session-id" not in hello.headers
    assert not any(one.get("isError") for one in stored)
    texts = [{r["text"] for r in one["structuredContent"]["results"]} for one in found]
    assert texts == [{f"Fact number {n} about otters" for n in range(7)}] * 6
    assert len(same.structured_content["results"]) == 7
    assert abs(turns.served[one] - turns.served[other]) <= 1


async def test_one_server_that_ends_leaves_the_other_its_engine(engine, tmp_path):  # noqa: F811
    env = settings(engine, QDRANT_CACHE_PATH=str(tmp_path))
    with (
        serving(env, "streamable-http", tmp_path) as (one, process),
        serving(env, "streamable-http", tmp_path) as (other, _),
    ):
        async with Client(f"{one}/mcp") as client:
            text = {"information": "The key is under the mat.", "collection_name": "house"}
            assert not (await client.call_tool("qdrant-store", text)).is_error
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0
        async with Client(f"{other}/mcp") as client:
            found = await client.call_tool("qdrant-find", {"query": "key"})

    assert "under the mat" in found.content[0].text
