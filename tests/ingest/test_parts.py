"""A reader sees the old text whole or the new text whole, at every moment of a write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import EngineFailure, EngineUnavailable, RequestError
from mcp_server_qdrant.core.notation import is_part_id, part_id, point_id, point_ids_of, sibling_id
from mcp_server_qdrant.ingest import parts
from mcp_server_qdrant.ingest.files.state import SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.ingest.parts import numbered, version_of
from mcp_server_qdrant.qdrant import payload
from mcp_server_qdrant.qdrant.write.points import PATIENCE, WRITING, Points
from mcp_server_qdrant.search.understand import DEPTH
from tests.support import LONG, Engine, either_engine, find, memory_services, remember

OLD = " ".join(f"Old sentence {n} speaks of harbour {n} and of boat {n}." for n in range(60))
NEW = " ".join(f"New sentence {n} speaks of harbour {n} and of crane {n}." for n in range(90))
SHORT = "A short text speaks of one harbour."
CHANGES = [(None, NEW), (OLD, NEW), (OLD, SHORT), (SHORT, NEW)]


class Moments(Engine):
    """The engine; before and after each write that is called, `between` is awaited."""

    WRITES = frozenset({"upsert", "delete", "delete_payload", "set_payload"})

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.between: Any = None

    def __getattr__(self, name: str) -> Any:
        call = super().__getattr__(name)

        async def watched(*args: Any, **kwargs: Any) -> Any:
            if self.between is None or name not in self.WRITES:
                return await call(*args, **kwargs)
            between = self.between
            await between()
            done = await call(*args, **kwargs)
            await between()
            return done

        return watched


WRITING_FILTER = models.Filter(must=[WRITING])


class Overtaken(Engine):
    """The engine; before one of its reads of some points, the text is replaced."""

    def __init__(self, client: Any, moment: int, replaced: Any) -> None:
        super().__init__(client)
        self.left, self._replaced = moment, replaced

    async def retrieve(self, *args: Any, **kwargs: Any) -> Any:
        await self._pass()
        return await self.client.retrieve(*args, **kwargs)

    async def query_batch_points(self, *args: Any, **kwargs: Any) -> Any:
        await self._pass()
        return await self.client.query_batch_points(*args, **kwargs)

    async def _pass(self) -> None:
        self.left -= 1
        if self.left == -1:
            await self._replaced()


class Reader:
    """Another server over the same engine."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.seen: list[str | None] = []

    async def text(self, document: str) -> str | None:
        """What is there under that id, by `qdrant-get`, and that search agrees."""
        self._services.catalog.forget("notes")
        if not await self._services.catalog.exists("notes"):
            return None
        found, *_ = await self._services.lookup.get([document])
        text = found[0].text if found else None
        assert not any(one.torn for one in found)
        page = await find(self._services, "harbour", "notes", limit=50)
        shown = [one.document for one in page.results if one.document.document == document]
        if text is None:
            assert shown == []
        else:
            (part,) = shown
            assert part.text == text[part.start : part.end]
        self.seen.append(text)
        return text


@asynccontextmanager
async def two_servers(kind: str, folder: Any) -> AsyncIterator[tuple[Moments, Services, Reader]]:
    async with either_engine(kind, folder) as engine:
        moments = Moments(engine.client)
        async with (
            memory_services(engine=moments) as services,
            memory_services(engine=engine) as other,
        ):
            await remember(services, "notes", "Another harbour.", id="other")
            yield moments, services, Reader(other)


@pytest.mark.parametrize("kind", ["edge", "memory"])
@pytest.mark.parametrize(("old", "new"), CHANGES)
class TestEveryMoment:
    async def test_a_reader_sees_the_old_text_or_the_new_one(self, kind, old, new, tmp_path):
        async with two_servers(kind, tmp_path) as (engine, services, reader):
            if old:
                await remember(services, "notes", old, id="x")

            async def look() -> None:
                assert await reader.text("x") in (old, new)

            engine.between = look
            await remember(services, "notes", new, id="x")
            engine.between = None

            assert await reader.text("x") == new
            assert reader.seen == sorted(reader.seen, key=[old, new].index), "never back"
            assert len(reader.seen) > 2

    async def test_cancelled_at_any_write_it_was_not_begun_or_it_is_done(
        self, kind, old, new, tmp_path
    ):
        async with two_servers(kind, tmp_path) as (engine, services, reader):
            for moment in range(100):
                await services.deletion.by_ids(await services.deletion.named(["x"]))
                if old:
                    await remember(services, "notes", old, id="x")
                writing = asyncio.ensure_future(remember(services, "notes", new, id="x"))
                left = [moment]

                async def strike(writing: Any = writing, left: list[int] = left) -> None:
                    left[0] -= 1
                    if left[0] == -1:
                        writing.cancel()
                        engine.between = None
                        await asyncio.sleep(0)  # where the local mode would never pause

                engine.between = strike
                with suppress(asyncio.CancelledError):
                    await writing
                engine.between = None
                await _quiet()
                assert await reader.text("x") in (old, new)
                if left[0] >= 0:
                    break

            assert {old, new} == set(reader.seen)
            assert (await engine.count("notes")).count == 1 + len(await _parts(services, "x"))

    async def test_killed_at_any_write_it_was_not_begun_or_it_is_done(
        self, kind, old, new, tmp_path
    ):
        async with two_servers(kind, tmp_path) as (engine, services, reader):
            for moment in range(100):
                await services.deletion.by_ids(await services.deletion.named(["x"]))
                await _sweep(engine)
                if old:
                    await remember(services, "notes", old, id="x")
                left = [moment]

                async def strike(left: list[int] = left) -> None:
                    left[0] -= 1
                    if left[0] == -1:
                        engine.down = EngineUnavailable("killed")

                engine.between = strike
                with suppress(EngineUnavailable):
                    await remember(services, "notes", new, id="x")
                engine.between = engine.down = None
                shown = await reader.text("x")
                assert shown in (old, new)
                await _sweep(engine)
                assert await reader.text("x") == shown
                assert (await engine.count("notes")).count == 1 + len(await _parts(services, "x"))
                if left[0] >= 0:
                    break

            assert {old, new} == set(reader.seen)


@pytest.mark.parametrize("kind", ["edge", "memory"])
async def test_a_search_goes_past_the_many_parts_of_a_replaced_text(kind, tmp_path):
    long = "\n\n".join(f"Harbour {n}. " + "The harbour, a harbour. " * 40 for n in range(100))
    async with two_servers(kind, tmp_path) as (engine, services, reader):
        (stored,) = await remember(services, "notes", long, id="x")
        assert len(stored.ids) > 3 * DEPTH, "more than a search looks at"

        async def look() -> None:
            assert await reader.text("x") in (long, SHORT)

        engine.between = look
        await remember(services, "notes", SHORT, id="x")
        engine.between = None
        assert reader.seen.count(SHORT) > 1


async def _quiet() -> None:
    """What a cancelled write tidies up is shielded: let it."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        busy = [task for task in others if "tidy" in repr(task)]
        if not busy:
            return
        await asyncio.wait(busy)


async def _sweep(engine: Engine) -> None:
    """What a server does in the background, hours later."""
    points = Points(engine.client, ("document",))
    await points.sweep("notes", lambda: 4e9)
    found = await points.matching("notes", None)
    assert await points.current_parts(found) == found


async def _parts(services: Services, document: str) -> list[Document]:
    named = await services.lookup.find_in("notes", [document])
    return [one for head in named.values() for one in [head] * head.chunks]


@pytest.mark.parametrize("kind", ["edge", "memory"])
class TestSeveralServers:
    @pytest.mark.parametrize("same", [True, False])
    async def test_two_that_store_one_document_at_once_leave_one_of_the_texts(
        self, kind, same, tmp_path
    ):
        async with (
            two_servers(kind, tmp_path) as (engine, services, reader),
            memory_services(engine=engine) as third,
        ):
            second = OLD if same else NEW
            await asyncio.gather(
                remember(services, "notes", OLD, id="x"), remember(third, "notes", second, id="x")
            )
            shown = await reader.text("x")
            await _sweep(engine)

            assert shown in (OLD, second)
            assert await reader.text("x") == shown
            parts = await _parts(services, "x")
            assert kind == "memory" or (await engine.count("notes")).count == 1 + len(parts)

    async def test_what_is_still_being_written_is_not_swept(self, kind, tmp_path):
        async with two_servers(kind, tmp_path) as (engine, services, reader):
            points = Points(engine.client, ("document",))
            swept = []

            async def sweep() -> None:
                swept.append(await points.sweep("notes"))

            engine.between = sweep
            await remember(services, "notes", NEW, id="x")
            engine.between = None

            assert set(swept) == {0}
            assert await reader.text("x") == NEW

    async def test_what_a_killed_server_left_is_not_found_and_swept_once_nobody_can_be_writing_it(
        self, kind, tmp_path
    ):
        async with two_servers(kind, tmp_path) as (engine, services, _):
            points = Points(engine.client, ("document",))
            engine.broken_methods["delete"] = EngineUnavailable("killed")
            await remember(services, "notes", OLD, id="x")
            (stored,) = await remember(services, "notes", NEW, id="x")
            engine.broken_methods.clear()
            page = await find(services, "old sentence speaks of boat", "notes", limit=50)
            began = (await points.first("notes", "x")).writing
            swept = await points.sweep("notes", lambda: began + PATIENCE)
            left = (await engine.client.count("notes")).count

            assert all(one.document.text in NEW for one in page.results[:1])
            assert swept > 0
            assert left == 1 + len(stored.ids)
            assert await points.sweep("notes") == 0


@pytest.mark.parametrize(("old", "new"), [(OLD, NEW), (NEW, OLD), (OLD, SHORT)])
async def test_a_text_that_is_replaced_while_it_is_read_is_read_whole(old, new):
    async with two_servers("memory", None) as (engine, services, _):
        for moment in range(20):
            await remember(services, "notes", old, id="x")

            async def replaced() -> None:
                await remember(services, "notes", new, id="x")

            reading = Overtaken(engine.client, moment, replaced)
            async with memory_services(engine=reading) as other:
                (found,), *_ = await other.lookup.get(["x"])
            assert (found.text, found.torn) in ((old, False), (new, False))
            if reading.left >= 0:
                break
        assert moment > 1


async def test_a_text_whose_new_version_gets_its_first_part_while_it_is_looked_for_is_found():
    old, new = (
        " ".join(f"{version} sentence {n} speaks of harbour {n}." for n in range(500))
        for version in ("Old", "New")
    )
    async with two_servers("memory", None) as (engine, services, _):
        for moment in range(20):
            await remember(services, "notes", old, id="x")
            drafted, on = asyncio.Event(), asyncio.Event()

            async def pause(drafted: asyncio.Event = drafted, on: asyncio.Event = on) -> None:
                if (await engine.client.count("notes", WRITING_FILTER)).count:
                    drafted.set()
                    await on.wait()

            engine.between = pause
            writing = asyncio.ensure_future(remember(services, "notes", new, id="x"))
            await drafted.wait()
            engine.between = None

            async def replaced(on: asyncio.Event = on, writing: Any = writing) -> None:
                on.set()
                await writing

            looking = Overtaken(engine.client, moment, replaced)
            async with memory_services(engine=looking) as other:
                page = await find(other, "harbour sentence", "notes")
            await replaced()
            assert "x" in [one.document.document for one in page.results]
            if looking.left >= 0:
                break
        assert moment > 2


async def test_drafts_of_a_long_text_hide_no_other_text():
    """They may fill all the places among a collection's candidates."""
    async with two_servers("memory", None) as (engine, services, reader):
        drafts = " ".join(f"Harbour harbour harbour number {n}." for n in range(900))

        async def strike() -> None:
            if [name for name, _ in engine.calls].count("upsert") > 1:
                engine.down = EngineUnavailable("killed")

        engine.between = strike
        with suppress(EngineUnavailable):
            await remember(services, "notes", drafts, id="x")
        engine.between = engine.down = None

        assert (await engine.count("notes")).count > 60
        assert await reader.text("x") is None
        page = await find(services, "harbour", "notes")
        assert [one.document.text for one in page.results] == ["Another harbour."]


@pytest.mark.parametrize("kind", ["edge", "memory"])
class TestFiles:
    async def test_a_file_that_is_read_again_is_seen_in_one_of_its_two_states(self, kind, tmp_path):
        async with two_servers(kind, tmp_path / "engine") as (engine, services, reader):
            file = tmp_path / "notes" / "x.txt"
            file.parent.mkdir()
            await _sync(services, file, OLD)

            async def look() -> None:
                assert await reader.text("notes/x.txt") in (OLD, NEW)

            engine.between = look
            await _sync(services, file, NEW)
            engine.between = None

            assert await reader.text("notes/x.txt") == NEW
            assert {OLD, NEW} == set(reader.seen)

    async def test_a_run_that_is_killed_leaves_the_old_state_or_the_new_one(self, kind, tmp_path):
        async with two_servers(kind, tmp_path / "engine") as (engine, services, reader):
            file = tmp_path / "notes" / "x.txt"
            file.parent.mkdir()
            for moment in range(100):
                await _sync(services, file, OLD)
                left = [moment]

                async def strike(left: list[int] = left) -> None:
                    left[0] -= 1
                    if left[0] == -1:
                        engine.down = EngineFailure("killed")

                engine.between = strike
                with suppress(EngineFailure):
                    await _sync(services, file, NEW)
                engine.between = engine.down = None
                assert await reader.text("notes/x.txt") in (OLD, NEW)
                await _sync(services, file, NEW)
                assert await reader.text("notes/x.txt") == NEW
                await _sweep(engine)
                (one,) = (await services.lookup.find_in("notes", ["notes/x.txt"])).values()
                assert (await engine.count("notes")).count == 1 + one.chunks
                if left[0] >= 0:
                    break

            assert {OLD, NEW} == set(reader.seen)


async def _sync(services: Services, file: Path, text: str) -> None:
    file.write_text(text)
    request = SyncRequest(tuple(sources([file.parent])), "notes", mirror=True)
    await services.sync(request)


class TestIds:
    def test_first_parts_have_one_id_in_every_version_and_further_ones_that_of_their_text(self):
        versions = [_numbered(texts) for texts in (["a", "b"], ["a", "b"], ["a", "c"], ["d"])]

        assert {one[0].id for one in versions} == {point_id("c", "d", 0)}
        assert versions[0] == versions[1]
        assert versions[0][1].id != versions[2][1].id

    def test_from_a_part_the_first_is_known_whoevers_it_is(self):
        for identify in (point_id, point_ids_of("blue")):
            first, second, third = _numbered(["a", "b", "c"], identify)
            assert second.head == third.head == first.id
            assert part_id(third.id, third.version, 2) == first.id
            assert [sibling_id(third, 1), sibling_id(second, 0)] == [second.id, first.id]
            assert [is_part_id(one) for one in (second.id, first.id, 7)] == [True, False, False]

    @pytest.mark.parametrize(
        "change",
        [{"tags": ("t",)}, {"title": "t"}, {"metadata": {"k": 1}}, {"sections": ((1, "A"),)}],
    )
    def test_whatever_a_reader_sees_makes_a_version_and_when_it_was_written_none(self, change):
        parts = _numbered(["a", "b"])
        later = [one._replace(updated_at="2030-01-01T00:00:00Z", writing=9) for one in parts]

        assert version_of(parts) != version_of([one._replace(**change) for one in parts])
        assert version_of(parts) == version_of(later)


def _numbered(texts: list[str], identify: Any = point_id) -> list[Document]:
    parts = [
        Document("", "c", text, document="d", chunk=n, chunks=len(texts))
        for n, text in enumerate(texts)
    ]
    return numbered(parts, identify)


async def test_the_id_of_a_part_that_was_replaced_makes_no_second_memory():
    async with memory_services() as services:
        (before,) = await remember(services, "notes", OLD, id="x")
        await remember(services, "notes", NEW, id="x")
        with pytest.raises(RequestError, match="was a part of was replaced or deleted"):
            await services.store.store(NewDocument("more", id=before.ids[3]), "notes")


async def test_a_text_of_more_parts_than_can_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MOST_PARTS", 5)
    monkeypatch.setattr(payload, "MOST_PARTS", 5)
    (tmp_path / "a.md").write_text(LONG)
    (tmp_path / "b.md").write_text("a short text")
    async with memory_services() as services:
        with pytest.raises(RequestError, match=r"The text has \d+ parts, of 5 at most: split it."):
            await remember(services, "notes", LONG, id="x")
        report = await services.sync(SyncRequest(sources([tmp_path]), "notes"))
        (five,) = await remember(services, "notes", LONG[:1400], id="y")
        ((text,), *_) = await services.lookup.get(["y"])

    assert [(one.path, "split it" in one.reason) for one in report.problems] == [
        (f"{tmp_path.name}/a.md", True)
    ]
    assert report.new == [f"{tmp_path.name}/b.md"]
    assert (len(five.ids), text.text) == (5, LONG[:1400])
