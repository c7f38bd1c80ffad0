"""Unlike passages first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.core.datatypes import Hit
from mcp_server_qdrant.qdrant.payload import document_of
from mcp_server_qdrant.search.ranking import jaccard, spread

few = settings(max_examples=60, deadline=None)
texts = st.text(alphabet="ab1 -.\n*", max_size=40)


def document(hit: Hit):
    return document_of(hit.collection, hit.id, hit.payload, ("document",))


def hit(text, point=1, score=0.5) -> Hit:
    return Hit("a", point, score, score, 0.01, score, None, {"document": text})


SPREAD = [
    hit("red roses need sun", point=1, score=0.9),
    hit("red roses need the sun", point=2, score=0.8),
    hit("moss needs shade", point=3, score=0.6),
]


def test_no_diversity_gives_the_hits_back():
    assert spread(SPREAD, 0.0, document) == SPREAD


def test_each_next_hit_has_the_largest_marginal_relevance():
    """d = 0.5: 0.5 * 8/9 - 0.5 * 4/5 = 0.044 for the like one, 0.5 * 6/9 = 0.333 for the other."""
    assert [one.id for one in spread(SPREAD, 0.5, document)] == [1, 3, 2]
    assert [one.id for one in spread(SPREAD, 0.2, document)] == [1, 2, 3]
    assert [one.score for one in spread(SPREAD, 0.5, document)] == [0.9, 0.6, 0.8]


def test_where_likeness_alone_counts_the_best_still_comes_first():
    assert [one.id for one in spread(SPREAD, 1.0, document)] == [1, 3, 2]


def test_scores_above_1_are_measured_by_the_best():
    boosted = [one.rescored("priority", 3.0) for one in SPREAD]

    assert [one.id for one in spread(boosted, 0.2, document)] == [1, 2, 3]


def test_hits_that_a_reranker_has_not_read_stay_behind_those_it_has():

    read = [one._replace(reranked=0.01, score=0.01) for one in SPREAD]
    rest = [hit("quite another thing", point=9, score=0.5)]

    assert [one.id for one in spread([*read, *rest], 0.5, document)] == [1, 3, 2, 9]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("", "", 0.0), ("ab", "", 0.0), ("ab", "ab", 1.0), ("abc", "bcd", 0.5)],
)
def test_likeness_is_the_share_of_words(one, other, expected):
    assert jaccard(frozenset(one), frozenset(other)) == expected


@few
@given(
    st.lists(st.tuples(texts, st.floats(0, 3)), max_size=60),
    st.floats(0, 1),
)
def test_spreading_loses_nothing_and_starts_with_the_best(found, diversity):
    hits = sorted(
        (hit(text, point=n, score=score) for n, (text, score) in enumerate(found)),
        key=lambda one: -one.score,
    )
    out = spread(hits, diversity, document)

    assert sorted(one.id for one in out) == sorted(one.id for one in hits)
    assert out[:1] == hits[:1]
    assert out == spread(hits, diversity, document)
