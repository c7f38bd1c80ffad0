"""The read and write path on a real Qdrant server: QDRANT_TEST_URL=http://localhost:6333."""

import contextlib
import os
import uuid
from collections.abc import AsyncIterator

import pytest

from mcp_server_qdrant.datatypes import NewDocument, SearchRequest
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.errors import UnknownCollection
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.services import Services, wire
from mcp_server_qdrant.settings import Settings
from tests.fakes import FakeEncoder

URL = os.environ.get("QDRANT_TEST_URL")

pytestmark = pytest.mark.skipif(URL is None, reason="QDRANT_TEST_URL names no Qdrant server")


@contextlib.asynccontextmanager
async def on_server(*, grpc: bool) -> AsyncIterator[tuple[Services, str]]:
    """Services on the server, and a prefix for collections that are removed afterwards."""
    settings = Settings(qdrant_url=URL, qdrant_prefer_grpc=grpc, qdrant_api_key=None)
    client = await open_client(
        url=URL, prefer_grpc=grpc, local_path=settings.local_path, timeout=10
    )
    encoder = FakeEncoder()
    services = wire(settings, client, Registry(encoder, lambda _: encoder))
    prefix = f"mcp-test-{uuid.uuid4().hex[:8]}-"
    try:
        yield services, prefix
    finally:
        for found in (await client.get_collections()).collections:
            if found.name.startswith(prefix):
                await client.delete_collection(found.name)
        await services.close()


@pytest.mark.parametrize("grpc", [False, True], ids=["REST", "gRPC"])
async def test_texts_of_two_collections_are_found_in_one_ranking(grpc):
    async with on_server(grpc=grpc) as (services, prefix):
        for place, text in (("a", "roses need sun"), ("b", "bread needs time")):
            await services.store.store(NewDocument(text), prefix + place, create=True)
        page = await services.pipeline.search(SearchRequest("roses need sun", (f"{prefix}*",)))

    assert page.results[0].document.text == "roses need sun"
    assert {status.state for status in page.statuses} == {"ok"}
    assert page.results[0].relevance > 0.5  # half of it is the cosine, which is 1


@pytest.mark.parametrize("grpc", [False, True], ids=["REST", "gRPC"])
async def test_a_text_is_updated_read_and_filtered_by_its_metadata(grpc):
    condition = {"must": [{"key": "metadata.kind", "match": {"value": "flower"}}]}
    async with on_server(grpc=grpc) as (services, prefix):
        name = f"{prefix}c"
        long = " ".join(f"sentence number {n}." for n in range(300))
        await services.store.store(NewDocument(long, id="x"), name, create=True)
        rose = NewDocument("roses", id="x", metadata={"kind": "flower"})
        await services.store.store(rose, name)
        (found,), failures = await services.lookup.get(["x"], collection=name)
        request = SearchRequest("roses", (name,), query_filter=condition)
        page = await services.pipeline.search(request)

    assert (found.text, failures) == ("roses", [])
    assert [result.document.document for result in page.results] == ["x"]


@pytest.mark.parametrize("grpc", [False, True], ids=["REST", "gRPC"])
async def test_an_unknown_collection_is_an_error_of_ours(grpc):
    async with on_server(grpc=grpc) as (services, prefix):
        with pytest.raises(UnknownCollection):
            await services.pipeline.search(SearchRequest("q", (f"{prefix}nowhere",)))
