"""Earlier versions of texts, as the engine keeps them; tests/tools/test_history.py has the rest."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mcp_server_qdrant.app.services import Services, assemble
from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.core.notation import HISTORY
from mcp_server_qdrant.qdrant import history as kept_history
from mcp_server_qdrant.qdrant.history import History
from tests.fakes import FakeEncoder
from tests.support import Engine, either_engine, make_settings, registry

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class Kept:
    """A collection `notes`, and the history of it at a time that the test sets."""

    engine: Engine
    services: Services
    now: datetime = START
    names: set[str] = field(default_factory=lambda: {"notes", "archive"})

    def history(self, days: int = 30) -> History:
        points = self.services.store.points
        seen = self.names.__contains__
        return History(self.engine, points, days, seen, {}, now=lambda: self.now)

    async def text(self, text: str, id: str = "x", collection: str = "notes") -> Document:  # noqa: A002
        """The first part of a text that is stored."""
        await self.services.store.store(NewDocument(text, id=id), collection, create=True)
        found = await self.services.store.points.first(collection, id)
        assert found is not None
        return found


@pytest.fixture(params=["edge", "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    async with either_engine(request.param, tmp_path) as engine:
        settings = make_settings(history_days=0)  # the test's own keeps them
        yield Kept(engine, assemble(settings, engine, registry(FakeEncoder())))  # type: ignore[arg-type]


async def test_a_text_is_read_as_it_was_at_a_time(kept):
    history = kept.history()
    for text in ("first", "second"):
        await history.keep(await kept.text(text))
        kept.now += timedelta(days=2)

    async def at(when: str) -> str | None:
        found = await history.version(f"x@{when}")
        return found.document.text if found else None

    assert await at("2026-04-30") == "first"
    for day in ("2026-05-01", "1.5.2026", "1 May 2026"):  # at its end
        assert await at(day) == "second", day
    assert await at("2026-05-01T12:00:00Z") == "first"
    assert await at("2026-05-01T12:00:01Z") == "second"
    assert await at("2026-05-03T12:00:00.000Z") == "second"
    assert await at("2026-05-03") is None  # that is the present text
    assert await at("yesterday") is None


async def test_the_last_versions_are_listed_the_newest_first(kept):
    history = kept.history()
    for number in range(25):
        await history.keep(await kept.text(f"state {number}"), deleted=number == 24)
        kept.now += timedelta(minutes=1)
    await kept.text("the present state")
    listed = await history.versions("x")

    assert [one.document.text for one in listed] == [f"state {n}" for n in range(24, 4, -1)]
    assert [one.deleted for one in listed][:2] == [True, False]
    assert listed[0].summary == "notes (id x@2026-05-01T12:24:00.000Z) · deleted · state 24"


async def test_the_same_version_kept_again_is_one(kept):
    history = kept.history()
    present = await kept.text("it stands")
    await history.keep(present)
    kept.now += timedelta(hours=1)
    await history.keep(present, deleted=True)
    await kept.text("it fell")
    (one,) = await history.versions("x")

    assert (one.until, one.deleted) == ("2026-05-01T13:00:00.000Z", True)


async def test_versions_end_after_some_days(kept):
    await kept.history().keep(await kept.text("old", "a"))
    await kept.text("new", "a")
    kept.now += timedelta(days=30)
    assert len(await kept.history().versions("a")) == 1
    kept.now += timedelta(seconds=1)
    assert await kept.history().versions("a") == []
    assert await kept.history().version("a@2026-05-01") is None
    await kept.history().keep(await kept.text("other", "b"))
    kept.now += timedelta(days=1)
    await kept.history().keep(await kept.text("another", "c"))

    assert (await kept.engine.count(HISTORY)).count == 2


async def test_a_clock_that_is_ahead_for_a_while_erases_nothing(kept):
    for day in range(3):
        await kept.history().keep(await kept.text(f"state {day}"))
        kept.now += timedelta(days=1)
    there = kept.now
    kept.now += timedelta(days=31)
    for hour in range(3):
        await kept.history().keep(await kept.text(f"from the future {hour}", "y"))
        kept.now += timedelta(hours=1)
    kept.now = there
    for day in range(3):
        kept.now += timedelta(days=day)
        await kept.history().keep(await kept.text(f"later {day}", "z"))

    assert [one.document.text for one in await kept.history().versions("x")] == [
        f"state {day}" for day in (2, 1, 0)
    ]


async def test_a_clock_that_was_set_back_years_makes_no_version_old(kept):
    await kept.history().keep(await kept.text("before", "x"))
    there, kept.now = kept.now, datetime(2019, 1, 1, tzinfo=UTC)
    await kept.history().keep(await kept.text("by a wrong clock", "x"))
    kept.now = there
    for day in range(1, 4):
        kept.now += timedelta(days=day)
        await kept.history().keep(await kept.text(f"later {day}", "z"))
    await kept.text("the present text")

    assert (await kept.engine.count(HISTORY)).count == 5
    assert (await kept.history().version("x@2026-05-02")) is None  # that is the present text


async def test_versions_follow_each_other_whatever_the_clock_said(kept):
    """The clock is two days ahead, then right again."""
    history, real = kept.history(), kept.now
    kept.now = real + timedelta(days=2)
    await history.keep(await kept.text("first"))
    kept.now = real
    second = await history.keep(await kept.text("second"))
    kept.now = real + timedelta(days=1)
    third = await history.keep(await kept.text("third"))
    await kept.text("the present text")

    async def at(when: str) -> str | None:
        found = await history.version(f"x@{when}")
        return found.document.text if found else None

    listed = await history.versions("x")
    assert [one.document.text for one in listed] == ["third", "second", "first"]
    assert await at("2026-04-30") == "first"
    assert await at("2026-05-02T11:00") == "third"
    assert await at("2026-05-02T13:00") is None
    for exact, text in ((second, "second"), (third, "third"), (listed[-1], "first")):
        assert (await history.version(exact.id)).document.text == text


async def test_versions_have_room_in_bytes_and_the_oldest_go_first(kept, monkeypatch):
    monkeypatch.setattr(kept_history, "MOST_BYTES", 40_000)
    history = kept.history()
    for number in range(15):
        await history.keep(await kept.text(f"{number} " + "long " * 1000, "a"))
        kept.now += timedelta(minutes=1)
    records, _ = await kept.engine.scroll(HISTORY, limit=100, with_payload=True)
    sizes = [len(one.payload["parts"].encode()) for one in records]
    listed = await kept.history().versions("a")

    assert sum(sizes) < 1.25 * 40_000
    assert 4 <= len(listed) < 10
    assert [one.document.text.split()[0] for one in listed] == [
        str(14 - n) for n in range(len(listed))
    ]


async def test_more_than_has_room_erases_the_oldest(kept, monkeypatch):
    monkeypatch.setattr(kept_history, "MOST", 3)
    for number in range(6):
        await kept.history().keep(await kept.text(f"{number} " * 50, "a"))
        kept.now += timedelta(minutes=1)
    listed = await kept.history().versions()

    assert len(listed) == 4
    assert listed[0].document.text.startswith("5")


async def test_a_point_without_a_text_that_is_deleted_is_not_kept_and_that_is_said(kept):
    bare = (await kept.text("here"))._replace(textless=True)
    gone = await kept.history().keep(bare, deleted=True)

    assert (gone.id, gone.fault) == (None, "it has no text.")
    assert (await kept.history().keep(bare)).id


async def test_texts_are_kept_together_and_what_fails_with_one_batch_keeps_the_others(
    kept, monkeypatch
):
    monkeypatch.setattr(kept_history, "BATCH_SIZE", 8)
    history = kept.history()
    texts = [await kept.text(f"text {n}", id=f"x{n}") for n in range(4)]
    texts.append(texts[0]._replace(textless=True))
    upsert, calls = kept.engine.upsert, []

    async def second_fails(*given, **how):
        calls.append(given)
        if len(calls) == 2:
            raise EngineUnavailable("The disk is full.")
        await upsert(*given, **how)

    monkeypatch.setattr(kept.engine, "upsert", second_fails)
    results = await history.keep_all(texts, deleted=True)

    assert [one.fault for one in results] == [
        *[None, None],
        *["The disk is full."] * 2,
        "it has no text.",
    ]
    listed = await history.versions()
    assert {version.document.text for version in listed} == {"text 0", "text 1"}


async def test_what_was_deleted_while_it_ran_is_made_again(kept):
    history = kept.history()
    await history.keep(await kept.text("one"))
    await kept.engine.delete_collection(HISTORY)
    await history.keep(await kept.text("two"))
    await kept.text("three")

    assert [one.document.text for one in await history.versions("x")] == ["two"]


async def test_versions_of_hidden_collections_are_not_shown(kept):
    done = await kept.history().keep(await kept.text("here"))
    await kept.text("there")
    kept.names.remove("notes")

    assert await kept.history().versions() == []
    assert await kept.history().version(done.id) is None


async def test_what_is_erased_is_gone_for_good(kept):
    history = kept.history()
    for number in range(25):
        await history.keep(await kept.text(f"state {number}"))
        kept.now += timedelta(minutes=1)
    await history.keep(await kept.text("another", "y"))

    assert await history.erase("x@2026-05-01T12:03:00.000Z") == 1
    assert await history.version("x@2026-05-01T12:03:00.000Z") is not None  # the next one
    assert await history.erase("x") == 24
    assert await history.erase("x") == 0
    assert [one.document.text for one in await history.versions()] == ["another"]
    assert await kept.history(0).erase("y") == 1
