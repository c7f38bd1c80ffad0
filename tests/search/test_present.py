"""Hits become the page that is shown."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.core.datatypes import Status
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.search.present import failure_notes, order_notes, present
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.rerank import Ranked
from mcp_server_qdrant.search.understand import Query, QueryVectors, Rules
from mcp_server_qdrant.search.words.terms import Terms
from tests.support import read_hit

OK = [Status("a", "ok")]


def hit(point, relevance=0.5, collection="a") -> Hit:
    payload = {"document": f"text {point}"}
    return read_hit(Hit(collection, point, relevance, relevance, 0.01, relevance, None, payload))


def page(hits, *, limit=10, shown=None, statuses=OK, **request):
    query = Query(
        request=SearchRequest(query="q", limit=limit, **request),
        rules=Rules(0.5),
        targets=(),
        limit=shown or limit,
        alpha=0.5,
        likeness=0.0,
        terms=Terms(query="q", idf={9: 1.0}, sparse={}),
        vectors=QueryVectors({}, {}),
        depth=60,
        pool=60,
        now=datetime.now(UTC),
        left=lambda: 5.0,
        reader=lambda _: lambda text: [len(word) for word in text.split()],  # "zeppelin." has 9
    )
    return present(Ranked(hits, None, None), query, statuses)


def test_what_was_not_searched_is_said():
    statuses = [
        Status("a", "ok"),
        Status("b", "degraded", "keywords only: it has no dense vector"),
        Status("c", "timeout", "It did not answer in time."),
        Status("d", "ok", "not worth a note"),
    ]

    assert failure_notes(statuses) == [
        "b: keywords only: it has no dense vector",
        "c: It did not answer in time.",
    ]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, "Nothing found: use other words."),
        ({"score_threshold": 0.9}, "Nothing found: use other words or lower score_threshold."),
        ({"query_filter": {"must": []}}, "Nothing found: use other words or drop the filter."),
        (
            {"collections": ("a",)},
            'Nothing found: use other words or search collections ["*"].',
        ),
        ({"collections": ("*",)}, "Nothing found: use other words."),
    ],
)
def test_finding_nothing_says_what_to_try(request_, expected):
    assert page([], **request_).notes == [expected]


def test_equal_reasons_are_said_once():
    statuses = [Status(name, "degraded", "keywords only: no model") for name in "abcde"]
    shown = page([hit(1, 0.9)], statuses=statuses)

    assert shown.notes == ["a, b, c and 2 more: keywords only: no model"]


def test_a_pattern_that_matches_nothing_is_named():
    shown = page([], statuses=[], collections=("zzz*",))

    assert shown.notes == ["No collection matches 'zzz*': see qdrant-collections."]


def test_what_else_the_order_follows_is_said_where_relevance_alone_would_be_another():
    older = hit(1, 0.34).rescored("recency", 0.9)
    spelled = hit(2, 0.32).rescored("fuzzy", 1.05).rescored("recency", 1.0)

    assert order_notes([spelled, older]) == ["In order of relevance x fuzzy x recency."]
    assert order_notes([older, spelled]) == []
    assert order_notes([spelled._replace(reranked=0.9), older]) == []
