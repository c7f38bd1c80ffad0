"""Changes and moves of stored texts: whole, checked first, and nobody's newer version is lost."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.context import Caller, calling, expand_scopes
from mcp_server_qdrant.core.datatypes import NewDocument, Sparse
from mcp_server_qdrant.core.dates import date_of
from mcp_server_qdrant.core.errors import (
    BackendError,
    EngineUnavailable,
    Outdated,
    QdrantMcpError,
    RequestError,
)
from mcp_server_qdrant.core.writes import Changes, Encoded
from mcp_server_qdrant.ingest.files.state import SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from tests.ingest.test_parts import Moments
from tests.support import either_engine, find, foreign, remember

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

LONG = " ".join(f"Sentence {n} speaks of harbour {n} and of boat {n}." for n in range(200))
BM25 = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
OTHER = "another text altogether, about cranes"


@pytest.fixture(params=["edge", "memory"])
async def engine(request, engine_folder):
    async with either_engine(request.param, engine_folder) as engine:
        yield Moments(engine.client)


async def whole(services: Services, name: str, collection: str) -> Any:
    """The text of this id as anybody reads it; None where there is none."""
    found, *_ = await services.lookup.get([name], collection=collection)
    return found[0] if found else None


async def seen(services: Services, name: str, collection: str) -> Any:
    found, _ = await services.lookup.locate([name], collection)
    return found[0]


async def moved(services: Services, name: str = "x", **options: Any) -> Any:
    one = await seen(services, name, "notes")
    return await services.revision.revise(one, Changes(), to="archive", create=True, **options)


async def points_in(services: Services, collection: str) -> int:
    return (await services.client.count(collection)).count


class TestMove:
    @pytest.mark.parametrize("text", ["one short text", LONG])
    async def test_a_whole_text_moves_with_all_that_is_stored_with_it(self, services, text):
        fields = {"title": "Boats", "tags": ("a", "b"), "source": "https://example.org/x"}
        await remember(services, "notes", text, id="x", metadata={"k": 1}, **fields)
        newer = NewDocument("newer")
        old = await seen(services, "x", "notes")
        await services.store.store(newer, "notes", supersedes=[old])
        before = await whole(services, "x", "notes")
        done = await moved(services)
        after = await whole(services, "x", "archive")
        hits = await find(services, "boat harbour short", "archive")

        assert done.moved is not None
        assert before.superseded_by
        assert after.text == text
        assert after.superseded_in == "notes"
        same = {"collection": "notes", "id": before.id, "version": before.version}
        same["superseded_in"] = None
        assert after._replace(**same) == before
        assert await whole(services, "x", "notes") is None
        assert await points_in(services, "notes") == 1
        assert hits.results[0].document.document == "x"

    async def test_the_id_of_a_part_moves_the_whole_text(self, services):
        (stored,) = await remember(services, "notes", LONG, id="x")
        await moved(services, stored.ids[3])

        assert (await whole(services, "x", "archive")).text == LONG
        assert await points_in(services, "notes") == 0

    async def test_beside_its_successor_a_text_names_no_other_collection(self, services):
        await remember(services, "notes", OTHER, id="x")
        old = await seen(services, "x", "notes")
        newer = NewDocument("newer", id="y")
        await services.store.store(newer, "archive", create=True, supersedes=[old])
        await moved(services)
        after = await whole(services, "x", "archive")

        assert (after.superseded_by, after.superseded_in) == ("y", None)

    async def test_sections_stay_and_the_file_is_forgotten(self, services, tmp_path):
        (tmp_path / "docs").mkdir()
        text = "# Boats\n\n" + "\n\n".join(f"## Part {n}\n\n{LONG[:600]}" for n in range(4))
        (tmp_path / "docs" / "boats.md").write_text(text)
        request = SyncRequest(sources([tmp_path / "docs"]), "notes")
        await services.sync(request)
        one = await seen(services, "docs/boats.md", "notes")
        parts = await services.lookup.parts(one)
        await moved(services, "docs/boats.md")
        there = await services.lookup.parts(await seen(services, "docs/boats.md", "archive"))

        assert one.file
        assert [(a.text, a.section, a.start) for a in there] == [
            (a.text, a.section, a.start) for a in parts
        ]
        assert {a.file for a in there} == {None}
        assert {date_of(a) for a in there} == {None}, "the time of its file is no date"

    async def test_a_file_without_a_date_of_its_own_is_moved_changed_and_deleted(
        self, services, tmp_path
    ):
        (tmp_path / "docs").mkdir()
        text = "---\nupdated_at: 2020-01-01\n---\n# Boats\n\n" + LONG
        (tmp_path / "docs" / "boats.md").write_text(text)
        await services.sync(SyncRequest(sources([tmp_path / "docs"]), "notes"))
        await moved(services, "docs/boats.md")
        one = await seen(services, "docs/boats.md", "archive")
        await services.revision.revise(one, Changes(tags=("sea",)))
        target, first = (
            await services.catalog.target("archive"),
            await seen(services, "docs/boats.md", "archive"),
        )
        late = Encoded(one, None, Sparse((), ()))
        await services.store.points.exchange(target, late, one)

        assert first.tags == ("sea",)
        assert await seen(services, "docs/boats.md", "archive") == first, "it was seen before"
        await services.deletion.by_ids(await services.deletion.named(["docs/boats.md"]))
        assert await points_in(services, "archive") == 0

    async def test_a_text_that_another_tool_wrote_moves_too(self, engine, services):
        await foreign(engine, "notes", {7: {"page_content": "from elsewhere", "k": 1}}, sparse=BM25)
        await moved(services, "7")
        after = await whole(services, "7", "archive")

        assert (after.text, after.metadata) == ("from elsewhere", {"k": 1})
        assert await points_in(services, "notes") == 0

    @pytest.mark.parametrize("other", [OTHER, LONG])
    async def test_an_id_that_is_taken_is_refused(self, services, other):
        await remember(services, "notes", LONG, id="x")
        await remember(services, "archive", other, id="x")
        with pytest.raises(RequestError, match="has a text with the id x already"):
            await moved(services)

        assert (await whole(services, "x", "notes")).text == LONG
        assert (await whole(services, "x", "archive")).text == other

    async def test_a_caller_who_may_not_delete_moves_nothing(self, services):
        await remember(services, "notes", LONG, id="x")
        who = Caller("wim", expand_scopes(["write"]))
        with calling(who), pytest.raises(RequestError, match="the scope admin"):
            await moved(services)

        assert (await whole(services, "x", "notes")).text == LONG
        assert not await services.catalog.exists("archive")

    @pytest.mark.parametrize("text", ["one short text", LONG])
    async def test_a_change_at_any_moment_of_a_move_is_kept(self, engine, services, text):
        """Whoever changes the text while it moves finds the change, in one of both places."""
        moments = 0
        while True:
            name = f"x{moments}"
            await remember(services, "notes", text, id=name)
            changed = await _changing(services, engine, name, after=moments)
            there = [await whole(services, name, place) for place in ("notes", "archive")]
            found = {one.text for one in there if one}
            if not changed:  # the move had fewer writes
                break
            assert OTHER in found, moments
            moments += 1

        assert moments >= 2
        assert found == {text}

    @pytest.mark.parametrize("text", ["one short text", LONG])
    async def test_cut_short_at_any_write_it_is_there_and_moves_the_next_time(
        self, engine, services, text
    ):
        for moment in range(99):
            name = f"x{moment}"
            await remember(services, "notes", text, id=name)
            if not await _dying(services, engine, name, after=moment):
                break
            there = [await whole(services, name, place) for place in ("notes", "archive")]

            assert text in [one.text for one in there if one], moment
            assert {one.text for one in there if one} == {text}, moment

            if there[0]:
                await moved(services, name)

            assert (await whole(services, name, "archive")).text == text
            assert await whole(services, name, "notes") is None

        assert moment >= 2

    async def test_two_who_move_it_at_once_lose_nothing(self, services):
        for number in range(8):
            await remember(services, "notes", LONG, id=f"x{number}")
            moves = [moved(services, f"x{number}") for _ in range(3)]
            await asyncio.gather(*moves, return_exceptions=True)

            assert (await whole(services, f"x{number}", "archive")).text == LONG
            assert await whole(services, f"x{number}", "notes") is None

    async def test_two_collections_may_exchange_texts_at_once(self, services):
        await remember(services, "notes", LONG, id="a")
        await remember(services, "archive", OTHER, id="b")
        here, there = await seen(services, "a", "notes"), await seen(services, "b", "archive")
        move = partial(services.revision.revise, changes=Changes())
        await asyncio.gather(move(here, to="archive"), move(there, to="notes"))

        assert (await whole(services, "a", "archive")).text == LONG
        assert (await whole(services, "b", "notes")).text == OTHER


async def _changing(services: Services, engine: Moments, name: str, after: int) -> bool:
    """Move a text, and store another one under its id after so many writes; True if there were."""
    writes, changed = 0, False

    async def between() -> None:
        nonlocal writes, changed
        writes += 1
        if writes == after + 1 and not changed:
            changed, engine.between = True, None
            # As another process would: without our locks.
            other = replace(services.store, points=services.store.points)
            await other.store(NewDocument(OTHER, id=name), "notes")

    engine.between = between
    try:
        await moved(services, name)
    except QdrantMcpError:
        assert changed
        assert await whole(services, name, "archive") is None, "the copy is deleted"
    finally:
        engine.between = None
    return changed


async def _dying(services: Services, engine: Moments, name: str, after: int) -> bool:
    """Move a text while the engine is gone after so many writes; True if it was."""
    writes = 0

    async def between() -> None:
        nonlocal writes
        writes += 1
        if writes > after:
            raise EngineUnavailable("gone")

    engine.between = between
    try:
        await moved(services, name)
    except BackendError:  # the copy is there, the text could not be deleted
        return True
    finally:
        engine.between = None
    return writes > after


class TestChange:
    @pytest.mark.parametrize("text", ["one short text", LONG])
    async def test_what_is_named_changes_in_all_parts_and_the_text_stays(self, services, text):
        await remember(
            services, "notes", text, id="x", title="Old", tags=("a",), metadata={"k": 1, "l": 2}
        )
        before = await seen(services, "x", "notes")
        changes = Changes(tags=("b", "c"), metadata={"k": None, "m": 3})
        await services.revision.revise(before, changes)
        parts = await services.lookup.parts(await seen(services, "x", "notes"))
        hits = await find(services, "b boats", "notes")

        assert (await whole(services, "x", "notes")).text == text
        assert {one.title for one in parts} == {"Old"}
        assert {one.tags for one in parts} == {("b", "c")}
        assert all(one.metadata == {"l": 2, "m": 3} for one in parts)
        assert parts[0].created_at == before.created_at
        assert await points_in(services, "notes") == len(parts)
        assert hits.results

    async def test_secrets_in_what_changes_are_masked(self, services):
        await remember(services, "notes", "a text", id="x")
        changes = Changes("token=abc123def", ("password=hunter22",), {"how": "PASSWORD=hunter2x"})
        done = await services.revision.revise(await seen(services, "x", "notes"), changes)
        after = await whole(services, "x", "notes")

        assert done.masked == 3
        assert after.tags == ("password=[masked]",)
        assert after.title == "token=[masked]"
        assert after.metadata == {"how": "PASSWORD=[masked]"}

    async def test_a_title_is_found_by_its_words_at_once(self, services):
        await remember(services, "notes", LONG, id="x")
        await services.revision.revise(
            await seen(services, "x", "notes"), Changes(title="Zeppelin")
        )
        page = await find(services, "zeppelin", "notes")

        assert page.results[0].document.title == "Zeppelin"

    async def test_the_file_of_a_text_stays_its_file(self, services, tmp_path):
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "boats.md").write_text("# Boats\n\n" + LONG)
        request = SyncRequest(sources([tmp_path / "docs"]), "notes", mirror=True)
        await services.sync(request)
        one = await seen(services, "docs/boats.md", "notes")
        await services.revision.revise(one, Changes(tags=("sea",)))
        again = await services.sync(request)
        after = await seen(services, "docs/boats.md", "notes")

        assert (again.unchanged, again.changed, again.new) == (1, [], [])
        assert after.tags == ("sea",)

    async def test_a_text_of_another_tool_is_changed_in_place(self, engine, services):
        await foreign(engine, "notes", {7: {"page_content": "from elsewhere"}}, sparse=BM25)
        one = await seen(services, "7", "notes")
        await services.revision.revise(one, Changes(tags=("new",)))
        (after,) = await services.store.points.by_id("notes", [7])

        assert (after.text, after.tags) == ("from elsewhere", ("new",))
        assert await points_in(services, "notes") == 1

    async def test_of_two_changes_of_the_same_text_the_second_is_told(self, services):
        await remember(services, "notes", LONG, id="x")
        one = await seen(services, "x", "notes")
        await services.revision.revise(one, Changes(tags=("a",)), seen=str(one.revision))
        with pytest.raises(Outdated):
            await services.revision.revise(one, Changes(tags=("b",)), seen=str(one.revision))

        assert (await whole(services, "x", "notes")).tags == ("a",)


class TestSeen:
    async def test_a_text_is_stored_over_the_revision_that_was_seen_only(self, services):
        await remember(services, "notes", LONG, id="x")
        old = str((await seen(services, "x", "notes")).revision)
        await services.store.store(NewDocument(OTHER, id="x"), "notes", seen=old)
        with pytest.raises(Outdated):
            await services.store.store(NewDocument("late", id="x"), "notes", seen=old)

        assert (await whole(services, "x", "notes")).text == OTHER

    async def test_a_late_deletion_never_removes_a_newer_text(self, services):
        await remember(services, "notes", LONG, id="x")
        named = await services.deletion.named(["x"], "notes")
        await remember(services, "notes", OTHER, id="x")
        with pytest.raises(Outdated):
            await services.deletion.by_ids(named)
        with pytest.raises(Outdated):
            await services.deletion.named(["x"], "notes", str(named.documents[0].revision))

        assert (await whole(services, "x", "notes")).text == OTHER

    @pytest.mark.parametrize("text", ["one short text", LONG])
    async def test_a_text_that_is_stored_while_it_is_deleted_is_whole_or_gone(
        self, engine, services, text
    ):
        for moment in range(6):
            name = f"x{moment}"
            await remember(services, "notes", LONG, id=name)
            named, writes, acknowledged = await services.deletion.named([name]), 0, False

            async def between(name: str = name, moment: int = moment) -> None:
                nonlocal writes, acknowledged
                writes += 1
                if writes == moment + 1:
                    engine.between = None
                    other = replace(services.store, points=services.store.points)
                    await other.store(NewDocument(text, id=name), "notes")
                    acknowledged = True

            engine.between = between
            with pytest.raises(Outdated) if moment == 0 else _either():
                await services.deletion.by_ids(named)
            engine.between = None
            now = await whole(services, name, "notes")

            assert (now.text if now else None) == (text if acknowledged else None), moment


class _either:  # noqa: N801
    """Allows that somebody was quicker."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, *_: Any) -> bool:
        return kind is not None and issubclass(kind, Outdated)
