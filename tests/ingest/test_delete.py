"""Deletion by a filter: whole texts, and only as they were when they were listed; both engines."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.notation import point_id
from mcp_server_qdrant.core.writes import Changes
from tests.support import (
    COSINE,
    LONG,
    dense,
    foreign,
    memory_server,
    memory_services,
    parts_of,
    remember,
    said,
)


def corrects_meanwhile(services: Services, name: str) -> None:
    """Have somebody correct the text of this id once a version of it is kept for its deletion."""
    keep = services.store.history.keep_all

    async def slow(texts: Any, **how: Any) -> Any:
        kept = await keep(texts, **how)
        if how.get("deleted") and name in {one.document for one in texts}:
            await remember(services, "notes", "corrected", id=name, metadata={"year": 2020})
        return kept

    services.store.history.keep_all = slow


def before_the_swap(
    services: Services, write: Callable[[], Awaitable[Any]], step: str = "exchange"
) -> None:
    """Have another server write just before the next text takes its place."""
    points = services.store.points
    swap = getattr(points, step)

    async def late(*given: Any) -> None:
        setattr(points, step, swap)
        await write()
        await swap(*given)

    setattr(points, step, late)


async def test_a_text_of_which_only_some_parts_match_stays_whole_and_is_named(engine, services):
    await remember(services, "notes", LONG, id="long")
    await remember(services, "notes", "harbour number 59 alone", id="short")
    where = {
        "should": [
            {"key": "doc.chunk", "match": {"value": 1}},
            {"key": "doc.id", "match": {"value": "short"}},
        ]
    }
    asked = await services.deletion.matching(where, "notes")
    done = await services.deletion.by_filter(where, "notes", 2)
    left = await parts_of(engine, "long")

    assert (asked.count, done.points, done.changed) == (2, 1, 0)
    assert [one.document for one in asked.partly] == ["long"]
    assert [one.document for one in done.partly] == ["long"]
    assert (await engine.count("notes")).count == len(left) == asked.partly[0].chunks > 2


async def test_a_text_that_is_corrected_meanwhile_stays(services):
    for number in range(3):
        text = f"boat {number} of 2019"
        await remember(services, "notes", text, id=f"b{number}", metadata={"year": 2019})
    corrects_meanwhile(services, "b1")
    where = {"must": [{"key": "metadata.year", "match": {"value": 2019}}]}
    done = await services.deletion.by_filter(where, "notes", 3)
    left = await services.store.points.first("notes", "b1")

    assert (done.points, done.changed) == (2, 1)
    assert left.text == "corrected"


async def test_parts_without_a_first_one_can_be_deleted(engine, services):
    await remember(services, "notes", LONG, id="long")
    count = (await engine.count("notes")).count
    await engine.delete("notes", [point_id("notes", "long", 0)])

    done = await services.deletion.by_filter({}, "notes", count - 1)

    assert (done.points, done.partly) == (count - 1, ())
    assert (await engine.count("notes")).count == 0


async def test_what_no_reader_sees_of_a_replaced_text_does_not_take_the_text_along(
    engine, services
):
    await remember(services, "notes", LONG, id="long")
    _, part, *_ = await parts_of(engine, "long")
    (was,) = await engine.retrieve("notes", [part], with_payload=True, with_vectors=True)
    second = models.PointStruct(id=was.id, payload=was.payload, vector=was.vector)
    await services.deletion.by_ids(await services.deletion.named(["long"]))
    await remember(services, "notes", "a short one", id="long")
    await engine.upsert("notes", [second])  # as a killed server may leave it

    where = {"must": [{"key": "doc.chunk", "match": {"value": 1}}]}
    done = await services.deletion.by_filter(where, "notes", 1)
    left = await services.store.points.first("notes", "long")

    assert (done.points, done.partly) == (0, ())
    assert left.text == "a short one"


async def test_a_text_that_lacks_parts_does_not_take_the_place_of_its_whole_version(
    engine, services
):
    await remember(services, "notes", LONG, id="long")
    head = await services.store.points.first("notes", "long")
    whole = await services.store.history.keep(head, deleted=True)
    second = services.store.points.part_ids(head, 1, 1)
    await engine.delete("notes", second)
    torn = whole
    while torn.id == whole.id:  # in the same millisecond
        torn = await services.store.history.keep(head, deleted=True)

    version = await services.history.version(str(whole.id))

    assert version.document.text == LONG


@pytest.mark.parametrize("how", ["store", "revise"])
async def test_of_two_servers_that_write_one_text_neither_loses_what_was_acknowledged(engine, how):
    async with memory_services(engine=engine) as one, memory_services(engine=engine) as other:
        await remember(one, "notes", "seed", id="x")

        async def write() -> None:
            if how == "store":
                await remember(other, "notes", "theirs", id="x")
            else:
                seen = await other.store.points.first("notes", "x")
                await other.revision.revise(seen, Changes(title="theirs"))

        before_the_swap(one, write)
        await one.store.store(NewDocument("ours", id="x"), "notes")
        now = await one.store.points.first("notes", "x")
        versions = await one.history.versions("x")

    assert now.text == "ours"
    kept = {(one.document.text, one.document.title) for one in versions}
    theirs = ("theirs", None) if how == "store" else ("seed", "theirs")
    assert kept == {("seed", None), theirs}


async def test_parts_that_another_server_writes_meanwhile_are_not_taken_for_leftovers(engine):
    theirs = LONG.replace("harbour", "quarry")
    async with memory_services(engine=engine) as one, memory_services(engine=engine) as other:
        (before,) = await remember(one, "notes", LONG, id="x")
        # As if the server had been killed before it removed what the text replaced.
        await engine.set_payload("notes", {"writing": 1}, list(before.ids), key="doc")
        delete_seen = one.store.points.delete_seen

        async def late(seen: Any) -> None:
            one.store.points.delete_seen = delete_seen
            await remember(other, "notes", theirs, id="x")
            await delete_seen(seen)

        one.store.points.delete_seen = late
        await one.store.store(NewDocument(f"Ours. {LONG}", id="x"), "notes")
        (found,), *_ = await one.lookup.get(["x"], collection="notes")

    assert (found.text, found.torn) == (theirs, False)


async def test_of_two_servers_that_correct_a_text_of_another_tool_neither_loses_its_own(engine):
    payload = {"text": "roses are red"}
    await foreign(engine, "notes", {7: payload}, vectors=COSINE, values=lambda _: dense("x"))
    async with memory_services(engine=engine) as one, memory_services(engine=engine) as other:
        before_the_swap(one, lambda: remember(other, "notes", "theirs", id="7"), "rewrite")
        await one.store.store(NewDocument("ours", id="7"), "notes")
        versions = await one.history.versions("7", "notes")
        (now,) = await one.store.points.by_id("notes", [7])

    assert now.text == "ours"
    assert {version.document.text for version in versions} == {"roses are red", "theirs"}


@pytest.mark.parametrize("fields", [("body", "summary"), ("title", "document")])
async def test_a_text_is_stored_once_whatever_fields_hold_the_texts_of_others(engine, fields):
    async with memory_services(engine=engine, qdrant_content_fields=fields) as services:
        await remember(services, "notes", "hello", title="Greeting")
        await remember(services, "notes", "hello again", title="Greeting", id="x")
        await remember(services, "notes", "hello at last", title="Greeting", id="x")

    assert (await engine.count("notes")).count == 2


async def test_a_date_in_the_future_and_points_of_other_tools_do_not_decide_for_others(
    engine, services
):
    for number in range(2):
        await remember(services, "notes", f"boat {number}", id=f"b{number}")
    await remember(services, "notes", "a plan", id="plan", metadata={"date": "2999-01-01"})
    strange = {"text": "theirs", "updated_at": "2998-01-01T00:00:00Z"}
    point = models.PointStruct(id=7, payload=strange, vector={})
    await engine.upsert("notes", [point])
    corrects_meanwhile(services, "b1")
    done = await services.deletion.by_filter({}, "notes", 4)
    left, _ = await engine.scroll("notes", limit=9, with_payload=True)

    assert (done.points, done.changed) == (3, 1)
    assert [one.payload["document"] for one in left] == ["corrected"]


async def test_where_only_parts_of_texts_match_no_count_is_asked_for(engine):
    async with memory_server(engine=engine) as client:
        asked = {"information": LONG, "id": "long", "collection_name": "notes"}
        await client.call_tool("qdrant-store", asked)
        where = {"must": [{"key": "doc.chunk", "match": {"value": 1}}]}
        wanted = {"query_filter": where, "collection_name": "notes"}
        first = await client.call_tool("qdrant-delete", wanted)
        second = await client.call_tool("qdrant-delete", wanted | {"confirm_count": 1})

    expected = (
        "Nothing would be deleted.\nNote: Not deleted: 1 text with only some matching parts. To "
        "delete them whole, give their ids: long."
    )
    assert said(first) == said(second) == expected
