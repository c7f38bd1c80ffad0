"""A client of the page's calls, over two small collections."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.services import Services, Shared, assemble
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.http.page.routes import CLIENT, CLIENT_HEADER
from mcp_server_qdrant.http.serving import build_app
from tests.fakes import FakeEncoder
from tests.support import Engine, corpus, empty_edge, make_settings, memory_engine, registry

ADDRESS = "http://127.0.0.1:8000"
HEADERS = {CLIENT_HEADER: CLIENT, "content-type": "application/json"}


class Page:
    """Calls of the page and of the tools, on the same services."""

    def __init__(self, client: httpx.AsyncClient, mcp, engine: Engine) -> None:
        self.client = client
        self.mcp = mcp
        self.engine = engine

    async def post(self, name: str, asked=None, **headers: str) -> httpx.Response:
        return await self.client.post(
            f"/viz/api/{name}", content=json.dumps(asked or {}), headers=HEADERS | headers
        )

    async def ask(self, name: str, /, **asked) -> dict:
        response = await self.post(name, asked)
        assert response.status_code == 200, response.text
        return response.json()

    async def refused(self, name: str, /, **asked) -> str:
        response = await self.post(name, asked)
        assert response.status_code == 422
        (sentence,) = response.json().values()
        assert "\n" not in sentence
        return sentence

    async def tool(self, **arguments) -> dict:
        result = await self.mcp.call_tool("qdrant-find", arguments)
        return result.structured_content


async def fill(services: Services) -> None:
    for number, text in enumerate(corpus(24)):
        where = "letters" if number % 3 else "notes"
        new = NewDocument(text, title=f"No. {number}", tags=("even",) if number % 2 == 0 else ())
        await services.store.store(new, where, create=True)


@asynccontextmanager
async def page_over(client, **values) -> AsyncIterator[Page]:
    engine = Engine(client)
    settings = make_settings(**{"qdrant_collection_priority_order": ("letters",)} | values)

    async def opened() -> Shared:
        return assemble(settings, engine, registry(FakeEncoder())).shared  # type: ignore[arg-type]

    mcp = make_server(settings, opened, page=True)
    served = build_app(mcp, "streamable-http", settings)
    async with (
        mcp.session_manager.run(),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=served), base_url=ADDRESS
        ) as connection,
    ):
        yield Page(connection, mcp, engine)


@asynccontextmanager
async def in_a_task(opened) -> AsyncIterator[Page]:
    """Enter and exit `opened` in one task, as the SDK's lifespan requires."""
    ready: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def own() -> None:
        async with opened as page:
            ready.set_result(page)
            await over.wait()

    task = asyncio.ensure_future(own())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    try:
        if not task.done():
            yield ready.result()
    finally:
        over.set()
        await task


@pytest.fixture
async def page(engine_folder: Path) -> AsyncIterator[Page]:
    """Two small collections in the embedded engine."""
    async with in_a_task(on_edge(engine_folder)) as page:
        yield page


@asynccontextmanager
async def on_edge(folder: Path) -> AsyncIterator[Page]:
    client = await empty_edge(folder)
    try:
        async with filled(client) as page:
            yield page
    finally:
        await client.close()


@asynccontextmanager
async def in_memory() -> AsyncIterator[Page]:
    async with memory_engine() as engine, filled(engine.client) as page:
        yield page


@asynccontextmanager
async def filled(client, **values) -> AsyncIterator[Page]:
    services = assemble(make_settings(), Engine(client), registry(FakeEncoder()))  # type: ignore[arg-type]
    await fill(services)
    await services.close()
    async with page_over(client, **values) as page:
        yield page


@pytest.fixture
async def one() -> AsyncIterator[Page]:
    """The same on the trial engine only."""
    async with in_a_task(in_memory()) as page:
        yield page
