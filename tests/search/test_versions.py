"""Texts that were changed, in a search: as they stood at the end of a period, and how often."""

from datetime import UTC, datetime, timedelta

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.core.notation import HISTORY
from tests.support import LONG, find, memory_services, remember, texts

MARCH, MAY, OCTOBER = (datetime(2026, month, 10, tzinfo=UTC) for month in (3, 5, 10))


class Memory:
    """The collection `notes`; its texts are kept for a year at a time that the test sets."""

    def __init__(self, services, engine):
        self.services, self.engine = services, engine
        self.at(MARCH)

    def at(self, when):
        self.services.store.now = self.services.history._now = lambda: when

    async def store(self, text, when, own="x", **more):
        self.at(when)
        await self.services.store.store(NewDocument(text, id=own, **more), "notes", create=True)

    async def find(self, query="harbour", **more):
        return await find(self.services, query, "notes", **more)


@pytest.fixture
async def memory(engine):
    async with memory_services(engine=engine, history_days=365) as services:
        yield Memory(services, engine)


@pytest.mark.parametrize("own", [None, MARCH])
async def test_a_text_changed_since_is_shown_as_it_stood_at_the_end_of_the_period(memory, own):
    for text, when in (("harbour red", MARCH), ("harbour blue", MAY), ("harbour green", OCTOBER)):
        await memory.store(text, when, created_at=own if when == MARCH else None)

    for until, shown in (("2026-04", "red"), ("2026-09", "blue"), ("2026-10", "green")):
        (one,) = (await memory.find(until=until)).results
        assert one.document.text == one.passage == f"harbour {shown}", until
        assert one.as_of == {"red": "2026-04-30", "blue": "2026-09-30"}.get(shown)
        if one.as_of:
            version = await memory.services.history.version(one.document.document)
            assert version.document.text == one.document.text
    assert (await memory.find(until="2026-02")).results == []
    before = MARCH - timedelta(days=1)
    assert await memory.services.history.versions_at([one.document], before) == {}
    listed = await memory.find("", until="2026-04")
    assert texts(listed) == (["harbour red"] if own else [])


async def test_a_version_of_another_date_than_the_period_is_left_out(memory):
    for text, when in (("harbour red", MARCH), ("harbour green", OCTOBER)):
        await memory.store(text, when)

    assert texts(await memory.find(since="2026-03", until="2026-05")) == ["harbour red"]
    assert texts(await memory.find(since="2026-04", until="2026-05")) == []


async def test_without_a_version_of_then_only_a_text_that_has_the_date_is_found(memory):
    memory.services.history.days = 0
    for own, dated in (("dated", MARCH), ("undated", None)):
        await memory.store(f"harbour {own}", MARCH, own, created_at=dated)
        await memory.store(f"harbour {own}, changed", OCTOBER, own)

    assert texts(await memory.find(until="2026-05")) == ["harbour dated, changed"]


async def test_of_a_long_version_the_part_that_fits_is_shown(memory):
    await memory.store(f"{LONG} The pilot is called Ada. {LONG}", MARCH)
    await memory.store("The pilot is called Bo.", OCTOBER)
    (one,) = (await memory.find("the name of the pilot", until="2026-05", mode="full")).results

    assert "The pilot is called Ada." in one.document.text
    assert len(one.document.text) < len(LONG)
    assert one.document.chunks == 1


async def test_what_is_newer_than_the_period_supersedes_nothing_in_it(memory):
    for other in ("notes", "archive"):
        await remember(memory.services, "notes", f"harbour {other} first", id=f"old-{other}")
        memory.at(OCTOBER)
        (new,) = await remember(memory.services, other, f"{other} second", id=f"new-{other}")
        old, _, _ = await memory.services.lookup.get([f"old-{other}"])
        await memory.services.store.points.retire(old[0], new.document, other)
        memory.at(MARCH)

    for until, superseded in (("2026-04", False), (None, True)):
        page = await memory.find("harbour first", until=until, explain=True)
        first = [one for one in page.results if "first" in one.document.text]
        assert ["superseded" in one.why["factors"] for one in first] == [superseded] * 2, until
        assert [one.document.heir is not None for one in first] == [True, True]


async def test_changed_texts_say_so_with_one_request_for_all_of_a_page(memory):
    for own in "abc":
        await memory.store(f"harbour of {own}", MARCH, own)
    memory.engine.calls.clear()
    await memory.find()
    asked = [name for name, place in memory.engine.calls if place == HISTORY]
    for own, times in (("a", 1), ("b", 3)):
        for n in range(times):
            await memory.store(f"harbour of {own} {n}", MAY + timedelta(days=n), own)
    memory.engine.calls.clear()
    page = await memory.find()
    earlier = {one.document.document: one.earlier for one in page.results}
    once = [name for name, place in memory.engine.calls if place == HISTORY]

    assert (asked, once) == ([], ["scroll"])
    assert earlier["c"] is None
    assert earlier["a"] == (1, "2026-05-10T00:00:00.000Z")
    assert earlier["b"] == (3, "2026-05-12T00:00:00.000Z")


async def test_a_history_that_fails_or_hangs_changes_nothing_else(memory, monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.search.versions.SECONDS", 0.05)
    await memory.store("harbour red", MARCH, created_at=MARCH)
    await memory.store("harbour blue", OCTOBER)
    for break_ in (
        lambda: memory.engine.hanging.add(HISTORY),
        lambda: memory.engine.broken.update({HISTORY: EngineUnavailable("gone")}),
    ):
        memory.engine.hanging.clear()
        break_()
        for until in (None, "2026-05"):
            (one,) = (await memory.find(until=until)).results
            assert (one.document.text, one.earlier, one.as_of) == ("harbour blue", None, None)
