"""Two writers of one text, and writes that were cut short: no part is lost, and none comes back."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import Outdated
from mcp_server_qdrant.core.notation import point_id
from mcp_server_qdrant.ingest.files.state import SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.ingest.writer import Writer
from tests.support import either_engine, find, memory_services

HARBOURS = " ".join(f"Sentence {n} speaks of harbour {n} and of boat {n}." for n in range(200))
GARDENS = " ".join(f"Line {n} tells of gardens {n} and roses {n}." for n in range(200))
KINDS = pytest.mark.parametrize("kind", ["edge", "memory"])


@asynccontextmanager
async def two_servers(kind, folder):
    """The services of two servers over one engine."""
    async with (
        either_engine(kind, folder) as engine,
        memory_services(engine=engine) as ours,
        memory_services(engine=engine) as theirs,
    ):
        yield ours, theirs


def held(services):
    """Its stores wait before their first parts: events that one does, and that it may go on."""
    exchange = services.store.points.exchange
    written, go_on = asyncio.Event(), asyncio.Event()

    async def wait(*asked):
        written.set()
        await go_on.wait()
        await exchange(*asked)

    services.store.points.exchange = wait
    return written, go_on


async def read(services, own):
    """The text, and the number of points of the collection."""
    found, *_ = await services.lookup.get([own], collection="notes")
    count = (await services.shared.client.count("notes")).count
    return (found[0].text if found else None), count


@KINDS
async def test_a_file_stored_again_while_its_text_is_corrected_keeps_all_parts(
    kind, tmp_path, monkeypatch
):
    """Its parts are as old as the file is, however often they are written."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(HARBOURS)
    request = SyncRequest(tuple(sources([docs])), "notes", create=True)
    async with two_servers(kind, tmp_path / "engine") as (ours, theirs):
        await theirs.sync(request)
        delete, swap = ours.store.points.delete_seen, Writer._write_heads
        written, go_on = asyncio.Event(), asyncio.Event()
        again = []

        async def wait(writer, due):
            written.set()
            await go_on.wait()
            await swap(writer, due)

        async def meanwhile(seen):
            if seen and not again:
                monkeypatch.setattr(Writer, "_write_heads", wait)
                again.append(asyncio.create_task(theirs.sync(request)))
                await written.wait()
            await delete(seen)

        ours.store.points.delete_seen = meanwhile
        await ours.store.store(NewDocument(GARDENS, id="docs/a.md"), "notes")
        go_on.set()
        await again[0]
        text, _ = await read(ours, "docs/a.md")

    assert text == HARBOURS


@KINDS
async def test_a_sweep_leaves_a_write_that_ends_while_it_looks(kind, tmp_path):
    async with two_servers(kind, tmp_path / "engine") as (ours, theirs):
        await ours.store.store(NewDocument(HARBOURS, id="x"), "notes", create=True)
        current = theirs.store.points.current_parts
        written, go_on = held(ours)

        async def looked(found):
            answer = await current(found)
            go_on.set()
            await storing
            return answer

        theirs.store.points.current_parts = looked
        storing = asyncio.create_task(ours.store.store(NewDocument(GARDENS, id="x"), "notes"))
        await written.wait()
        # Its clock is ahead, or this machine slept.
        await theirs.store.points.sweep("notes", lambda: time.time() + 7 * 3600)
        text, count = await read(ours, "x")

    assert text == GARDENS
    assert count == len(storing.result().ids)


@KINDS
async def test_a_text_that_is_stored_again_while_it_is_being_deleted_is_whole(kind, tmp_path):
    async with two_servers(kind, tmp_path / "engine") as (ours, theirs):
        await ours.store.store(NewDocument(HARBOURS, id="x"), "notes", create=True)
        keep = theirs.store.history.keep
        written, go_on = held(ours)

        async def kept(*asked, **how):
            version = await keep(*asked, **how)
            go_on.set()
            await storing
            return version

        theirs.store.history.keep = kept
        named = await theirs.deletion.named(["x"], "notes")
        storing = asyncio.create_task(ours.store.store(NewDocument(HARBOURS, id="x"), "notes"))
        await written.wait()
        with pytest.raises(Outdated):
            await theirs.deletion.by_ids(named)

        assert await read(ours, "x") == (HARBOURS, len(storing.result().ids))


@KINDS
@pytest.mark.parametrize("corrected", [True, False])
async def test_what_a_cancelled_store_of_the_same_text_wrote_goes_with_the_text(
    kind, corrected, tmp_path
):
    engine_of = either_engine(kind, tmp_path / "engine")
    async with engine_of as engine, memory_services(engine=engine) as services:
        store, points = services.store, services.store.points
        await store.store(NewDocument(HARBOURS, id="x"), "notes", create=True)
        exchange = points.exchange
        written, _ = held(services)
        storing = asyncio.create_task(store.store(NewDocument(HARBOURS, id="x"), "notes"))
        await written.wait()
        storing.cancel()
        await asyncio.wait([storing])
        points.exchange = exchange
        if corrected:
            done = await store.store(NewDocument(GARDENS, id="x"), "notes")
            assert await read(services, "x") == (GARDENS, len(done.ids))
        await services.deletion.by_ids(await services.deletion.named(["x"], "notes"))

        assert await read(services, "x") == (None, 0)
        assert (await find(services, "speaks of harbour and boat", "notes")).results == []


def older(number, **payload):
    """A part without a version, as another tool may write one."""
    doc = {"id": "x", "chunk": number, "chunks": 3, "start": number * 20, "end": number * 20 + 19}
    stored = {"document": f"boats, part {number}", "metadata": None, "doc": doc} | payload
    vector = {"bm25": models.SparseVector(indices=[5], values=[1.0])}
    return models.PointStruct(id=point_id("notes", "x", number), vector=vector, payload=stored)


@KINDS
@pytest.mark.parametrize("when", [1700000000, "last week", None])
async def test_a_text_whose_time_of_writing_is_none_can_be_changed_and_deleted(
    kind, when, tmp_path
):
    engine_of = either_engine(kind, tmp_path / "engine")
    async with engine_of as engine, memory_services(engine=engine) as services:
        await services.store.store(NewDocument("other", id="other"), "notes", create=True)
        given = {} if when is None else {"updated_at": when}
        for _ in range(2):
            await engine.client.upsert("notes", [older(0, doc={"id": "x"}, **given)])
            await services.deletion.by_ids(await services.deletion.named(["x"], "notes"))
            assert await read(services, "x") == (None, 1)
            await engine.client.upsert("notes", [older(0, doc={"id": "x"}, **given)])
            await services.store.store(NewDocument("changed", id="x"), "notes")
            assert await read(services, "x") == ("changed", 2)
