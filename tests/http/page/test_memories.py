"""The page's calls that list and change texts: as the tools do it, and as far as they may."""

import asyncio
import json

import pytest
from mcp import Client

from mcp_server_qdrant.http.auth.tokens import digest
from mcp_server_qdrant.http.page.memories import DEMO, EXCERPT
from tests.http.page.conftest import filled
from tests.support import memory_engine

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

WRITES = [
    ("save", {"id": "x", "collection": "notes", "text": "new"}),
    ("delete", {"id": "x", "collection": "notes"}),
    ("move", {"id": "x", "collection": "notes", "to": "letters"}),
    ("demo", {"name": "recipes"}),
    ("restore", {"id": "x@2026-05-01", "collection": "notes"}),
]


def numbers(found):
    return [row["title"].removeprefix("No. ") for row in found["results"]]


async def test_the_newest_texts_are_listed_as_qdrant_find_lists_them(page):
    tool = await page.tool(collections=["*"], limit=100, point_ids=True)
    found = await page.ask("list")

    assert [row["id"] for row in found["results"]] == [row["id"] for row in tool["results"]]
    assert len(found["results"]) == 24
    assert all(row["date"] for row in found["results"])
    assert found["results"][0].keys() >= {"id", "collection", "title", "text", "date"}


async def test_what_was_seen_is_not_listed_again(page):
    everything = await page.ask("list")
    seen = [row["id"] for row in everything["results"][:20]]
    rest = await page.ask("list", seen=seen)

    assert [row["id"] for row in rest["results"]] == [r["id"] for r in everything["results"][20:]]


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
    await one.ask("save", id="long", collection="notes", text=text)
    (row,) = [row for row in (await one.ask("list"))["results"] if len(row["text"]) > 100]

    assert EXCERPT - 10 < len(row["text"]) <= EXCERPT
    assert row["text"].endswith("word")


async def test_the_first_sight_has_the_newest_texts_of_each_collection(page):
    newest = (await page.ask("home"))["newest"]

    assert {name: len(rows) for name, rows in newest.items()} == {"letters": 16, "notes": 8}


async def test_a_text_is_edited_under_its_id_and_keeps_what_is_left_out(page):
    (found,) = (await page.ask("search", query="copper", limit=1))["results"]
    where = {"id": found["id"], "collection": found["collection"]}
    before = (await page.ask("text", **where))["documents"][0]
    await page.ask("save", **where, text="an entirely new text", tags=["fresh"])
    after = (await page.ask("text", **where))["documents"][0]

    assert after["text"] == "an entirely new text"
    assert (after["tags"], after["title"]) == (["fresh"], before["title"])
    assert after["document"] == before["document"]


async def test_who_subscribed_to_the_collections_hears_of_what_the_page_writes(one):
    what = "qdrant://collections"
    async with Client(one.mcp) as client, client.listen(resource_subscriptions=[what]) as heard:
        await one.ask("search", query="alpha")
        await one.ask("save", id="x", collection="notes", text="new")
        event = await asyncio.wait_for(anext(aiter(heard)), 30)

    assert event.uri == what


async def test_a_text_is_deleted(page):
    (found,) = (await page.ask("search", query="copper", limit=1))["results"]
    where = {"id": found["id"], "collection": found["collection"]}
    await page.ask("delete", **where)

    assert "Not found" in await page.refused("text", **where)
    assert len((await page.ask("list"))["results"]) == 23


async def test_what_was_edited_or_deleted_is_listed_read_and_brought_back(page):
    where = {"id": "mine", "collection": "notes"}
    assert "No earlier version" in await page.refused("versions", **where)
    await page.ask("save", **where, text="the first")
    await page.ask("save", **where, text="the second")
    (gone,) = (await page.ask("delete", **where))["documents"]
    listed = (await page.ask("versions", **where))["versions"]
    read = await whole(page, listed[1]["id"])
    await page.ask("restore", id=gone["version"], collection="notes")

    assert (await page.ask("setup"))["days"] == 30
    assert listed[0]["id"] == gone["version"]
    assert (read["text"], read["id"]) == ("the first", listed[1]["id"])
    assert (await whole(page, "mine"))["text"] == "the second"


async def test_a_text_moves_with_all_that_is_known_of_it(page):
    about = {"metadata": {"source": "https://example.org/a", "created_at": "2020-01-02T03:04:05Z"}}
    arguments = {"information": "moving text", "collection_name": "notes", "id": "mine"}
    arguments |= {"title": "A title", "tags": ["one", "two"], **about}
    assert not (await page.mcp.call_tool("qdrant-store", arguments)).is_error
    done = await page.ask("move", id="mine", collection="notes", to="letters")
    (there,) = (await page.ask("text", id="mine", collection="letters"))["documents"]

    assert (done["collection"], done["id"]) == ("letters", "mine")
    assert (there["text"], there["title"]) == ("moving text", "A title")
    assert (there["tags"], there["source"]) == (["one", "two"], "https://example.org/a")
    assert there["created_at"].startswith("2020-01-02")
    assert "Not found" in await page.refused("text", id="mine", collection="notes")


async def test_a_move_that_cannot_be_stored_deletes_nothing(page):
    await page.ask("save", id="mine", collection="notes", text="the text stays")
    refused = await page.refused("move", id="mine", collection="notes", to="note")

    assert "note" in refused
    assert (await page.ask("text", id="mine", collection="notes"))["documents"]


LONG = " ".join(f"Sentence {n} speaks of harbour {n}." for n in range(300))


async def whole(page, name, collection="notes"):
    (one,) = (await page.ask("text", id=name, collection=collection))["documents"]
    return one


async def test_a_move_into_the_same_collection_or_onto_another_text_changes_nothing(page):
    for collection in ("notes", "letters"):
        await page.ask("save", id="mine", collection=collection, text=f"in {collection}")
    same = await page.refused("move", id="mine", collection="notes", to="notes")
    taken = await page.refused("move", id="mine", collection="notes", to="letters")

    assert "is in notes already" in same
    assert "letters has a text with the id mine already" in taken
    for collection in ("notes", "letters"):
        assert (await whole(page, "mine", collection))["text"] == f"in {collection}"


async def test_the_id_of_a_part_moves_the_whole_text(page):
    await page.ask("save", id="mine", collection="notes", text=LONG)
    (found,) = (await page.ask("search", query="harbour 250", limit=1))["results"]
    await page.ask("move", id=found["id"], collection="notes", to="letters")

    assert found["part"]
    assert (await whole(page, "mine", "letters"))["text"] == LONG


@pytest.mark.parametrize(
    ("name", "more"), [("save", {"text": "late"}), ("delete", {}), ("move", {"to": "letters"})]
)
async def test_who_acts_on_what_is_outdated_is_told_and_nothing_is_changed(page, name, more):
    await page.ask("save", id="mine", collection="notes", text="the first")
    where = {"id": "mine", "collection": "notes", "seen": (await whole(page, "mine"))["revision"]}
    await page.ask("save", id="mine", collection="notes", text="somebody else's")
    sentence = await page.refused(name, **where, **more)

    assert sentence.startswith("Nothing was changed: somebody else has changed")
    assert (await whole(page, "mine"))["text"] == "somebody else's"


async def test_what_was_just_read_is_changed(page):
    await page.ask("save", id="mine", collection="notes", text="the first")
    where = {"id": "mine", "collection": "notes"}
    await page.ask("save", **where, seen=(await whole(page, "mine"))["revision"], text="edited")
    await page.ask("move", **where, seen=(await whole(page, "mine"))["revision"], to="letters")
    there = await whole(page, "mine", "letters")
    await page.ask("delete", id="mine", collection="letters", seen=there["revision"])

    assert there["text"] == "edited"
    assert "Not found" in await page.refused("text", id="mine", collection="letters")


async def test_a_collection_of_the_demo_is_stored_with_one_call(one):
    done = await one.ask("demo", name="recipes")
    setup = await one.ask("setup")
    lines = (DEMO / "recipes.jsonl").read_text("utf-8").splitlines()

    assert done == {"collection": "recipes", "texts": len(lines)}
    assert "recipes" in [collection["name"] for collection in setup["collections"]]


@pytest.mark.parametrize(
    ("name", "asked", "sentence"),
    [
        ("list", {"limit": 5}, "There is no field 'limit'."),
        ("list", {"seen": ["nothing"]}, "seen must be a list of at most 5,000 found ids."),
        ("list", {"seen": 5}, "seen must be a list"),
        ("list", {"tags": "x"}, "tags must be a list of texts."),
        ("list", {"collections": ["nots"]}, "Did you mean 'notes'?"),
        ("list", {"since": "never"}, "since is no date"),
        ("save", {"id": "x", "collection": "notes", "text": " "}, "information is empty"),
        ("save", {"metadata": {}}, "There is no field 'metadata'."),
        ("delete", {"id": "nowhere", "collection": "notes"}, "not found"),
        ("versions", {"text": ""}, "There is no field 'text'."),
        ("restore", {"seen": ""}, "There is no field 'seen'."),
        ("delete", {"query_filter": {}}, "There is no field 'query_filter'."),
        ("delete", {}, "ids must be a valid string"),
        (
            "move",
            {"id": "nowhere", "collection": "notes", "to": "letters"},
            "There is no text nowhere",
        ),
        ("move", {"id": "x", "collection": "notes", "to": ["a"]}, "to must be the name of a"),
        ("move", {"id": "x", "collection": "notes"}, "to must be the name of a collection."),
        ("demo", {"name": ["x"]}, "The demo's collections are"),
        ("demo", {"name": "../secrets"}, "The demo's collections are homelab, meetings, recipes."),
    ],
)
async def test_what_cannot_be_done_is_one_sentence(one, name, asked, sentence):
    assert sentence in await one.refused(name, **asked)


@pytest.mark.parametrize(("name", "asked"), WRITES)
async def test_a_server_that_only_reads_changes_nothing(name, asked):
    async with memory_engine() as engine, filled(engine.client, qdrant_read_only=True) as page:
        assert (await page.ask("setup"))["may"] == {"store": False, "delete": False}
        sentence = await page.refused(name, **asked)
        assert sentence.startswith(("Nothing can be changed here", "Not found"))
        assert len((await page.ask("list"))["results"]) == 24


SCOPES = {
    "rita": (["read"], {"store": False, "delete": False}),
    "wim": (["read", "write"], {"store": True, "delete": False}),
    "anna": (["read", "write", "admin"], {"store": True, "delete": True}),
}


async def test_a_token_changes_what_its_scopes_allow(tmp_path):
    secrets = {name: f"{name}-token-of-at-least-32-characters" for name in SCOPES}
    path = tmp_path / "tokens.json"
    path.write_text(
        json.dumps(
            [
                {"name": name, "sha256": digest(secrets[name]), "scopes": scopes}
                for name, (scopes, _) in SCOPES.items()
            ]
        )
    )
    async with (
        memory_engine() as engine,
        filled(engine.client, auth_mode="token", auth_tokens_file=path) as page,
    ):
        for name, (_, may) in SCOPES.items():
            who = {"authorization": f"Bearer {secrets[name]}"}
            save = {"id": name, "collection": "notes", "text": f"by {name}"}
            gone = {"id": name, "collection": "notes"}
            move = gone | {"to": "letters"}
            assert (await page.post("setup", {}, **who)).json()["may"] == may
            assert (await page.post("save", save, **who)).is_success == may["store"]
            assert (await page.post("move", move, **who)).is_success == may["delete"]
            assert (await page.post("save", save, **who)).is_success == may["store"]
            assert (await page.post("delete", gone, **who)).is_success == may["delete"]


@pytest.mark.parametrize(("name", "asked"), WRITES)
async def test_no_other_site_can_change_anything(one, name, asked):
    for headers in (
        {"x-requested-with": "somebody"},
        {"sec-fetch-site": "cross-site"},
        {"content-type": "text/plain"},
        {"origin": "https://evil.example"},
    ):
        assert (await one.post(name, asked, **headers)).status_code in (403, 415)
    assert len((await one.ask("list"))["results"]) == 24


async def test_texts_are_sorted_over_more_than_a_page_and_filtered_by_a_query(page):
    for number in range(120):
        await page.ask("save", id=f"n{number}", collection="notes", title=f"T{number:03}", text="x")
    whole = await page.ask("list", collections=["notes"], sort="title")
    titles = [row["title"] for row in whole["results"]]
    rest = await page.ask(
        "list", collections=["notes"], sort="title", seen=[row["id"] for row in whole["results"]]
    )

    assert (len(titles), whole["more"], whole["sorted"]) == (100, 28, 128)
    assert titles == sorted(titles, key=str.casefold)
    assert [row["title"] for row in rest["results"]][-1] == "T119"
    down = await page.ask("list", collections=["notes"], sort="-title")
    assert down["results"][0]["title"] == "T119"
    found = await page.ask("list", query="copper", sort="title")
    assert 0 < len(found["results"]) < 24
    assert "sort must be one of" in await page.refused("list", sort="size")
