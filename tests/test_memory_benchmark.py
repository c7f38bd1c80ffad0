"""The benchmarks of memory: their files are read as published, their figures are right."""

import importlib
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.services import Shared, assemble
from mcp_server_qdrant.qdrant.client import open_client
from tests.fakes import FakeEncoder
from tests.support import make_settings, registry

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

FOLDER = Path(__file__).parent.parent / "benchmarks" / "memory"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The files of the benchmark, which import each other by their bare names."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return {
        name: importlib.import_module(name) for name in ("histories", "figures", "run", "growth")
    }


def asked(modules: dict[str, ModuleType], evidence: set[str], found: list[str]) -> Any:
    keys = [frozenset({("one", name)}) for name in found]
    wanted = frozenset(("one", name) for name in evidence)
    return modules["figures"].Asked("turns", "", "own", "hybrid", "", wanted, keys, None)


@pytest.mark.parametrize(
    ("evidence", "found", "at_1", "at_5", "ndcg"),
    [
        ({"a"}, ["a", "b"], 1.0, 1.0, 1.0),
        ({"a"}, ["b", "a"], 0.0, 1.0, 1 / math.log2(3)),
        ({"a", "b"}, ["c", "a"], 0.0, 0.5, (1 / math.log2(3)) / (1 + 1 / math.log2(3))),
        ({"a", "b"}, ["a", "a", "b"], 0.5, 1.0, 1.5 / (1 + 1 / math.log2(3))),
        ({"a"}, ["b", "c", "d", "e", "f", "a"], 0.0, 0.0, 1 / math.log2(7)),
        ({"a"}, [], 0.0, 0.0, 0.0),
    ],
)
def test_a_piece_of_evidence_counts_once_where_it_is_first(
    modules, evidence, found, at_1, at_5, ndcg
):
    one = asked(modules, evidence, found)

    figures = modules["figures"]
    assert (figures.recall(one, 1), figures.recall(one, 5)) == (at_1, at_5)
    assert figures.ndcg(one) == pytest.approx(ndcg)


def locomo() -> list[dict[str, Any]]:
    """A conversation in the form of locomo10.json."""
    first = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a cat.", "blip_caption": "a cat"},
        {"speaker": "Bob", "dia_id": "D1:2", "text": "How nice!"},
    ]
    second = [{"speaker": "Ann", "dia_id": "D2:1", "text": "The cat is called Ink."}]
    return [
        {
            "sample_id": "conv-1",
            "conversation": {
                "speaker_a": "Ann",
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": first,
                "session_2_date_time": "9:05 am on 2 June, 2023",
                "session_2": second,
            },
            "qa": [
                {"question": "When?", "category": 2, "evidence": ["D1:1"]},
                {"question": "Which pet?", "category": 1, "evidence": ["D1:01; D2:1", "D9:9"]},
                {"question": "Unknown?", "category": 3, "evidence": ["D9:9"]},
                {"question": "Never said?", "category": 5, "evidence": ["D1:2"]},
            ],
        }
    ]


def test_locomo_is_read_as_published_without_questions_whose_evidence_is_not_there(
    modules, tmp_path
):
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps(locomo()), "utf-8")

    (history,) = modules["histories"].read(path)

    assert history.name == "conv-1"
    assert [(one.id, one.date) for one in history.sessions] == [
        ("D1", "2023-05-08T13:56:00"),
        ("D2", "2023-06-02T09:05:00"),
    ]
    assert history.sessions[0].turns == {
        "D1:1": "Ann: I adopted a cat. [image: a cat]",
        "D1:2": "Bob: How nice!",
    }
    assert [(one.kind, sorted(one.turns), sorted(one.sessions)) for one in history.questions] == [
        ("temporal", ["D1:1"], ["D1"]),
        ("multi-hop", ["D1:1", "D2:1"], ["D1", "D2"]),
        ("without an answer", [], []),
    ]


def longmemeval(name: str, kind: str, question: str, evidence: list[str]) -> dict[str, Any]:
    """A question with a history of three sessions, in the form of longmemeval_s.json."""
    sessions = {
        "pets": ["My cat is called Ink.", "What a lovely name for a cat!"],
        "trip": ["We drove to Lisbon in June.", " "],
        "work": ["The printer on floor three broke.", "Have you called support?"],
    }
    said = [
        [
            {"role": role, "content": text, "has_answer": name in evidence and role == "user"}
            for role, text in zip(("user", "assistant"), texts, strict=True)
        ]
        for name, texts in sessions.items()
    ]
    return {
        "question_id": name,
        "question_type": kind,
        "question": question,
        "answer": "…",
        "question_date": "2023/07/01 (Sat) 10:00",
        "haystack_session_ids": list(sessions),
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/06/21 (Wed) 03:00"] * 2,
        "haystack_sessions": said,
        "answer_session_ids": evidence,
    }


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    rows = [
        longmemeval("q1", "single-session-user", "What is my cat called?", ["pets"]),
        longmemeval("q2", "multi-session", "printer Lisbon June", ["trip", "work"]),
        longmemeval("q3_abs", "single-session-user", "What is my dog called?", []),
    ]
    for row in rows:
        row["haystack_dates"] = row["haystack_dates"][:3]
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps(rows), "utf-8")
    return path


@pytest.mark.parametrize("at_once", [1, 2])
async def test_longmemeval_goes_through_the_tools_of_the_server(modules, made_up, at_once):
    async def opened() -> Shared:
        client = await open_client(url=":memory:", timeout=5)
        return assemble(make_settings(), client, registry(FakeEncoder())).shared

    run, figures = modules["run"], modules["figures"]
    histories = modules["histories"].read(made_up)
    rows = await run.run(histories, at_once, lambda _: make_server(make_settings(), opened))

    assert [history.name for history in histories] == ["q1", "q2", "q3_abs"]
    assert len(histories[0].sessions[1].turns) == 1  # an empty turn is not stored
    nothing = [one for one in rows if not one.evidence]
    assert len(nothing) == 1 * 3 * 2 * 2  # questions, algorithms, scopes, ways of storing
    assert all(one.page for one in nothing)
    rows = [one for one in rows if one.evidence]
    assert len(rows) == 2 * 3 * 2 * 3  # notes count in two ways
    own = [one for one in rows if one.searched == "own"]
    assert {(one.kind, figures.recall(one, 1)) for one in own if one.level == "sessions"} == {
        ("single-session-user", 1.0),
        ("multi-session", 0.5),
    }
    assert [one.kind for one in rows if figures.recall(one, 5) < 1] == []
    assert {one.evidence for one in rows if one.level == "turns"} == {
        frozenset({("q1", "S1:1")}),
        frozenset({("q2", "S2:1"), ("q2", "S3:1")}),
    }
    pages = [one.page for one in rows if one.page]
    assert len(pages) == 36
    assert min(tokens for tokens, *_ in pages) > 10
    said = run.report(rows)
    assert "| sessions, document per session, own, hybrid | 2 | 0.750 | 1.000 |" in said
    assert "| multi-session | 1 | 0.500 | 1.000 |" in said
