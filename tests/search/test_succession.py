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


@pytest.mark.parametrize(
    ("texts", "query", "expected"),
    [
        pytest.param(
            [("first", SQLITE, 1), ("second", f"{POSTGRES} 16", 3), ("third", f"{POSTGRES} 17", 5)],
            "billing service database of the",
            [("third", "newest of 3"), ("second", "older"), ("first", "older")],
            id="texts about a subject",
        ),
        *(
            pytest.param(
                [("first", f"{label}: {SQLITE}", 1), ("second", f"{label}: {POSTGRES}", 5)],
                DATABASE,
                NEWEST,
                id=f"{label} is no speaker",
            )
            for label in ("Decision", "Note", "Billing database", "[infra] update")
        ),
        *(
            pytest.param(
                [("first", SQLITE, 1), ("second", f"{label}: {POSTGRES}", 5)],
                DATABASE,
                NEWEST,
                id=f"a label that the query has in lower case: {label}",
            )
            for label in ("Billing", "Databases")
        ),
    ],
)
async def test_the_newest_of_the_texts_about_a_subject_comes_first(texts, query, expected):
    async with memory_services() as services:
        assert await found(services, *texts, query=query) == expected


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        pytest.param(
            [
                ("first", SQLITE, 1),
                ("other", "a newer note about billing roses tulips and lilies by hand", 5),
            ],
            DATABASE,
            id="an unrelated text",
        ),
        pytest.param(
            [("chat:1", SQLITE, 1), ("chat:9", POSTGRES, 5)],
            f"{DATABASE} SQLite",
            id="turns of a conversation",
        ),
        pytest.param(
            [("first", f"Ana: {SQLITE}", 1), ("second", f"Tom: {POSTGRES}", 5)],
            f"{DATABASE} SQLite",
            id="what somebody else says",
        ),
        pytest.param(
            [
                ("monday", "the shop opens at nine on mondays", 1),
                ("sunday", "the shop opens at eleven on sundays", 5),
            ],
            "when does the shop open on monday",
            id="another day than the one asked for",
        ),
        pytest.param(
            [
                ("ana", "the meeting with ana was about the budget of the harbour", 1),
                ("bob", "the meeting with bob was about the budget of the harbour", 5),
            ],
            "meeting with ana about the budget",
            id="without a word of the query",
        ),
        pytest.param(
            [
                ("older", "the billing service has the database SQLite", 1),
                ("newer", "the crane harbour opens the billing service database on Monday", 5),
            ],
            f"{DATABASE} SQLite has",
            id="less alike, and of no change",
        ),
        pytest.param(
            [
                ("ida", f"{MINUTES} ida", 1),
                ("kai", f"{MINUTES} kai", 5),
            ],
            "minutes by ida about the boiler",
            id="a record of the same form, of another person",
        ),
    ],
)
async def test_a_newer_text_about_something_else_passes_nothing(texts, query):
    async with memory_services() as services:
        shown = await found(services, *texts, query=query)

    assert shown[0] == (texts[0][0], None)


async def test_a_text_less_alike_comes_first_if_it_tells_of_a_change():
    older = ("older", "the billing service has the database SQLite", 1)
    newer = "the crane moved the billing harbour service database to Postgres"
    async with memory_services() as services:
        shown = await found(services, older, ("newer", newer, 5), query=f"{DATABASE} SQLite has")

    assert shown[0][0] == "newer"
