"""The newest texts, without a query."""

import os
from datetime import UTC, datetime

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import EngineFailure, InvalidFilter
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import point_id
from mcp_server_qdrant.core.sentences import tokens
from mcp_server_qdrant.ingest.files.state import SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.qdrant.read.newest import SCANNED
from mcp_server_qdrant.search.present import ROOM
from mcp_server_qdrant.tools.rendering import as_text
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    either_engine,
    find,
    foreign,
    memory_engine,
    memory_server,
    memory_services,
    said,
)

LONG = " ".join(f"Sentence {number} of the plan." for number in range(200))


async def remember(services, day: int, text: str, collection: str = "notes", **fields) -> None:
    when = datetime(2026, 10, day, tzinfo=UTC)
    await services.store.store(NewDocument(text, created_at=when, **fields), collection)


async def listed(services, **fields):
    page = await services.pipeline.search(SearchRequest(**{"collections": ["*"]} | fields))
    return [one.document.document or one.document.id for one in page.results], list(page.notes)


@pytest.fixture(params=["memory", "edge"])
async def engine(request, tmp_path):
    async with either_engine(request.param, tmp_path) as engine:
        yield engine


async def test_the_newest_come_first_whichever_collection_they_are_in(engine):
    async with memory_services(engine=engine) as services:
        await remember(services, 3, "roses", id="three", tags=("plant",))
        await remember(services, 1, LONG, id="long")
        await remember(services, 2, "moss", "diary", id="two", tags=("plant",))
        await remember(services, 4, "oak", id="four")
        fern = {7: {"document": "fern", "metadata": None}}
        await foreign(engine, "official", fern, vectors={"v": COSINE})
        everything = await listed(services)
        two = await listed(services, limit=2)
        plants = {"must": [{"key": "tags", "match": {"value": "plant"}}]}
        tagged = await listed(services, query_filter=plants)
        early = await listed(services, until="2026-10-02", collections=["notes", "diary"])
        dated = await listed(services, since="2026-10-02")
        worded = {"must": [{"key": "document", "match": {"text": "Sentence 199"}}]}
        parts = await listed(services, query_filter=worded)

    undated = "1 text without a date left out by since and until."
    assert everything == (
        ["four", "three", "two", "long", 7],
        ["5 texts, the newest first. Those without a date come last."],
    )
    assert two == (
        ["four", "three"],
        [f"2 of {everything[1][0]} For older ones raise limit, or set until."],
    )
    assert tagged == (["three", "two"], ["2 texts, the newest first."])
    assert early == (["two", "long"], ["2 texts, the newest first."])
    assert dated == (["four", "three", "two"], ["3 texts, the newest first.", undated])
    assert parts[0] == ["long"]


async def test_the_beginning_of_a_text_keeps_its_lines_and_has_its_share_of_the_page():
    code = "def pop(heap):\n    last = heap[-1]  # May raise\n    del heap[-1]\n    return last\n"
    async with memory_services() as services:
        for number in range(9):
            await remember(services, 1 + number, f"{code}\n# {number} {LONG}", id=f"n{number}")
        page = await services.pipeline.search(SearchRequest(collections=["*"]))
        one = await services.pipeline.search(SearchRequest(collections=["*"], limit=1))

    assert one.results[0].passages[0].text.startswith(code.strip())
    quotes = [result.passages[0].text.removesuffix("…") for result in page.results]
    assert [quote for quote in quotes if not code.startswith(quote)] == []
    assert tokens(as_text(page, "minimal")) <= ROOM


async def test_superseded_texts_come_last(engine):
    async with memory_services(engine=engine) as services:
        await remember(services, 1, "moss", id="old")
        await remember(services, 5, "roses", id="gone")
        (gone,) = (await services.deletion.lookup.find_in("notes", ["gone"])).values()
        await services.store.store(NewDocument("fern", id="new"), "notes", supersedes=[gone])

        assert (await listed(services))[0] == ["new", "old", "gone"]


async def test_texts_without_the_indexed_date_come_behind_those_that_have_it(tmp_path):
    async with (
        either_engine("edge", tmp_path) as engine,
        memory_services(engine=engine) as services,
    ):
        await remember(services, 1, "moss", id="old")
        point = models.PointStruct(id=7, vector={}, payload={"document": "fern", "metadata": None})
        await engine.upsert("notes", [point])

        assert (await listed(services))[0] == ["old", 7]
        assert (await listed(services, limit=1))[0] == ["old"]


async def test_a_collection_without_an_index_of_dates_is_read_as_far_as_time_allows():
    payloads = {
        number: {"document": "x", "metadata": {"date": f"2026-10-{1 + number % 28:02}"}}
        for number in range(1, SCANNED + 600)
    }
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        await foreign(engine, "large", payloads)
        ids, notes = await listed(services, limit=3)

    assert ids == [27, 55, 83]
    assert notes == [
        f"3 of {SCANNED:,} texts, the newest first. For older ones raise limit, or set until.",
        "large: it has no index for that, so only some texts were examined.",
    ]


async def test_one_that_fails_is_told_and_a_key_that_no_text_has_too():
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        await remember(services, 1, "moss", id="old")
        await remember(services, 2, "roses", "broken")
        engine.broken["broken"] = EngineFailure("damaged")
        ids, notes = await listed(services)
        engine.broken.clear()
        nothing = {"must": [{"key": "metadata.nothing", "match": {"value": 1}}]}
        with pytest.raises(InvalidFilter, match="No text there has the key"):
            await listed(services, query_filter=nothing)

    assert ids == ["old"]
    assert any("broken" in note and "damaged" in note for note in notes)


async def test_an_agent_browses_without_a_query():
    async with memory_server(collection_name="notes") as client:
        for text in ("moss", "roses"):
            await client.call_tool("qdrant-store", {"information": text, "id": text})
        found = await client.call_tool("qdrant-find", {"collections": ["notes"]})
        whole = await client.call_tool("qdrant-find", {"since": "1d", "mode": "full"})
        bare = await client.call_tool("qdrant-find", {})

    assert "1. notes (id " in said(found)
    assert "> moss" in said(found)
    assert said(found).endswith("Note: 2 texts, the newest first.")
    assert "relevance" not in found.structured_content["results"][0]
    assert {one["text"] for one in whole.structured_content["results"]} == {"moss", "roses"}
    assert said(bare) == said(found)


async def test_texts_of_files_are_dated_by_what_they_say_and_else_not_at_all(engine, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, front, time in (
        ("said.md", "---\ndate: 2023-05-08\n---\n", 1.7e9),
        ("older.md", "", 1.5e9),
        ("newer.md", "", 1.6e9),
    ):
        (folder / name).write_text(f"{front}The harbour of {name}, seen from {time}.")
        os.utime(folder / name, (time, time))
    async with memory_services(engine=engine) as services:
        await services.sync(SyncRequest(tuple(sources([folder])), "files"))
        everything, _ = await listed(services)
        dated, _ = await listed(services, since="2023-05", until="2023-05")
        copied, _ = await listed(services, since="2017")
        page = await find(services, "harbour", "files", explain=True)

    assert everything == ["notes/said.md", "notes/newer.md", "notes/older.md"]
    assert dated == copied == ["notes/said.md"]
    aged = {one.document.document for one in page.results if "recency" in one.why["factors"]}
    assert aged == {"notes/said.md"}


async def test_a_text_stored_before_texts_had_a_date_is_found_by_the_dates_it_has(engine):
    async with memory_services(engine=engine) as services:
        await remember(services, 5, "roses", id="new")
        await remember(services, 3, "moss", id="old")
        await engine.delete_payload("notes", ["doc.date"], [point_id("notes", "old", 0)])

        assert (await listed(services))[0] == ["new", "old"]
        assert (await listed(services, until="2026-10-04"))[0] == ["old"]


async def test_what_was_changed_lately_is_listed_though_its_own_date_is_old(engine):
    async with memory_services(engine=engine) as services:
        services.history._now = lambda: datetime(2026, 11, 28, 9, tzinfo=UTC)
        services.store.now = lambda: datetime(2026, 11, 20, tzinfo=UTC)
        for day in (1, 2, 3):
            await remember(services, day, f"meeting {day}", id=f"m{day}")
        services.store.now = lambda: datetime(2026, 11, 28, 9, tzinfo=UTC)
        corrected = NewDocument("meeting 1, at noon", id="m1")
        await services.store.store(corrected, "notes")

        assert (await listed(services, since="2026-11-28"))[0] == ["m1"]
        assert (await listed(services, limit=2))[0] == ["m1", "m3"]
        then, m2 = (await listed(services, until="2026-10-02"))[0]
        assert then.startswith("m1@")
        assert m2 == "m2"
        page = await find(services, "meeting", "notes", since="2026-11-28")
        assert page.results == []  # with a query the date of the text itself counts


async def test_how_many_texts_without_a_date_were_left_out_is_said(engine):
    async with memory_services(engine=engine) as services:
        await remember(services, 3, "roses in October", id="dated")
        named = {"vectors": {"v": COSINE}}
        payloads = {n: {"document": f"roses {n}", "tags": ["a"] if n < 3 else []} for n in range(5)}
        await foreign(engine, "official", payloads, **named)
        said = "5 texts without a date left out by since and until."
        found = await find(services, "roses", "*", since="2026-10")
        tagged = await find(services, "roses", "*", since="2026-10", tags=("a",))
        without = await find(services, "roses", "notes", since="2026-10")

        assert found.notes[-1] == (await listed(services, since="2026-10"))[1][-1] == said
        assert tagged.notes[-1] == said.replace("5", "3")
        assert not any("without a date" in note for note in without.notes)


HAMLET = "Act three. To be, or not to be:\nthat is the question."
COMMON = [
    ("to be or not to be", ["hamlet"]),
    ('"to be or not to be"', ["hamlet"]),
    ('"the who"', ["band"]),
    ("THE WHO", ["band"]),
    ("what will it be", []),
    ("🌹", ["rose"]),
]


@pytest.mark.parametrize(("query", "expected"), COMMON)
async def test_a_query_of_stop_words_alone_finds_texts_that_have_them_as_written(
    engine, query, expected
):
    encoder = FakeEncoder()
    encoder.be("failed")
    async with memory_services(encoder, engine=engine) as services:
        await remember(services, 1, HAMLET, id="hamlet")
        await remember(services, 2, "Tickets for The Who, who play in the park", id="band")
        await remember(services, 3, "Those who know the way will not be late 🌹 to it", id="rose")
        page = await find(services, query, "notes")

    assert [one.document.document for one in page.results] == expected
    assert any("too common to rank by" in note for note in page.notes) is bool(expected)
    assert page.notes[0].startswith("notes: keywords only: The model")


async def test_a_phrase_far_down_in_a_text_is_quoted():
    encoder = FakeEncoder()
    encoder.be("failed")
    async with memory_services(encoder) as services:
        await remember(services, 1, f"{'A long way to go. ' * 25}Then came The Who.", id="band")
        page = await find(services, '"the who"', "notes")

    assert "The Who" in page.results[0].passage
