"""Texts about the same subject on one page: the newest first, each marked."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.find import SearchRequest
from tests.support import memory_services


async def found(services, *texts: tuple[str, str, int], query: str):
    for own, text, month in texts:
        when = datetime(2026, month, 1, tzinfo=UTC)
        await services.store.store(NewDocument(text, id=own, created_at=when), "notes")
    page = await services.pipeline.search(SearchRequest(query=query, recency_weight=0))
    return [(one.document.document, one.in_time) for one in page.results]


SQLITE = "the billing service uses the database SQLite"
POSTGRES = "the billing service uses the database Postgres"
DATABASE = "billing service database"
MINUTES = "the board postponed the new boiler of the swimming pool, minutes by"
NEWEST = [("second", "newest of 2"), ("first", "older")]
PASSED = (
    {  # the texts, the query, and what is found
        "texts about a subject": (
            [("first", SQLITE, 1), ("second", f"{POSTGRES} 16", 3), ("third", f"{POSTGRES} 17", 5)],
            "billing service database of the",
            [("third", "newest of 3"), ("second", "older"), ("first", "older")],
        ),
    }
    | {
        f"{label}, which the query has in lower case": (
            [("first", SQLITE, 1), ("second", f"{label}: {POSTGRES}", 5)],
            DATABASE,
            NEWEST,
        )
        for label in ("Billing", "Databases")
    }
    | {
        f"{label} is no speaker": (
            [("first", f"{label}: {SQLITE}", 1), ("second", f"{label}: {POSTGRES}", 5)],
            DATABASE,
            NEWEST,
        )
        for label in ("Decision", "Note", "Billing database", "[infra] update")
    }
)


@pytest.mark.parametrize("kind", PASSED)
async def test_the_newest_of_the_texts_about_a_subject_comes_first(kind):
    texts, query, expected = PASSED[kind]
    async with memory_services() as services:
        assert await found(services, *texts, query=query) == expected


OTHERS = {  # the older text, the newer one, and the query; ids if they matter
    "an unrelated text": (
        SQLITE,
        "a newer note about billing roses tulips and lilies by hand",
        DATABASE,
    ),
    "what somebody else says": (f"Ana: {SQLITE}", f"Tom: {POSTGRES}", f"{DATABASE} SQLite"),
    "another day than the one asked for": (
        "the shop opens at nine on mondays",
        "the shop opens at eleven on sundays",
        "when does the shop open on monday",
    ),
    "without a word of the query": (
        "the meeting with ana was about the budget of the harbour",
        "the meeting with bob was about the budget of the harbour",
        "meeting with ana about the budget",
    ),
    "less alike, and of no change": (
        "the billing service has the database SQLite",
        "the crane harbour opens the billing service database on Monday",
        f"{DATABASE} SQLite has",
    ),
    "a record of the same form, of another person": (
        f"{MINUTES} ida",
        f"{MINUTES} kai",
        "minutes by ida about the boiler",
    ),
    "turns of a conversation": (
        SQLITE,
        POSTGRES,
        f"{DATABASE} SQLite",
        ("chat:1", "chat:9"),
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_newer_text_about_something_else_passes_nothing(kind):
    older, newer, query, *ids = OTHERS[kind]
    first, second = ids[0] if ids else ("older", "newer")
    async with memory_services() as services:
        shown = await found(services, (first, older, 1), (second, newer, 5), query=query)

    assert shown[0] == (first, None)


async def test_a_text_less_alike_comes_first_if_it_tells_of_a_change():
    older = ("older", "the billing service has the database SQLite", 1)
    newer = "the crane moved the billing harbour service database to Postgres"
    async with memory_services() as services:
        shown = await found(services, older, ("newer", newer, 5), query=f"{DATABASE} SQLite has")

    assert shown[0][0] == "newer"
