"""A find is one pass, and what its page quotes is true."""

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import RequestError
from tests.support import find, memory_engine, memory_services, remember

PARAGRAPHS = [
    f"# Chapter {n}\n\nThe {word} harbour has {n} piers. Boats of the {word} fleet leave at dawn. "
    f"Their captain keeps a log.\n\n- rope {n}\n- anchor {n}\n"
    for n, word in enumerate(("northern", "southern", "eastern", "western", "inner", "outer") * 8)
]
BOOK = "\n".join(PARAGRAPHS)


def bare(text: str) -> str:
    return "".join(text.split())


async def stored(services, text: str, name: str = "notes", **fields):
    return await services.store.store(NewDocument(text, **fields), name, create=True)


async def test_every_passage_is_one_stretch_of_the_part_that_is_named():
    async with memory_services() as services:
        await stored(services, BOOK, id="book", title="Harbours")
        await stored(services, BOOK.replace("harbour", "port"), id="ports", title="Ports")
        queries = ("western harbour piers", "log of the captain", "rope 7", "dawn", "zeppelin port")
        pages = [await find(services, query, "*") for query in queries]
        passages = [p for page in pages for one in page.results for p in one.passages]

    assert len(passages) > 3 * len(queries)
    assert [p for p in passages if bare(p.text) not in bare(p.part.text)] == []


async def test_a_collection_of_one_book_shows_several_of_its_passages_and_how_to_see_more():
    async with memory_services() as services:
        await stored(services, BOOK, id="book")
        page = await find(services, "harbour piers", "notes")
        few = await find(services, "harbour piers", "notes", group_size=1)

    (only,) = page.results
    assert 1 < len(only.passages) <= 6
    assert only.left > 0
    assert [len(one.passages) for one in few.results] == [1]


async def test_within_a_text_its_passages_alone_are_found_as_many_as_the_limit():
    async with memory_services() as services:
        await stored(services, BOOK, id="book")
        await remember(services, "other", "harbour piers of the western harbour")
        page = await find(services, "western harbour piers", "*", within="book", limit=12)
        part = page.results[0].passages[3].part
        again = await find(services, "western harbour piers", "*", within=str(part.id))

    (only,) = page.results
    assert only.document.document == "book"
    assert len(only.passages) == 12
    relevance = [passage.part.chunk for passage in only.passages]
    assert len(set(relevance)) == 12
    assert {one.document.document for one in again.results} == {"book"}


async def test_an_id_of_a_collection_that_was_not_named_is_told_with_its_place():
    async with memory_services() as services:
        await remember(services, "notes", "roses need sun", id="roses")
        await remember(services, "garden", "moss needs shade")
        with pytest.raises(RequestError, match=r"^Not in garden, but in notes: name that"):
            await find(services, "sun", "garden", within="roses")


async def test_an_id_that_is_nowhere_is_told_in_one_sentence():
    async with memory_services() as services:
        await remember(services, "notes", "roses need sun")
        with pytest.raises(RequestError, match=r"^No text has the id .gone.: within"):
            await find(services, "roses", "notes", within="gone")


async def test_a_successor_is_shown_though_its_collection_has_none_of_the_words():
    """By keywords such a collection gives no candidates."""
    async with memory_services() as services:
        await remember(services, "notes", "Visitors come at nine.", id="old")
        old, _ = await services.lookup.locate(["old"], "notes")
        new = NewDocument("Guests arrive later now.", id="new")
        await services.store.store(new, "others", create=True, supersedes=[old[0]])
        page = await find(services, "visitors nine", "*", algorithm="keyword")

    assert [one.document.document for one in page.results] == ["new", "old"]


async def test_an_identifier_that_no_text_contains_is_named_and_others_of_its_kind_are_weak():
    async with memory_services() as services:
        await remember(services, "notes", "CVE-2024-1234 is in the parser", "the parser reads JSON")
        lost = await find(services, "CVE-2099-0001", "notes")
        known = await find(services, "CVE-2024-1234", "notes")

    assert lost.notes[0] == "No text found contains cve-2099-0001."
    assert lost.weak
    assert lost.notes[1].startswith("Weak matches only")
    assert (known.notes, known.weak) == ([], False)


async def test_a_server_is_asked_twice_for_each_collection_and_once_more_for_new_words():
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        for name in ("north", "south"):
            await remember(services, name, "roses need sun", "moss needs shade")
        await find(services, "roses sun", "*")  # the words are known from here on
        engine.calls.clear()
        await find(services, "sun roses", "*")

    searches = [name for call, name in engine.calls if call == "query_batch_points"]
    assert sorted(searches) == ["north", "north", "south", "south"]
