"""A word is found however it is written, and no text is said to lack what it has."""

from pathlib import Path

import pytest

from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from tests.support import (
    IDF,
    either_engine,
    find,
    foreign,
    memory_services,
    remember,
    sparse_vector,
    texts,
)

TEXTS = (
    "这个项目改用node.js开发后台服务",
    "このチームはでADKを採用した",
    "우리는 Redis도 캐시로 쓴다",
    "เราใช้FastAPIสร้างบริการ",
    "The over\u00adtime ser\u00advice of the har\u200bbour bills at night",
    "The cafe\u0301 of Malmo\u0308 opens at six",
    "class PayrollLedger: the entry point of the module",
    "The sick leave calendar closes on Friday",
    "def parse_shift_plan(text): the parser of rosters",
    "The parcel weighs 40kg with its pallet",
    "The letter weighs 25 g without its stamp",
    "We write the driver in C++ for speed",
    "The kernel is plain C and nothing else",
    "The desktop client is C# on .NET",
    "Order ABC\u2011123 was shipped on Monday",
)

FOUND = [
    ("node.js", 0),
    ("ADK", 1),
    ("Redis", 2),
    ("FastAPI", 3),
    ("overtime service", 4),
    ("harbour", 4),
    ("café", 5),
    ("Malmö", 5),
    ("cafe\u0301", 5),
    ("payroll ledger", 6),
    ("PayrollLedger", 6),
    ("payrollLedger", 6),
    ("payroll_ledger", 6),
    ("sickLeaveCalendar", 7),
    ("SickLeave", 7),
    ("parseShiftPlan", 8),
    ("40 kg", 9),
    ("40kg", 9),
    ("25g", 10),
    ("C++", 11),
    ("C#", 13),
    (".NET", 13),
    ("ABC-123", 14),
]
QUOTED = [
    ("node.js", 0),
    ("开发", 0),
    ("ADK", 1),
    ("Redis", 2),
    ("FastAPI", 3),
    ("overtime service", 4),
    ("café", 5),
    ("40 kg", 9),
    ("25g", 10),
    ("C++", 11),
    ("plain C", 12),
    (".NET", 13),
    ("ABC-123", 14),
]


@pytest.fixture
async def services(tmp_path: Path):
    async with (
        either_engine("edge", tmp_path) as engine,
        memory_services(engine=engine, qdrant_read_only=False) as services,
    ):
        await remember(services, "notes", *TEXTS)
        yield services


@pytest.mark.parametrize("algorithm", ["keyword", "hybrid"])
async def test_a_word_is_found_however_it_is_written(services, algorithm):
    for query, place in FOUND:
        page = await find(services, query, "notes", algorithm=algorithm, correct=False)

        assert texts(page)[:1] == [TEXTS[place]], query
        if "_" not in query:  # as it is written there
            assert not [note for note in page.notes if note.startswith("No text")], query


async def test_a_word_in_quotes_is_found_however_it_is_written(services):
    for query, place in QUOTED:
        page = await find(services, f'"{query}"', "notes")

        assert texts(page) == [TEXTS[place]], query


async def test_what_no_text_has_is_still_said(services):
    page = await find(services, "驱动程序用c++或go.mod写", "notes")

    assert page.notes[0] == "No text found contains go.mod."


async def test_texts_with_vectors_of_an_earlier_version_are_found(tmp_path):
    """Without terms of the parts of words, nor of C++."""
    bm25, old = Bm25Encoder(), ("class PayrollLedger", "a driver in C++", "40kg of rope")

    def vector(number: int) -> dict:
        return {"bm25": sparse_vector(bm25._model.embed_document(old[number - 1]))}

    async with (
        either_engine("edge", tmp_path) as engine,
        memory_services(engine=engine) as services,
    ):
        payloads = {n: {"document": text} for n, text in enumerate(old, 1)}
        await foreign(engine, "old", payloads, sparse={"bm25": IDF}, values=vector)
        for query, place in (("PayrollLedger", 0), ("C++", 1), ("40kg", 2)):
            page = await find(services, query, "old", algorithm="keyword")
            assert texts(page)[:1] == [old[place]]
            assert page.results[0].relevance > 0.3, query
