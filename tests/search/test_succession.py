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


async def test_the_newest_of_the_texts_about_a_subject_comes_first():
    async with memory_services() as services:
        shown = await found(
            services,
            ("first", "the billing service uses the database SQLite", 1),
            ("second", "the billing service uses the database Postgres 16", 3),
            ("third", "the billing service uses the database Postgres 17", 5),
            query="billing service database of the",
        )

    assert shown == [("third", "newest of 3"), ("second", "older"), ("first", "older")]


async def test_an_unrelated_newer_text_passes_nothing():
    async with memory_services() as services:
        shown = await found(
            services,
            ("first", "the billing service uses the database SQLite", 1),
            ("other", "a newer note about billing roses tulips and lilies by hand", 5),
            query="billing service database",
        )

    assert shown[0] == ("first", None)


async def test_turns_of_a_conversation_keep_their_order():
    async with memory_services() as services:
        shown = await found(
            services,
            ("chat:1", "the billing service uses the database SQLite", 1),
            ("chat:9", "the billing service uses the database Postgres", 5),
            query="billing service database SQLite",
        )

    assert shown[0] == ("chat:1", None)


@pytest.mark.parametrize("label", ["Decision", "Note", "Billing database", "[infra] update"])
async def test_what_kind_of_note_it_is_is_no_speaker(label):
    async with memory_services() as services:
        shown = await found(
            services,
            ("first", f"{label}: the billing service uses the database SQLite", 1),
            ("second", f"{label}: the billing service uses the database Postgres", 5),
            query="billing service database",
        )

    assert shown == [("second", "newest of 2"), ("first", "older")]


async def test_what_somebody_says_in_a_conversation_keeps_its_order():
    async with memory_services() as services:
        shown = await found(
            services,
            ("first", "Ana: the billing service uses the database SQLite", 1),
            ("second", "Tom: the billing service uses the database Postgres", 5),
            query="billing service database SQLite",
        )

    assert shown[0] == ("first", None)


async def test_a_text_of_another_day_or_number_than_the_one_asked_for_passes_nothing():
    async with memory_services() as services:
        shown = await found(
            services,
            ("monday", "the shop opens at nine on mondays", 1),
            ("sunday", "the shop opens at eleven on sundays", 5),
            query="when does the shop open on monday",
        )

    assert shown[0] == ("monday", None)


@pytest.mark.parametrize(
    ("newer", "first"),
    [
        ("the crane moved the billing harbour service database to Postgres", "newer"),
        ("the crane harbour opens the billing service database on Monday", "older"),
    ],
)
async def test_a_text_less_alike_comes_first_only_if_it_tells_of_a_change(newer, first):
    async with memory_services() as services:
        shown = await found(
            services,
            ("older", "the billing service has the database SQLite", 1),
            ("newer", newer, 5),
            query="billing service database SQLite has",
        )

    assert shown[0][0] == first


async def test_a_newer_text_that_lacks_a_word_of_the_query_is_about_something_else():
    async with memory_services() as services:
        shown = await found(
            services,
            ("ana", "the meeting with ana was about the budget of the harbour", 1),
            ("bob", "the meeting with bob was about the budget of the harbour", 5),
            query="meeting with ana about the budget",
        )

    assert shown == [("ana", None), ("bob", None)]


async def test_records_of_the_same_form_that_tell_of_a_change_keep_to_the_words_of_the_query():
    form = "the board postponed the new boiler of the swimming pool, minutes by"
    async with memory_services() as services:
        shown = await found(
            services,
            ("ida", f"{form} ida", 1),
            ("kai", f"{form} kai", 5),
            query="minutes by ida about the boiler",
        )

    assert shown == [("ida", None), ("kai", None)]


async def test_a_label_that_the_query_has_in_lower_case_names_a_subject():
    async with memory_services() as services:
        shown = await found(
            services,
            ("first", "the billing service uses the database SQLite", 1),
            ("second", "Billing: the service uses the database Postgres", 5),
            query="billing service database",
        )

    assert shown == [("second", "newest of 2"), ("first", "older")]
