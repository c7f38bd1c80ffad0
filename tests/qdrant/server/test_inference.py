"""Texts that the Qdrant server encodes: what it is sent, and what happens where it cannot."""

import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from mcp_server_qdrant.app.services import Services, open_services
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.models import Inferred
from mcp_server_qdrant.qdrant.server.inference import native
from tests.qdrant.inference_stub import InferenceServer, served
from tests.support import find, make_settings, remember, states, texts

MODEL = "acme/Bag-of-Words"


@pytest.fixture
def server() -> Iterator[InferenceServer]:
    with warnings.catch_warnings(), served() as one:
        warnings.simplefilter("ignore")
        yield one


@asynccontextmanager
async def opened(server: InferenceServer, **values) -> AsyncIterator[Services]:
    settings = make_settings(
        **{
            "qdrant_url": server.url,
            "embedding_provider": "qdrant",
            "embedding_model": MODEL,
            "embedding_dimensions": 64,
            "qdrant_read_only": True,  # nothing runs in the background
        }
        | values
    )
    services = await open_services(settings)
    try:
        yield services
    finally:
        await services.close()


async def test_texts_are_stored_and_found_without_a_vector_made_here(server):
    async with opened(server) as services:
        await remember(services, "notes", "roses need sun", "moss likes shade")
        page = await find(services, "roses need sun", "notes", algorithm="semantic")

    assert texts(page)[0] == "roses need sun"
    assert page.results[0].relevance == pytest.approx(1.0)
    asked = {(document["text"], document["model"]) for document in server.documents}
    assert asked == {("roses need sun", MODEL), ("moss likes shade", MODEL)}
    made = server.client.get_collection("notes")
    assert made.config.params.vectors["bag-of-words"].size == 64


async def test_hybrid_search_fuses_the_servers_vectors_with_keywords(server):
    async with opened(server) as services:
        await remember(services, "notes", "roses need sun", "moss likes shade")
        page = await find(services, "roses sun", "notes")

    assert texts(page)[0] == "roses need sun"
    assert states(page) == {"notes": "ok"}


async def test_a_server_without_inference_is_searched_by_keyword_and_that_is_said(server):
    async with opened(server) as services:
        await remember(services, "notes", "roses need sun", "moss likes shade")
        server.down = True
        page = await find(services, "roses", "notes")

    assert texts(page) == ["roses need sun"]
    (status,) = page.statuses
    assert status.state == "degraded"
    assert status.reason.startswith(f"keywords only: Qdrant did not encode the text with {MODEL};")
    assert "127.0.0.1" not in status.reason


async def test_a_text_that_the_server_cannot_encode_is_not_stored_and_that_is_said(server):
    async with opened(server) as services:
        await remember(services, "notes", "roses need sun")
        server.down = True
        with pytest.raises(EncoderUnavailable, match="does it have inference, and that model"):
            await remember(services, "notes", "moss likes shade")


async def test_without_the_provider_no_text_is_sent_to_be_encoded(server, model_dir):
    local = {
        "embedding_provider": "fastembed",
        "embedding_model": "sentence-transformers/all-MiniLM-L6-v2",
        "embedding_model_path": model_dir,
    }
    async with opened(server, **local) as services:
        assert await services.encoders.default.ready(60)
        await remember(services, "notes", "roses need sun")
        assert texts(await find(services, "roses", "notes")) == ["roses need sun"]

    assert server.documents == []


def test_vectors_are_left_as_they_are():
    vector = [0.5, 0.5]

    assert native(vector) is vector
    assert native(Inferred("t", "m")).model_dump(exclude_none=True) == {"text": "t", "model": "m"}
