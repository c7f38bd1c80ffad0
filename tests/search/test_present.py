"""Hits become the page that is shown."""

import pytest

from mcp_server_qdrant.core.datatypes import Hit, Status, Terms
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.qdrant.payload import read
from mcp_server_qdrant.search.present import Presenter, Shares, above, floor, notes
from mcp_server_qdrant.search.steps.group import document_id, group

OK = [Status("a", "ok")]


def hit(point, relevance=0.5, collection="a", document=None, **payload) -> Hit:
    if document:
        payload["doc"] = {"id": document, "chunk": 0, "chunks": 2}
    payload.setdefault("document", f"text {point}")
    return Hit(collection, point, relevance, relevance, 0.01, relevance, None, payload)


def page(hits, *, limit=10, statuses=OK, **request):
    presenter = Presenter(
        lambda collection, point, payload: read(collection, point, payload, ("document",)),
        lambda hit: None,
        lambda text: [len(word) for word in text.split()],  # "zeppelin." has 9
    )
    terms = Terms(query="q", idf={9: 1.0}, sparse={})
    asked = SearchRequest(query="q", **request)
    return presenter.present(hits, asked, limit, statuses, terms, Shares(0.5, 4.4))


def test_results_keep_the_order_of_the_hits_and_their_numbers():
    shown = page([hit(1, 0.9), hit(2, 0.4, "b")])

    assert [(r.document.collection, r.document.id) for r in shown.results] == [("a", 1), ("b", 2)]
    assert [(r.relevance, r.score) for r in shown.results] == [(0.9, 0.9), (0.4, 0.4)]
    assert shown.query == "q"
    assert shown.notes == []


def test_no_more_than_the_limit_is_shown():
    assert len(page([hit(n) for n in range(20)], limit=3).results) == 3


def test_the_threshold_lets_equal_relevance_through():
    hits = [hit(1, 0.6), hit(2, 0.5), hit(3, 0.4999)]

    assert [h.id for h in above(hits, 0.5)] == [1, 2]
    assert above(hits, 0.0) == hits
    assert [r.document.id for r in page(hits, score_threshold=0.5).results] == [1, 2]


def test_a_document_is_shown_by_its_best_chunk():
    hits = [hit(1, 0.9, document="d"), hit(2, 0.8, document="e"), hit(3, 0.7, document="d")]

    assert [h.id for h in group(hits)] == [1, 2]


def test_documents_of_the_same_id_in_two_collections_are_two():
    hits = [hit(1, document="d"), hit(1, collection="b", document="d")]

    assert group(hits) == hits


def test_points_that_other_tools_wrote_are_documents_each():
    hits = [hit(1), hit(2), hit("3", doc="no object"), hit("4", doc={"id": 5})]

    assert group(hits) == hits


@pytest.mark.parametrize(
    ("payload", "expected"),
    [({"doc": {"id": "x"}}, "x"), ({"doc": {"id": 1}}, None), ({"doc": "x"}, None), (None, None)],
)
def test_a_chunk_names_its_document(payload, expected):
    assert document_id(payload) == expected


def test_the_passage_is_the_part_that_holds_the_query():
    text = "One two. " * 30 + "Here is zeppelin. " + "One two. " * 30
    (result,) = page([Hit("a", 1, 0.5, 0.5, 0.01, 0.5, None, {"document": text})]).results

    assert "Here is zeppelin." in result.passage
    assert result.document.text == text


def test_what_was_not_searched_is_said():
    statuses = [
        Status("a", "ok"),
        Status("b", "degraded", "keywords only: it has no dense vector"),
        Status("c", "timeout", "It did not answer in time."),
        Status("d", "ok", "not worth a note"),
    ]

    assert notes(page([hit(1)]).results, SearchRequest(query="q"), statuses) == [
        "b: keywords only: it has no dense vector",
        "c: It did not answer in time.",
    ]


def test_an_empty_engine_says_how_to_begin():
    (note,) = page([], statuses=[]).notes

    assert note == 'Nothing is stored there yet. collections=["*"] searches whatever there is.'


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


def test_the_tail_far_below_the_best_is_cut_where_nobody_asked_for_so_many():
    hits = [hit(1, 0.8), hit(2, 0.2), hit(3, 0.19)]

    assert [r.document.id for r in page(hits, limit=10).results] == [1, 2]


def test_a_limit_or_a_threshold_of_the_callers_own_shows_the_tail():
    hits = [hit(1, 0.8), hit(2, 0.05)]
    asked = SearchRequest(query="q", limit=5)

    assert floor(hits, asked) == 0.0
    assert floor(hits, SearchRequest(query="q", score_threshold=0.1)) == 0.1
    assert floor([], SearchRequest(query="q")) == 0.0


def test_equal_reasons_are_said_once():
    statuses = [Status(name, "degraded", "keywords only: no model") for name in "abcde"]
    shown = page([hit(1, 0.9)], statuses=statuses)

    assert shown.notes == ["a, b, c and 2 more: keywords only: no model"]


def test_a_pattern_that_matches_nothing_is_named():
    shown = page([], statuses=[], collections=("zzz*",))

    assert shown.notes == ["No collection matches 'zzz*': see qdrant-collections."]
