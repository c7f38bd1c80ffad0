"""What words of the query in tags and titles add to a relevance."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.search.relevance import Hit, lifted, relevance
from mcp_server_qdrant.search.words.terms import Terms, Words, share

few = settings(max_examples=100, deadline=None)
parts = st.floats(0, 1)


def hit(value: float, dense: float | None = None, sparse: float | None = None) -> Hit:
    return Hit("c", 1, value, value, 0.01, dense, sparse)


@pytest.mark.parametrize(
    ("value", "dense", "part", "expected"),
    [
        (0.4, 0.6, 0.5, 0.65),  # 0.4 + 0.5 * 0.5
        (0.4, 0.6, 0.8, 0.8),
        (0.4, 0.6, 1.0, 0.878694),  # 0.8 + 0.2 * (1 - exp(-0.1 / 0.2))
        (0.4, 0.6, 1.8, 0.983583),  # 0.8 + 0.2 * (1 - exp(-0.5 / 0.2))
        (0.9, 0.9, 0.2, 0.963212),  # 0.9 + 0.1 * (1 - exp(-0.1 / 0.1))
        (0.4, None, 0.4, 0.8),  # keywords alone: they are all that counts
        (0.4, 0.6, 0.0, 0.4),
        (1.0, 1.0, 1.0, 1.0),
        (0.0, -0.1, 1.0, 0.5),  # a tag may be all there is
    ],
)
def test_the_part_of_the_query_counts_as_words_of_the_text(value, dense, part, expected):
    raised = lifted(hit(value, dense), "tags", part, alpha=0.5)

    assert raised.relevance == pytest.approx(expected, abs=1e-6)
    assert raised.score == pytest.approx(expected, abs=1e-6)


def test_the_score_keeps_its_other_factors_and_the_step_is_recorded():
    boosted = hit(0.4, 0.6).rescored("priority", 1.5)

    raised = lifted(boosted, "title", 0.4, alpha=0.5)

    assert raised.relevance == pytest.approx(0.6)
    assert raised.score == pytest.approx(0.9)
    assert raised.factors == (("priority", 1.5),)
    assert raised.gains == (("title", pytest.approx(0.2)),)


def test_where_meaning_alone_counts_nothing_is_gained():
    assert lifted(hit(0.6, 0.6), "tags", 1.0, alpha=1.0) == hit(0.6, 0.6)


@pytest.mark.parametrize(
    ("found", "expected"), [(set(), 0.0), ({1}, 0.75), ({2, 9}, 0.25), ({1, 2}, 1.0)]
)
def test_terms_are_the_part_of_the_query_that_their_idf_is(found, expected):
    assert share(found, {1: 3.0, 2: 1.0}) == expected


def test_without_any_idf_all_terms_count_alike():
    def words(idf):
        return Words(Terms("q", idf, {}), lambda _: lambda text: (4, 5))

    assert words({}).part({4}) == 0.5
    assert words({7: 2.0}).part({7}) == 1.0
    assert share({4}, {}) == 0.0


def test_of_the_terms_of_a_word_in_several_languages_a_text_need_hold_one():
    weights = {1: 3.0, 2: 2.5, 3: 1.0}  # 2 is what another language makes of 1

    assert share({1}, weights, 4.0) == 0.75
    assert share({1, 2, 3}, weights, 4.0) == 1.0


@st.composite
def calibrated(draw) -> tuple[Hit, float]:
    """A hit as calibrate makes it, and the dense share it was made with."""
    alpha = draw(parts)
    dense, sparse = draw(st.none() | st.floats(-1, 1)), draw(st.none() | st.floats(0, 9))
    limit = draw(st.floats(0, 9))
    return hit(relevance(dense, sparse, limit, alpha), dense, sparse), alpha


@few
@given(calibrated(), parts)
def test_relevance_stays_in_0_to_1_and_never_falls(made, part):
    before, alpha = made
    after = lifted(before, "tags", part, alpha)

    assert before.relevance <= after.relevance <= 1


@few
@given(calibrated(), parts, parts)
def test_of_two_hits_the_more_relevant_stays_so(made, part, other):
    before, alpha = made
    less = before._replace(relevance=before.relevance * other, score=before.relevance * other)

    one, two = (lifted(hit, "tags", part, alpha).relevance for hit in (less, before))
    assert one <= two + 1e-12
