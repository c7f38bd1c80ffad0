"""Texts that expire: found no more, kept, and brought back."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests.support import COSINE, foreign, memory_server, refusal, said
from tests.tools.memory import PAST, Memory, end, memory_of

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

LONG = "# Harbours\n\n" + " ".join(f"Sentence {n} speaks of boat {n}." for n in range(200))
OFFER = "The ferry offers half price to students."


async def found(memory: Memory, **asked: Any) -> list[str]:
    answer = await memory.ask("find", **asked)
    return [one["document"] if "document" in one else one["id"] for one in answer["results"]]


async def test_what_has_expired_is_found_and_listed_no_more_and_is_kept(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        done = await memory.store(OFFER, expires="90 days", tags=["ferry"])
        await memory.store("The ferry leaves at noon.", id="y")
        days = (datetime.fromisoformat(done["expires_at"]) - datetime.now(UTC)).days
        assert days in (89, 90)
        assert await found(memory, query="ferry price students") != []
        await end(memory)

        for asked in ({"query": "ferry half price students"}, {}, {"query": "", "tags": ["ferry"]}):
            shown = await memory.client.call_tool("qdrant-find", asked)
            assert "half price" not in said(shown), asked
        got = await memory.ask("get", ids=["x"])
        assert got["documents"][0]["text"] == OFFER
        assert got["documents"][0]["expires_at"] == PAST
        assert f"@{PAST}: qdrant-store with only that id restores it" in got["notes"][0]
        assert (await memory.get(f"x@{PAST}"))["text"] == OFFER


async def test_it_is_brought_back_like_any_version(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store(LONG, expires="2100-01-31")
        for by in (f"x@{PAST}", "x"):
            await end(memory)
            assert await found(memory, query="boat 7") == []
            done = await memory.client.call_tool("qdrant-store", {"id": by})

            assert said(done).startswith("Restored in collection notes")
            assert await found(memory, query="boat 7") != []
            assert "expires_at" not in await memory.get("x")


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ["ferry"]},
        {"information": OFFER},
        {"title": "Offer"},
        {"edit": {"append": "All year."}},
    ],
)
async def test_who_changes_or_stores_it_again_brings_it_back(engine, change):
    async with memory_of(engine) as memory:
        await memory.store(OFFER, expires="2100-01-31")
        await end(memory)
        done = await memory.client.call_tool(
            "qdrant-store", {"id": "x", "collection_name": "notes", **change}
        )

        assert said(done).startswith("Restored in collection notes")
        assert "expires_at" not in done.structured_content
        assert await found(memory, query="ferry half price") == ["x"]


async def test_an_earlier_version_of_a_text_that_expires_comes_back_without_its_end(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store(OFFER, expires="2100-01-31")
        await end(memory)
        before = (await memory.store("The ferry offers nothing."))["before"]
        assert "expires_at" not in await memory.get("x")
        await memory.ask("store", id=before)

        assert "half price" in said(
            await memory.client.call_tool("qdrant-find", {"query": "ferry"})
        )


async def test_an_update_keeps_the_end_that_it_leaves_out_and_never_lifts_it(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store(OFFER, expires="2100-01-31")
        assert (await memory.get("x"))["expires_at"] == "2100-02-01T00:00:00Z"
        await memory.store("The ferry offers nothing.")
        await memory.ask("store", id="x", tags=["ferry"])
        assert (await memory.get("x"))["expires_at"] == "2100-02-01T00:00:00Z"
        await memory.ask("store", id="x", expires="2 weeks")
        assert (await memory.get("x"))["expires_at"] < "2100"
        await memory.ask("store", id="x", collection_name="archive", create=True)
        assert (await memory.get("x"))["expires_at"] < "2100"
        await memory.ask("store", id="x", expires="never")
        assert "expires_at" not in await memory.get("x")


async def test_texts_of_a_collection_with_a_default_expire_unless_they_say_otherwise(engine):
    async with memory_server(engine=engine) as client:
        memory = Memory(client, engine)
        await memory.store("The crane is wet.", id="before")
        await Bulk(engine, ()).set_expiry("notes", "90 days")
        done = await memory.store(OFFER)
        lasting = await memory.store("The lighthouse is white.", id="y", expires="never")
        await memory.store("The crane is dry.", id="before")
        listed = said(await client.call_tool("qdrant-collections", {}))

        assert done["expires_at"] < "2100"
        assert "expires_at" not in lasting
        assert "expires_at" not in await memory.get("before")
        assert "new texts expire: 90 days" in listed


async def test_neither_tags_nor_the_map_nor_the_count_show_what_has_expired(engine):
    async with memory_server(engine=engine) as client:
        memory = Memory(client, engine)
        await memory.store(OFFER, expires="1 year", tags=["discount"])
        await memory.store("The ferry leaves at noon.", id="y", tags=["times"])
        await end(memory)
        missing = said(await client.call_tool("qdrant-find", {"query": "ferry", "tags": ["no"]}))
        mapped = await memory.ask("project", collections=["notes"], points=True)
        listed = said(await client.call_tool("qdrant-collections", {}))

        assert "times" in missing
        assert "discount" not in missing
        assert "half price" not in str(mapped)
        assert "1 point" in listed


async def test_a_successor_that_has_expired_stands_in_no_place(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store("Ana works from Monday to Friday.", id="y")
        await memory.store("Ana is away and does not work.", supersedes="y", expires="1 week")
        await end(memory)

        for asked in ({"query": "when does Ana work"}, {"query": ""}):
            page = said(await memory.client.call_tool("qdrant-find", asked))
            assert "Monday" in page
            assert "is away" not in page
            assert "superseded" not in page
        assert "superseded_by" not in await memory.get("y")
        again = await memory.store("Ana works from Tuesday to Friday.", id="y")
        assert "superseded_by" not in again


async def test_an_end_that_is_no_date_or_past_and_that_of_another_tools_text_are_refused(engine):
    await foreign(engine, "old", {2: {"text": "wet"}}, vectors={"fast-bag-of-words": COSINE})
    async with memory_server(engine=engine) as client:
        memory = Memory(client, engine)
        for said in ("soon", "2020-01-31", "-3 days", "yesterday", "90"):
            sentence = await memory.refused("store", information=OFFER, id="x", expires=said)
            assert sentence.startswith("expires is ")
        asked = {"id": "2", "expires": "90 days", "collection_name": "old"}
        assert "only texts of this server expire" in refusal(
            await client.call_tool("qdrant-store", asked)
        )
