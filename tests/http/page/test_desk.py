"""The page's calls that list and change texts: as the tools do it, and as far as they may."""

from typing import Any
from uuid import uuid4

import pytest

from mcp_server_qdrant.http.page.desk import EXCERPT
from tests.http.page.conftest import filled
from tests.listening import make_tokens
from tests.support import memory_engine

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

NOTES = {"collection_name": "notes"}
WRITES = [
    ("store", {"id": "x", "information": "new", **NOTES}),
    ("delete", {"ids": ["x"], **NOTES}),
    ("demo", {"name": "recipes"}),
]


def numbers(found):
    return [row["title"].removeprefix("No. ") for row in found["results"]]


async def test_the_newest_texts_are_listed_as_qdrant_find_lists_them_and_go_on_where_they_ended(
    page,
):
    tool = await page.tool(collections=["*"], limit=100, point_ids=True)
    found = await page.ask("list")

    assert [row["id"] for row in found["results"]] == [row["id"] for row in tool["results"]]
    assert len(found["results"]) == 24
    assert all(row["date"] for row in found["results"])
    assert found["results"][0].keys() >= {"id", "collection", "title", "text", "date"}
    rest = await page.ask("list", start=20)
    assert [row["id"] for row in rest["results"]] == [r["id"] for r in found["results"][20:]]


async def test_a_list_is_of_tags_collections_and_days(page):
    even = await page.ask("list", tags=["even"], collections=["notes"])
    past = await page.ask("list", until="2001-01-01")

    assert sorted(map(int, numbers(even))) == [0, 6, 12, 18]
    assert past["results"] == []


async def test_a_list_is_of_a_part_of_the_source(one):
    metadata = {"source": "https://example.org/plans/1"}
    arguments = {"information": "the plan", "collection_name": "notes", "metadata": metadata}
    stored = await one.mcp.call_tool("qdrant-store", arguments)
    assert not stored.is_error
    found = await one.ask("list", source="example.org/plans")

    assert [row["text"] for row in found["results"]] == ["the plan"]


async def test_a_long_text_is_listed_with_its_beginning(one):
    text = "word " * 200
    await one.ask("store", id="long", information=text, **NOTES)
    (row,) = [row for row in (await one.ask("list"))["results"] if len(row["text"]) > 100]

    assert EXCERPT - 10 < len(row["text"]) <= EXCERPT
    assert row["text"].endswith("word")


async def test_a_search_can_be_kept_to_as_many_points_as_the_page_is_told(page):
    most = (await page.ask("setup"))["most"]
    (found,) = (await page.ask("search", query="copper", limit=1))["results"]
    others = [str(uuid4()) for _ in range(most - 1)]
    kept = await page.ask("search", query="copper", ids=[found["id"], *others])

    assert [one["id"] for one in kept["results"]] == [found["id"]]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("list", {"limit": 5}, "There is no field 'limit'."),
    ("list", {"start": "5"}, "start must be a whole number from 0."),
    ("list", {"start": -1}, "start must be a whole number from 0."),
    ("list", {"start": 2_001}, "A list shows at most 2,000 texts: narrow it, or search."),
    ("list", {"since": "never"}, "since is not a date"),
    ("get", {"id": ""}, "There is no argument 'id'"),
    ("delete", {"query_filter": {}, **NOTES}, "There is no field 'query_filter'."),
    ("get", {"query_filter": {}, **NOTES}, "There is no field 'query_filter'."),
    ("map", {"search": {"query": "x", "query_filter": {}}}, "There is no field 'query_filter'."),
    ("why", {"search": {"query": "x"}, "id": "y"}, "Name the text by its id and its collection."),
    (
        "why",
        {"search": {"query": "x"}, "id": "y", "collection": "notes"},
        "No text has the id 'y'.",
    ),
    ("demo", {"name": ["x"]}, "The demo's collections are"),
    ("demo", {"name": "../secrets"}, "The demo's collections are homelab, meetings, recipes."),
]


async def test_what_cannot_be_done_is_one_sentence(one):
    for name, asked, sentence in REFUSED:
        assert sentence in await one.refused(name, **asked)


async def test_a_server_that_only_reads_changes_nothing():
    async with memory_engine() as engine, filled(engine.client, qdrant_read_only=True) as page:
        assert (await page.ask("setup"))["may"] == {"store": False, "delete": False}
        for name, asked in WRITES:
            sentence = await page.refused(name, **asked)
            assert sentence.startswith(("Nothing can be changed here", "Not found"))
        assert len((await page.ask("list"))["results"]) == 24


MAY = {
    "read": {"store": False, "delete": False},
    "write": {"store": True, "delete": False},
    "admin": {"store": True, "delete": True},
}


async def test_a_token_changes_what_its_scopes_allow(tmp_path):
    path = tmp_path / "tokens.yaml"
    tokens = make_tokens(path, **{scope: scope for scope in MAY})
    async with (
        memory_engine() as engine,
        filled(engine.client, auth_mode="token", auth_tokens_file=path) as page,
    ):
        for name, may in MAY.items():
            who = {"authorization": f"Bearer {tokens[name]}"}
            save = {"id": name, "information": f"by {name}", **NOTES}
            gone = {"ids": [name], **NOTES}
            move = {"id": name, "moved_from": "notes", "collection_name": "letters"}
            assert (await page.post("setup", {}, **who)).json()["may"] == may
            assert (await page.post("store", save, **who)).is_success == may["store"]
            assert (await page.post("store", move, **who)).is_success == may["delete"]
            assert (await page.post("store", save, **who)).is_success == may["store"]
            assert (await page.post("delete", gone, **who)).is_success == may["delete"]


async def test_texts_are_sorted_over_more_than_a_page_and_filtered_by_a_query(page):
    for number in range(120):
        await page.ask("store", id=f"n{number}", title=f"T{number:03}", information="x", **NOTES)
    whole = await page.ask("list", collections=["notes"], sort="title")
    titles = [row["title"] for row in whole["results"]]
    rest = await page.ask("list", collections=["notes"], sort="title", start=100)

    assert (len(titles), whole["more"], whole["sorted"]) == (100, 28, 128)
    assert titles == sorted(titles, key=str.casefold)
    assert [row["title"] for row in rest["results"]][-1] == "T119"
    assert (len(rest["results"]), rest["more"]) == (28, 0)
    down = await page.ask("list", collections=["notes"], sort="-title")
    assert down["results"][0]["title"] == "T119"
    found = await page.ask("list", query="copper", sort="title")
    assert 0 < len(found["results"]) < 24
    assert "sort must be one of" in await page.refused("list", sort="size")
