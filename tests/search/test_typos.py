"""Misspelled queries through the whole read path, on both engines."""

import asyncio

import pytest

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Correction
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.fakes import FakeEncoder
from tests.support import find, memory_engine, memory_services, remember, texts

TEXTS = (
    "The boundary layer separates from the wing.",
    "Packets are received twice by the gateway.",
    "A lentil dal with cumin.",
)


@pytest.fixture
def encoder():
    return FakeEncoder()


@pytest.fixture
async def services(tmp_path, encoder):
    client = await EdgeClient.open(tmp_path, timeout=20)
    async with memory_services(encoder, engine=client) as services:
        yield services


async def filled(services: Services) -> None:
    await remember(services, "notes", *TEXTS)
    await remember(services, "other", "Nothing but an orchard.")


async def test_a_misspelled_word_is_corrected_for_both_legs_and_reported(services, encoder):
    await filled(services)
    page = await find(services, "bondary layer", "*")

    assert texts(page)[0] == TEXTS[0]
    assert page.corrections == (Correction("bondary", "boundary"),)
    assert encoder.queries == ["bondary layer", "boundary layer"]
    right = await find(services, "boundary layer", "*")
    assert [r.relevance for r in page.results] == [r.relevance for r in right.results]
    assert right.corrections == ()
    assert (await find(services, "cumni", "*")).corrections == (Correction("cumni", "cumin"),)
    for algorithm in ("semantic", "fuzzy"):
        page = await find(services, "bondary layer", "*", algorithm=algorithm)
        assert (texts(page)[0], len(page.corrections)) == (TEXTS[0], 1)


async def test_a_query_without_misspelled_words_is_embedded_once_and_reads_no_vocabulary():
    encoder = FakeEncoder()
    async with memory_engine() as engine, memory_services(encoder, engine=engine) as services:
        await filled(services)
        engine.calls.clear()
        await find(services, "boundary layer v2.1 xyz", "*")

    assert encoder.queries == ["boundary layer v2.1 xyz"]
    assert "scroll" not in {method for method, _ in engine.calls}


async def test_a_word_that_is_a_tag_is_no_misspelling(services):
    await remember(services, "notes", *TEXTS)
    await remember(services, "notes", "Due on Friday.", tags=["boundry"])
    page = await find(services, "boundry", "*")

    assert page.corrections == ()
    assert texts(page)[0] == "Due on Friday."


async def test_words_that_were_there_before_are_known_once_they_are_read(tmp_path):
    """Another process stored them: the first search goes on without, a later one knows them."""
    async with memory_engine() as engine:
        async with memory_services(engine=engine) as writer:
            await filled(writer)
        async with memory_services(engine=engine) as services:
            first = await find(services, "bondary", "notes")
            await services.lexicon.settled()
            then = await find(services, "bondary", "notes")

    assert first.corrections == ()
    assert then.corrections == (Correction("bondary", "boundary"),)
    assert texts(then)[0] == TEXTS[0]


async def test_a_vocabulary_that_hangs_holds_up_no_search_and_no_close():
    async with memory_engine() as engine:
        async with memory_services(engine=engine) as writer:
            await filled(writer)
        async with memory_services(engine=engine) as services:
            await services.catalog.resolve(None)
            scroll, hung = engine.client.scroll, asyncio.Event()

            async def hang(*_, **__):
                hung.set()
                await asyncio.Event().wait()

            engine.client.scroll = hang
            page = await find(services, "bondary layer", "*")
            await hung.wait()
            assert (await find(services, "bondary layer", "*")).results == page.results
        engine.client.scroll = scroll


async def test_a_word_that_was_deleted_since_is_no_correction(services):
    """The vocabulary still has it; the probes say that it would find nothing."""
    await filled(services)
    services.lexicon.stored("notes", ["zeppelin"])
    page = await find(services, "zepelin layer", "*")

    assert page.corrections == ()
    assert texts(page)[0] == TEXTS[0]


@pytest.mark.parametrize(
    ("fields", "lifted"),
    [
        ({}, True),
        ({"fuzzy_boost": 0.0}, False),
        ({"algorithm": "semantic"}, False),
        ({"algorithm": "keyword"}, False),
        ({"algorithm": "keyword", "fuzzy_boost": 0.2}, True),
        ({"algorithm": "fuzzy"}, True),
    ],
)
async def test_likeness_counts_in_hybrid_and_fuzzy_search_or_where_it_is_asked_for(fields, lifted):
    async with memory_services() as services:
        await remember(services, "notes", "Of lentils and rice.", title="Red lentil dal")
        page = await find(services, "red lentil dal", "notes", explain=True, **fields)

    assert ("fuzzy" in page.results[0].why["factors"]) == lifted
