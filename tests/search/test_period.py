"""Searches in a period."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import SearchRequest
from tests.fakes import FakeEncoder
from tests.support import COSINE, dense, either_engine, foreign, memory_services

NOW = datetime(2026, 11, 22, 11, tzinfo=UTC)  # a Sunday
# id: the day that it gives (or was stored on, if it gives none), when it was corrected, metadata
NOTES = {
    "plan": ("2025-06-01", None, None),
    "audit": ("2026-08-20", "2026-11-21", None),
    "review": ("2026-08-20", "2026-11-21", None),
    "kick-off": ("2026-10-01", None, None),
    "offsite": ("2026-10-31T23:30", None, None),
    "trip": ("2026-11-10", None, {"date": "2026-10-14"}),
    "visit": ("2026-11-12", None, None),
    "call": ("2026-11-17", None, None),
    "today": ("2026-11-22T08:00", None, None),
}
UNDATED = {"audit"}
NOVEMBER = {"audit", "visit", "call", "today"}
# The question, the dates that an agent passes for it, and the notes that it finds.
QUESTIONS = [
    ("the meeting of yesterday", "2026-11-21", "2026-11-21", {"audit"}),
    ("the meetings since yesterday", "yesterday", None, {"audit", "today"}),
    ("the meetings of the week before", "last week", "last week", {"visit"}),
    ("the meetings of three days", "3 days", None, {"audit", "today"}),
    ("the meetings of the last week", "7d", None, {"audit", "call", "today"}),
    ("the meetings of the last two weeks", "2w", None, NOVEMBER),
    ("the meetings in October", "2026-10", "2026-10", {"kick-off", "offsite", "trip"}),
    ("the meetings in August", "2026-08", "2026-08", {"review"}),
    ("the meetings until the end of October", None, "2026-10-31", {*NOTES} - NOVEMBER | {"audit"}),
    ("the meeting on 14 October", "2026-10-14", "2026-10-14", {"trip"}),
    ("the meetings of 2025", "2025", "2025", {"plan"}),
    ("the meetings of the last three months", "3m", None, {*NOTES} - {"plan", "review"}),
    ("the meetings before this year", None, "2025", {"plan"}),
    ("the meeting at midnight", "2026-10-31T23:30:00Z", "2026-10-31T23:30:00Z", {"offsite"}),
    ("the meetings", None, None, {*NOTES}),
]


@pytest.fixture
async def services(tmp_path):
    async with (
        either_engine("edge", tmp_path) as engine,
        memory_services(FakeEncoder(), engine=engine) as services,
    ):
        store, services.pipeline.understanding.now = services.store, lambda: NOW
        services.history._now = lambda: NOW
        for name, (created, corrected, metadata) in NOTES.items():
            when = datetime.fromisoformat(created).replace(tzinfo=UTC)
            store.now = lambda when=when: when
            said = None if name in UNDATED else when
            new = NewDocument(f"The meeting {name}", metadata, id=name, created_at=said)
            await store.store(new, "notes")
            if corrected:
                day = datetime.fromisoformat(corrected).replace(tzinfo=UTC)
                store.now = lambda day=day: day
                await store.store(NewDocument(f"The meeting {name}, moved", id=name), "notes")
        yield services


async def test_ten_questions_with_dates_find_the_notes_of_these_dates(services):
    found = {}
    for question, since, until, _ in QUESTIONS:
        page = await services.pipeline.search(
            SearchRequest(query=question, collections=["notes"], since=since, until=until)
        )
        found[question] = {one.document.document.partition("@")[0] for one in page.results}

    assert found == {question: expected for question, *_, expected in QUESTIONS}


async def test_a_filter_and_dates_must_both_be_met_and_texts_without_dates_are_left_out(services):
    undated = {1: {"document": "The meeting of somebody", "metadata": None}}
    name = FakeEncoder().vector_name
    vector = {name: dense("The meeting of somebody")}
    named = {"vectors": {name: COSINE}, "values": lambda _: vector}
    await foreign(services.client, "official", undated, **named)
    page = await services.pipeline.search(
        SearchRequest(
            query="the meetings",
            collections=["*"],
            since="2026-10",
            query_filter={"must_not": [{"key": "doc.id", "match": {"value": "trip"}}]},
        )
    )

    names = {one.document.document for one in page.results}
    assert names == {"audit", "kick-off", "offsite", "visit", "call", "today"}
    assert page.notes[-1] == "1 text without a date left out by since and until."


@pytest.mark.parametrize(
    ("dates", "sentence"),
    [
        (
            {"since": "soon"},
            "since is not a date: 'soon'. Use 2026-10-31, May 2026, monday, last week, or a time "
            "ago: 3 days, 2w, 3m, 1y.",
        ),
        ({"until": "2026-02-30"}, "until is not a date: '2026-02-30'. Use 2026-10-31"),
        ({"since": "1d", "until": "2026-10"}, "since is later than until: swap them."),
    ],
)
async def test_what_is_no_period_is_refused(dates, sentence):
    async with memory_services() as services:
        with pytest.raises(RequestError) as refusal:
            await services.pipeline.search(SearchRequest(query="meetings", **dates))

    assert str(refusal.value).startswith(sentence)
