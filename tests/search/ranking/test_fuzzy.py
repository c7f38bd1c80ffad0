"""Titles and texts that read like the query."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.search.ranking import (
    FUZZY_POOL,
    TEXT,
    boost_spelling,
    sorted_words,
    spelling_factor,
    spelling_similarity,
)
from mcp_server_qdrant.search.relevance import Hit
from tests.support import read_hit

few = settings(max_examples=60, deadline=None)
texts = st.text("abcd é1", max_size=30)


def hit(point: int, score: float, title: str | None = None, text: str = "") -> Hit:
    payload = {"title": title, "text": text}
    return read_hit(Hit("notes", point, score, score, 0.01, 0.5, 0.5, payload))


def likeness(query: str, text: str) -> float:
    return spelling_similarity(sorted_words(query, TEXT), sorted_words(text, TEXT))


def ranked(query: str, weight: float, *hits: Hit) -> list[tuple[int | str, float]]:
    return [(one.id, one.score) for one in boost_spelling(hits, query, weight)]


@pytest.mark.parametrize(
    ("similarity", "weight", "expected"),
    [(70, 0.1, 1.0), (85, 0.1, 1.05), (100, 0.1, 1.1), (100, 0.2, 1.2), (100, 1.0, 1.2)],
)
def test_the_factor_grows_from_70_on_and_is_bounded(similarity, weight, expected):
    assert spelling_factor(similarity, weight) == pytest.approx(expected)


def test_a_title_that_reads_like_the_query_lifts_its_hit():
    hits = hit(1, 0.52, "Certificates"), hit(2, 0.5, "Backup of the booking database")

    assert ranked("database backup booking", 0.1, *hits)[0][0] == 2
    (best, second) = boost_spelling(hits, "booking database backup", 0.1)
    assert best.factors == (("fuzzy", pytest.approx(best.score / best.relevance)),)
    assert (second.factors, second.score) == ((), 0.52)


def test_the_beginning_of_the_text_counts_as_well_and_the_better_of_both():
    bare = ranked("nightly backup", 0.1, hit(1, 0.5, None, "Nightly backup, at two."))
    both = ranked("nightly backup", 0.1, hit(1, 0.5, "Other", "Nightly backup, at two."))

    assert bare == both
    assert bare[0][1] > 0.5


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("nightly backup", "Backup: nightly!", 100),
        ("nightly backup", "The nightly backup of the booking database", 0),  # words in between
        ("nigthly backup", "Nightly backup", 93.75),
        ("backup", "Backup of the booking database", 100),
        ("the certain answer of it all", "AI", 0),
        ("nightly backup", "Red lentil dal", 0),
        ("nightly backup", "", 0),
    ],
)
def test_a_text_is_like_a_query_that_is_a_piece_of_it(query, text, expected):
    assert likeness(query, text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("query", "weight"), [("the backup", 0.0), ("", 0.1), ("?!", 0.1), ("backups", 0.1)]
)
def test_without_weight_or_words_the_hits_come_back_as_they_are(query, weight):
    hits = [hit(1, 0.4, "The backups"), hit(2, 0.5, "backups")]

    assert boost_spelling(hits, query, weight) == hits


def test_only_the_best_hits_are_compared():
    hits = [hit(n, 1 - n / 1000, "the backup") for n in range(FUZZY_POOL + 5)]
    changed = [one.id for one in boost_spelling(hits, "the backup", 0.1) if one.factors]

    assert changed == list(range(FUZZY_POOL))


@pytest.mark.parametrize("text", ["x" * 100_000, "word " * 20_000, "備份" * 5_000, "\ud800"])
def test_long_and_odd_texts_are_compared_by_their_beginning(text):
    assert 0 <= likeness("nightly backup", text) <= 100
    assert len(ranked(text, 0.1, hit(1, 0.5, text, text))) == 1


@few
@given(
    st.lists(st.tuples(st.floats(0, 1), texts, texts), max_size=8),
    texts,
    st.floats(0, 1),
    st.integers(1, 8),
)
def test_the_best_are_the_same_when_only_those_are_compared_that_can_get_there(
    rows, query, weight, shown
):
    hits = sorted(
        (hit(n, score, title, text) for n, (score, title, text) in enumerate(rows)),
        key=lambda one: -one.score,
    )
    every = boost_spelling(hits, query, weight)
    some = boost_spelling(hits, query, weight, shown)

    assert [(one.id, one.score) for one in some[:shown]] == [
        (one.id, one.score) for one in every[:shown]
    ]
