"""The published formula, with numbers done by hand."""

import math
from dataclasses import replace

import pytest

from mcp_server_qdrant.core.datatypes import Candidate, DenseLeg, Scored, SparseLeg, Target
from mcp_server_qdrant.search.relevance import calibrate, highest_bm25, relevance
from mcp_server_qdrant.search.words.terms import Terms, global_idf

DENSE = DenseLeg("fast-x", 4, "cosine", "x")
SPARSE = SparseLeg("bm25", idf=True)


def found(name, dense=None, sparse=None, ids=None) -> Scored:
    """Candidates of one collection; a leg that is None was not searched."""
    ids = ids or sorted({*(dense or {}), *(sparse or {})}, key=str)
    target = Target(
        name,
        points=10,
        dense=DENSE if dense is not None else None,
        sparse=SPARSE if sparse is not None else None,
    )
    return Scored(
        [target],
        [
            Candidate(
                name,
                point,
                1 / 60,
                None if dense is None else dense.get(point, 0.0),
                None if sparse is None else sparse.get(point, 0.0),
                {"document": str(point)},
            )
            for point in ids
        ],
    )


def test_the_worked_example_of_the_formula():
    """Two collections of 10 and 30 points; one term in 2 + 1 of them, the other in 5 + 15."""
    idf_a = {7: math.log(11 / 2.5), 9: math.log(11 / 5.5)}
    idf_b = {7: math.log(31 / 1.5), 9: math.log(31 / 15.5)}

    idf = global_idf([[7], [9]], [(10, idf_a), (30, idf_b)])

    assert idf[7] == pytest.approx(2.4608095, abs=1e-6)  # ln(41 / 3.5)
    assert idf[9] == pytest.approx(0.6931472, abs=1e-6)  # ln(41 / 20.5)

    terms = Terms(query="q", idf=idf, sparse={})

    assert highest_bm25(terms) == pytest.approx(6.9387047, abs=1e-6)  # 2.2 * 3.1539567

    hits = calibrate(
        [
            found("a", dense={1: 0.8, 2: 0.3}, sparse={1: 3.0}),
            found("b", dense={5: 0.6}, sparse={5: 6.0}),
        ],
        terms,
        0.5,
    )

    assert [(hit.collection, hit.id) for hit in hits] == [("b", 5), ("a", 1), ("a", 2)]
    # (0.6 + 6 / 6.9387047) / 2, (0.8 + 3 / 6.9387047) / 2, 0.3 / 2, to five digits
    assert [hit.relevance for hit in hits] == [0.73236, 0.61618, 0.15]
    assert [hit.score for hit in hits] == [hit.relevance for hit in hits]


@pytest.mark.parametrize(
    ("dense", "sparse", "expected"),
    [
        (0.8, 2.0, 0.65),  # 0.5 * 0.8 + 0.5 * 2 / 4
        (0.8, 0.0, 0.4),
        (0.0, 4.0, 0.5),
        (1.0, 4.0, 1.0),
        (-0.5, 2.0, 0.25),  # a negative cosine counts 0
        (0.8, None, 0.8),  # no BM25 leg: the cosine alone
        (None, 2.0, 0.5),  # no dense leg: BM25 alone
        (None, None, 0.0),
        (1.0000002, 4.1, 1.0),  # rounding never leads out of [0, 1]
        (None, -1.0, 0.0),
        (None, math.nan, 0.0),  # of a vector that overflows
        (None, math.inf, 1.0),
    ],
)
def test_relevance_of_two_legs_one_or_none(dense, sparse, expected):
    assert relevance(dense, sparse, limit=4.0, alpha=0.5) == pytest.approx(expected)


def test_a_query_without_terms_is_judged_by_meaning_alone():
    assert relevance(0.6, 0.0, limit=0.0, alpha=0.4) == pytest.approx(0.6)
    assert relevance(None, 0.0, limit=0.0, alpha=0.4) == 0.0


def test_a_point_without_a_vector_counts_0_on_that_leg():
    terms = Terms(query="q", idf={7: 2.0}, sparse={})

    (hit,) = calibrate([found("a", dense={}, sparse={1: 2.2}, ids=[1])], terms, 0.5)

    assert hit.relevance == pytest.approx(0.25)  # 0.5 * 0 + 0.5 * 2.2 / 4.4
    assert hit.dense == 0.0


def test_a_leg_that_was_not_searched_leaves_its_share_to_the_other():
    terms = Terms(query="q", idf={7: 2.0}, sparse={})

    hits = calibrate([found("a", dense={1: 0.5}), found("b", sparse={1: 2.2})], terms, 0.4)

    assert [hit.relevance for hit in hits] == pytest.approx([0.5, 0.5])
    assert (hits[0].sparse, hits[1].dense) == (None, None)


def test_ties_are_broken_by_collection_and_then_by_id():
    terms = Terms(query="q", idf={}, sparse={})
    same = {"9": 0.5, "10": 0.5, "1": 0.5}

    hits = calibrate([found("b", dense=same), found("a", dense=same)], terms, 0.5)

    assert [(h.collection, h.id) for h in hits] == [(c, i) for c in "ab" for i in ("1", "10", "9")]


def test_a_hit_carries_its_trace_and_its_payload():
    (hit,) = calibrate(
        [found("a", dense={1: 0.4}, sparse={1: 1.1})],
        Terms(query="q", idf={7: 1.0}, sparse={}),
        0.5,
    )

    assert (hit.dense, hit.sparse, hit.rrf) == (0.4, 1.1, 1 / 60)
    assert hit.payload == {"document": "1"}
    assert hit.rescored("decay", 0.5).score == pytest.approx(hit.score / 2)
    assert hit.rescored("decay", 0.5).factors == (("decay", 0.5),)


def test_parts_of_texts_that_were_replaced_have_no_place():
    part = found("a", dense={1: 0.5, 2: 0.5, 3: 0.5})
    marks = zip(part.candidates, (None, True, False), strict=True)
    marked = replace(part, candidates=[one._replace(current=mark) for one, mark in marks])

    assert [hit.id for hit in calibrate([marked], Terms("q", {}, {}), 0.5)] == [1, 2]
