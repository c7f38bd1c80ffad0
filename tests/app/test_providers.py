"""The read and write path with every provider."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.app.services import Services, assemble
from mcp_server_qdrant.encoders.local.models import Models
from mcp_server_qdrant.encoders.registry import NO_MODEL
from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from mcp_server_qdrant.ingest.pending import Backfill
from tests.embedding_stub import Stub, served, words
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    IDF,
    dense,
    empty_edge,
    find,
    foreign,
    make_settings,
    remember,
    states,
    texts,
)

Open = Callable[..., AbstractAsyncContextManager[Services]]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served() as one:
        yield one


@pytest.fixture
def opened(
    engine_folder: Path, tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> Open:
    """Opens the services with these settings; nothing runs in the background."""
    monkeypatch.setattr(OpenAIEncoder, "cooldown", 1e-9)

    @asynccontextmanager
    async def services(**values) -> AsyncIterator[Services]:
        settings = make_settings(
            **{
                "embedding_provider": "openai",
                "embedding_service_url": stub.url,
                "embedding_model": "acme/Bag",
                "qdrant_cache_path": tmp_path / "cache",
                "qdrant_read_only": True,
            }
            | values
        )
        made = assemble(
            settings, await empty_edge(engine_folder), open_encoders(settings, Models())
        )
        try:
            yield made
        finally:
            await made.close()

    return services


async def test_without_a_provider_texts_are_stored_and_found_by_keyword(opened, stub):
    async with opened(embedding_provider="none") as services:
        (stored,) = await remember(services, "notes", "roses need sun")
        page = await find(services, "roses", "notes")
        (info,) = await services.catalog.describe()

    assert texts(page) == ["roses need sun"]
    assert stored.without_vector == "keywords only: it has no dense vector"
    assert not stored.pending
    assert (info.legs, info.model) == (("bm25",), None)
    assert page.statuses[0].reason == "keywords only: it has no dense vector"
    assert stub.requests == []


async def test_without_a_provider_old_collections_are_searched_by_keyword(opened):
    async with opened() as services:
        await remember(services, "notes", "roses need sun")
        bare = make_settings(embedding_provider="none", qdrant_read_only=True)
        without = assemble(bare, services.client, open_encoders(bare, Models()))
        page = await find(without, "roses", "notes")

    assert texts(page) == ["roses need sun"]
    assert page.statuses[0].reason == NO_MODEL


async def test_a_service_that_is_down_leaves_keywords_and_later_fills_in(opened, stub):
    async with opened() as services:
        await remember(services, "notes", "roses need sun")
        stub.replies = [(401, {}, b"")] * 9
        (stored,) = await remember(services, "notes", "moss likes shade")
        page = await find(services, "moss", "notes")
        stub.replies = []
        encoder = services.encoders.start_encoder(None)
        back = await encoder.ready(5)
        target = await services.catalog.target("notes")
        points = services.store.points
        backfill = Backfill(services.catalog, points, services.encoders)
        filled = await backfill._fill(target)
        found = await find(services, "moss likes shade", "notes", algorithm="semantic")

    assert stored.pending
    assert texts(page)[0] == "moss likes shade"
    assert states(page) == {"notes": "degraded"}
    assert page.statuses[0].reason == (
        "keywords only: The embedding service refused access (HTTP 401): its API key is missing or "
        "may not do this."
    )
    assert (back, filled) == (True, 1)
    assert texts(found)[0] == "moss likes shade"


async def test_collections_of_several_models_are_searched_with_one_request_each(opened, stub):
    small = FakeEncoder(size=8)

    def embed(given):
        model = stub.bodies[-1]["model"]
        return [small._vector(text) for text in given] if model == "small" else words(given)

    stub.embed = embed
    mapping = "docs-*=openai:small"
    async with opened(collection_models=mapping) as services:
        await remember(services, "notes", "roses need sun")
        await remember(services, "docs-a", "roses need sun")
        await remember(services, "docs-b", "moss likes shade")
        stub.requests.clear()
        page = await find(services, "roses sun", "*")
        infos = {info.name: info.model for info in await services.catalog.describe()}

    assert sorted(body["model"] for body in stub.bodies) == ["acme/Bag", "small"]
    assert set(states(page).values()) == {"ok"}
    assert infos == {"notes": "acme/Bag", "docs-a": "small", "docs-b": "small"}


async def theirs(services: Services, **more) -> None:
    """A collection of another tool, with vectors of 8 dimensions."""
    await foreign(
        services.client,
        "theirs",
        {1: {"text": "roses need sun"}},
        vectors={"v": COSINE.model_copy(update={"size": 8})},
        values=lambda _: {"v": dense("roses need sun", 8)},
        **more,
    )


async def test_a_model_of_another_size_is_explained_and_never_searched(opened, stub):
    async with opened() as services:
        await theirs(services)
        await remember(services, "notes", "roses need sun")
        services.catalog.forget("theirs")
        page = await find(services, "roses", "*")

    assert states(page) == {"notes": "ok", "theirs": "skipped"}
    (reason,) = [status.reason for status in page.statuses if status.collection == "theirs"]
    assert reason == (
        "its dense vectors do not fit the model: it has v (8), acme/Bag makes 64 dimensions"
    )


async def test_a_size_that_only_the_answer_tells_is_compared_before_the_search(opened, stub):
    """Nothing was encoded yet when the collection is looked up."""
    async with opened() as services:
        await theirs(services, sparse={"bm25": IDF})
        page = await find(services, "roses", "theirs")

    assert states(page) == {"theirs": "degraded"}
    assert page.statuses[0].reason == (
        "keywords only: its dense vectors do not fit the model: v has 8 dimensions, acme/Bag "
        "makes 64"
    )
