"""Earlier versions of texts by the tools: kept, listed, read and brought back."""

from typing import Any

import pytest

from mcp_server_qdrant.core.errors import DiskFull
from mcp_server_qdrant.core.notation import HISTORY
from tests.support import said
from tests.tools.memory import memory_of

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

LONG = "# Harbours\n\n" + " ".join(f"Sentence {n} speaks of boat {n}." for n in range(200))


def without(one: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in names}


async def test_a_replaced_text_comes_back_with_all_that_was_stored_with_it(engine):
    async with memory_of(engine) as memory:
        about = {
            "title": "Boats",
            "tags": ["sea"],
            "metadata": {"year": 1999, "of": {"who": "Ada"}},
        }
        await memory.store(LONG, **about)
        first = await memory.get("x")
        before = (await memory.store("a crane", title="", tags=[], metadata={}))["before"]
        old = await memory.get(before)
        done = await memory.ask("store", id=before)
        again = await memory.get("x")

        told = ("id", "document", "revision", "until", "by", "deleted")
        now = ("revision", "updated_at", "earlier_versions", "since")
        assert without(old, *told) == without(first, *told)
        assert old["id"] == old["document"] == before
        assert without(again, *now) == without(first, *now)
        assert (await memory.get(done["before"]))["text"] == "a crane"


async def test_of_a_longer_text_in_whose_place_a_version_comes_back_nothing_is_left(engine):
    async with memory_of(engine) as memory:
        await memory.store("a crane")
        before = (await memory.store(LONG))["before"]
        await memory.ask("store", id=before)

        assert (await memory.get("x"))["text"] == "a crane"
        assert (await engine.count("notes")).count == 1


async def test_a_found_id_needs_no_collection_to_be_updated(engine):
    async with memory_of(engine) as memory:
        found = await memory.store("the boat is red", "attic", id=None)
        await memory.store("a crane", "memory", id="crane")
        done = await memory.ask("store", id=found["id"], information="the boat is blue")
        named = await memory.ask("store", id="crane", information="two cranes")

        assert (done["collection"], done["id"]) == ("attic", found["id"])
        assert (await memory.get(found["id"]))["text"] == "the boat is blue"
        assert named["collection"] == "memory"


async def test_each_kind_of_change_keeps_what_was_there(engine):
    async with memory_of(engine) as memory:
        await memory.store("the boat is red", tags=["sea"])
        await memory.ask("store", id="x", tags=["lake"])
        await memory.store("the boat is blue")
        await memory.ask("store", id="x", collection_name="archive", title="Boat", create=True)
        listed = await memory.versions("x")
        tags = [(await memory.get(one["id"])).get("tags") for one in listed]

        assert [one["collection"] for one in listed] == ["archive"] * 3  # where the text is now
        assert [one["text"][-4:] for one in listed] == ["blue", " red", " red"]
        assert tags == [["lake"], ["lake"], ["sea"]]


async def test_versions_that_begin_alike_are_listed_with_what_the_next_one_changed(engine):
    async with memory_of(engine) as memory:
        await memory.store(LONG, title="Log")
        for number in (150, 40):
            edit = {"replace": f"boat {number}.", "with": f"ship {number}."}
            await memory.ask("store", id="x", edit=edit)
        await memory.ask("store", id="x", edit={"append": "The end."})
        call = {"ids": ["x"], "versions": True}
        listed = said(await memory.client.call_tool("qdrant-get", call)).splitlines()[:3]
        texts = [one["text"] for one in await memory.versions("x")]

        shown = [line.rpartition(" · ")[2] for line in listed]
        assert shown[0] == "Log: line 3: 199 speaks of boat 199."
        assert shown[1].startswith("Log: line 3: Sentence 40 speaks of boat 40. Sentence 41")
        assert shown[2].startswith("Log: line 3: Sentence 150 speaks of boat 150.")
        assert {text[:12] for text in texts} == {"# Harbours\n\n"}


async def test_every_id_of_a_text_that_was_moved_twice_leads_to_its_versions(engine):
    async with memory_of(engine) as memory:
        found = (await memory.store("the boat is red", id=None))["id"]
        before = (await memory.ask("store", id=found, tags=["sea"]))["before"]
        second = await memory.ask("store", id=found, collection_name="archive", create=True)
        await memory.ask("store", id=second["id"], collection_name="attic", create=True)

        assert (await memory.get(before))["text"] == "the boat is red"
        assert (await memory.get(f"{second['id']}@2026-01-01"))["text"] == "the boat is red"
        early = await memory.ask("get", ids=[f"{second['id']}@2025-01-01"])
        assert f"At that time there was no text with the id {second['id']}." in str(early)
        moved = await memory.refused("get", ids=[found])
        assert "Note: That text is id " in moved
        assert " of attic now." in moved
        third = (await memory.ask("find", query="boat"))["results"][0]["id"]
        await memory.ask("store", id=third, title="Boat")
        assert len(await memory.versions(found)) == 2
        await memory.ask("delete", ids=[third])
        assert "That text is" not in await memory.refused("get", ids=[found])


async def test_a_text_that_has_not_changed_since_a_time_is_as_it_was_then(engine):
    async with memory_of(engine) as memory:
        await memory.store(LONG)
        done = await memory.ask("get", ids=["x@2999-01-01"])
        later = await memory.refused("get", ids=["x@2026-01-01"])

        await memory.store("dated", metadata={"date": "2020-01-01"}, id="dated")
        dated = await memory.refused("get", ids=["dated@2021-01-01"])
        await memory.store("another", "archive")
        twice = await memory.refused("get", ids=["x@2999-01-01"])

    (one,) = done["documents"]
    assert (one["text"], done["missing"]) == (LONG, [])
    assert done["notes"][0] == "id x has not changed since that time."
    assert later.endswith(
        "Note: no version of id x from that time is kept; the id without @ gives the present text."
    )
    assert "no version of id dated from that time" in dated  # when it was stored is not known
    assert twice == "x is in archive, notes: pass collection_name."


async def test_a_change_that_changes_nothing_keeps_nothing(engine):
    async with memory_of(engine) as memory:
        await memory.store("the boat is red", tags=["sea"])
        again = await memory.store("the boat is red", tags=["sea"])
        await memory.store(LONG, id="long")
        long = await memory.store(LONG, id="long")
        moved = await memory.ask("store", id="x", collection_name="archive", create=True)

        assert [one.get("before") for one in (again, long, moved)] == [None] * 3
        assert await memory.refused("get", ids=["x"], versions=True) == (
            "No earlier version of x is kept."
        )


async def test_what_a_filter_deletes_comes_back_whole(engine):
    async with memory_of(engine) as memory:
        await memory.store(LONG, id="long", tags=["sea"])
        await memory.store("the boat is red", tags=["sea"])
        asked = {"query_filter": {}, "collection_name": "notes"}
        count = (await memory.ask("delete", **asked))["count"]
        done = await memory.ask("delete", **asked, confirm_count=count)
        for version in done["versions"]:
            await memory.ask("store", id=version)

        assert (await memory.get("long"))["text"] == LONG
        assert (await memory.get("x"))["text"] == "the boat is red"


async def test_a_version_is_restored_by_its_id_alone(engine):
    async with memory_of(engine) as memory:
        await memory.store("the boat is red")
        before = (await memory.store("the boat is blue"))["before"]

        said = "An earlier version is restored unchanged: give only its id."
        assert await memory.refused("store", id=before, tags=["a"]) == said
        assert (await memory.get("x"))["text"] == "the boat is blue"


async def test_an_id_that_looks_like_a_version_is_an_id_where_there_is_one(engine):
    async with memory_of(engine) as memory:
        own = "standup@2026-11-23"
        await memory.store("we met", id=own)
        await memory.ask("store", id=own, tags=["daily"])

        assert (await memory.get(own))["tags"] == ["daily"]
        assert (await memory.versions(own))[0]["id"].startswith(f"{own}@")


async def test_a_long_id_and_none_have_versions_too(engine):
    async with memory_of(engine) as memory:
        for given in ({"id": "y" * 50}, {"id": None}):
            done = await memory.store("the boat is red", **given)
            before = (await memory.ask("store", id=done["id"], tags=["sea"]))["before"]

            assert len(before) <= 60
            assert (await memory.get(before))["text"] == "the boat is red"
            assert (await memory.versions(done["id"]))[0]["id"] == before


async def test_no_search_no_list_and_no_call_sees_where_they_are_kept(engine):
    async with memory_of(engine) as memory:
        await memory.store("the quokka sleeps")
        await memory.store("the harbour sleeps")
        found = await memory.ask("find", query="quokka", collections=["*"])
        listed = await memory.ask("collections")

        assert await memory.engine.collection_exists(HISTORY)
        assert [one["text"] for one in found["results"]] == ["the harbour sleeps"]
        assert [one["name"] for one in listed["collections"]] == ["notes"]
        everything = {"query_filter": {}, "collection_name": HISTORY}
        for tool, asked in (
            ("find", {"query": "quokka", "collections": [HISTORY]}),
            ("get", {"ids": ["x"], "collection_name": HISTORY}),
            ("delete", everything),
            ("project", {"collections": [HISTORY]}),
        ):
            assert f"There is no collection '{HISTORY}'" in await memory.refused(tool, **asked)
        refused = await memory.refused(
            "store", information="a", collection_name=HISTORY, create=True
        )
        assert f"may not use a collection named '{HISTORY}'" in refused


async def test_a_version_that_could_not_be_kept_is_said_and_the_text_is_changed(engine):
    async with memory_of(engine) as memory:
        await memory.store("the boat is red")
        memory.engine.broken[HISTORY] = DiskFull("The disk is full.")
        asked = {"information": "the boat is blue", "id": "x", "collection_name": "notes"}
        changed = await memory.client.call_tool("qdrant-store", asked)
        gone = await memory.client.call_tool("qdrant-delete", {"ids": ["x"]})
        told = await memory.refused("get", ids=["x"])

        assert said(changed) == (
            "Updated in collection notes: id x. The previous version was not kept: The disk is "
            "full."
        )
        assert said(gone) == (
            "Deleted: notes (id x) · the boat is blue\nNote: not kept: The disk is full."
        )
        assert told.endswith("Note: earlier versions could not be read: The disk is full.")


async def test_without_a_history_answers_say_nothing_of_one(engine):
    async with memory_of(engine, history_days=0) as memory:
        await memory.store("the boat is red")
        changed = await memory.store("the boat is blue")
        asked = {"query_filter": {}, "collection_name": "notes"}
        sure = await memory.client.call_tool("qdrant-delete", asked)
        gone = await memory.ask("delete", ids=["x"])

    assert "before" not in changed
    assert said(sure).endswith("Call again with confirm_count=1 to delete them for good.")
    assert gone["documents"] == [{"collection": "notes", "id": "x", "points": 1}]
