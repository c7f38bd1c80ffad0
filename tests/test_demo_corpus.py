"""The demo's texts and their labelled queries are complete and consistent."""

import json
import runpy
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from mcp.types import CallToolResult

from mcp_server_qdrant.core.datatypes import Document, Result, SearchPage, Status
from mcp_server_qdrant.ingest.demo import TEXTS
from mcp_server_qdrant.tools.rendering import as_data

DEMO = Path(__file__).parent.parent / "demo"
COLLECTIONS = ("homelab", "recipes", "meetings")
CATEGORIES = {"exact", "paraphrase", "cross", "typo", "tag", "recency"}
FIELDS = {"id", "title", "text", "tags", "created_at", "metadata"}

TEXTS = {
    name: [
        json.loads(line)
        for line in (TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for name in COLLECTIONS
}
ALL = [text for texts in TEXTS.values() for text in texts]
IDS = {text["id"] for text in ALL}
EARLIEST, LATEST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC)
QUERIES = json.loads((DEMO / "queries.json").read_text(encoding="utf-8"))


def searched(query: dict) -> set[str]:
    wanted = query["collections"]
    return set(COLLECTIONS) if wanted in (None, ["*"]) else set(wanted)


def held(faults: dict[str, bool]) -> list[str]:
    return [name for name, holds in faults.items() if holds]


def faults_of_text(text: dict) -> dict[str, bool]:
    created = datetime.fromisoformat(text["created_at"])
    return {
        "has other fields": set(text) != FIELDS,
        "is too short or too long": not 60 <= len(text["text"].split()) <= 350,
        "has no tag": not text["tags"],
        "has an untidy tag": any(tag != tag.lower().strip() for tag in text["tags"]),
        "has no metadata": not isinstance(text["metadata"], dict),
        "is of another time": not EARLIEST <= created <= LATEST,
    }


def test_every_text_is_whole():
    faults = [f"{text['id']} {fault}" for text in ALL for fault in held(faults_of_text(text))]

    assert faults == []


def faults_of_query(query: dict) -> dict[str, bool]:
    expected = query["expected"]
    return {
        "has other fields": set(query) != {"query", "collections", "expected", "category"},
        "is of no known kind": query["category"] not in CATEGORIES,
        "expects nothing": not expected,
        "expects a text twice": len(set(expected)) != len(expected),
        "expects a text that is not there": not set(expected) <= IDS,
        "cannot find its text": not {id_.split("/")[0] for id_ in expected} <= searched(query),
    }


def test_every_query_is_labelled_with_texts_that_it_can_find():
    faults = [
        f"{query['query']!r} {fault}" for query in QUERIES for fault in held(faults_of_query(query))
    ]

    assert faults == []


def test_queries_are_distinct_and_of_every_kind():
    kinds = Counter(query["category"] for query in QUERIES)

    assert 55 <= len(QUERIES) <= 70
    assert len({query["query"] for query in QUERIES}) == len(QUERIES)
    assert set(kinds) == CATEGORIES
    assert min(kinds.values()) >= 5


def test_exact_queries_name_what_their_text_holds():
    whole = {text["id"]: f"{text['title']} {text['text']}".lower() for text in ALL}
    exact = [query for query in QUERIES if query["category"] == "exact"]

    assert exact
    for query in exact:
        words = query["query"].lower().replace('"', "").split()
        assert any(word in whole[query["expected"][0]] for word in words), query["query"]


def test_the_demo_shows_labelled_queries_on_one_two_and_all_collections():
    shown = runpy.run_path(str(DEMO / "run.py"))["SHOWN"]
    labels = {query["query"]: query for query in QUERIES}

    assert set(shown) <= set(labels)
    assert {len(searched(labels[query])) for query in shown} == {1, 2, 3}


def test_a_right_answer_has_the_expected_text_first_and_no_collection_failed():
    is_right = runpy.run_path(str(DEMO / "run.py"))["is_right"]
    found = Result(Document("a", "homelab", "Text.", title="UPS"), 0.5, 0.5)

    def answer(*states: str) -> CallToolResult:
        statuses = [Status(f"c{n}", state, "late") for n, state in enumerate(states)]
        data = as_data(SearchPage("q", [found], statuses), "minimal")
        return CallToolResult(content=[], structured_content=data)

    assert is_right(answer("ok", "ok"), "UPS")
    assert not is_right(answer("ok", "ok"), "Network")
    assert not is_right(answer("ok", "timeout"), "UPS")
