"""Age."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.core.notation import date_paths, time_of
from mcp_server_qdrant.search.ranking import decay_by_age, recency_factor
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.settings.ranking import TIME_FIELDS

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FIELDS = ("created_at", "updated_at", "date")
USUAL = (0.15, 0.01, FIELDS)


def timestamp(payload, fields):
    return time_of(payload, [path.split(".") for path in date_paths(fields)])


def hit(score: float, payload, point=1) -> Hit:
    return Hit("a", point, score, score, 0.0, None, None, payload)


def test_the_factor_is_the_published_formula():
    age = timedelta(days=69)

    assert recency_factor(age, 0.15, 0.01) == 1 - 0.15 + 0.15 * math.exp(-0.69)
    assert recency_factor(age, 1.0, 0.01) == pytest.approx(0.5016, abs=1e-4)
    assert recency_factor(timedelta(0), 0.15, 0.01) == 1.0


def test_a_date_in_the_future_counts_as_now():
    assert recency_factor(timedelta(days=-400), 0.15, 0.01) == 1.0


def test_switched_off_the_hits_come_back_as_they_were():
    hits = [hit(0.2, {"created_at": "1999-01-01"}), hit(0.1, {})]

    assert decay_by_age(hits, 0.0, 0.01, FIELDS, NOW) == hits


def test_the_newer_of_two_equal_texts_comes_first_and_the_factor_is_recorded():
    old, new = (
        hit(0.5, {"created_at": "2024-11-21T12:00:00Z"}, 1),
        hit(0.5, {"date": "2026-11-21"}, 2),
    )

    ranked = decay_by_age([old, new], *USUAL, NOW)

    assert [one.id for one in ranked] == [2, 1]
    assert ranked[1].factors == (("recency", pytest.approx(0.85 + 0.15 * math.exp(-7.3))),)
    assert ranked[1].relevance == 0.5


def test_a_text_is_as_old_as_its_own_date_says_whenever_it_was_corrected():
    payload = {"created_at": "2020-01-01", "updated_at": "2026-01-02"}
    meant = payload | {"metadata": {"date": "2021-01-01"}}

    assert timestamp(payload, TIME_FIELDS) == datetime(2020, 1, 1, tzinfo=UTC)
    assert timestamp(meant, TIME_FIELDS) == datetime(2021, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("doc", [{"date": "none"}, {"file": {"path": "a.md"}}])
def test_a_text_of_a_file_that_gives_no_date_does_not_age(doc):
    """As it is stored now, and as it was stored before, with the time of its file as a date."""
    payload = {"created_at": "2020-01-01", "updated_at": "2020-01-01", "doc": doc}
    (kept,) = decay_by_age([hit(0.5, payload)], *USUAL, NOW)

    assert kept.factors == ()


def test_a_text_without_a_time_keeps_its_score():
    (kept,) = decay_by_age([hit(0.5, {"document": "x"})], *USUAL, NOW)

    assert kept == hit(0.5, {"document": "x"})


DAY = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("payload", "fields", "when"),
    [
        ({"created_at": "2026-01-02T02:00:00+02:00"}, FIELDS, DAY),
        ({"metadata": {"date": "2026-01-02"}}, FIELDS, DAY),
        ({"info": {"when": "2026-01-02"}}, ("info.when",), DAY),
        ({"created_at": "yesterday", "date": "2026-01-02"}, FIELDS, DAY),
        ({"created_at": True}, FIELDS, None),
        ({"metadata": "2026-01-02"}, FIELDS, None),
        (None, FIELDS, None),
    ],
)
def test_a_time_is_the_first_one_at_any_of_the_places(payload, fields, when):
    assert timestamp(payload, fields) == when


@given(st.floats(0, 1), st.floats(0, 20_000), st.floats(0, 20_000))
def test_the_factor_never_rises_with_age_and_never_falls_below_what_the_weight_leaves(w, a, b):
    young, old = sorted((a, b))
    one, other = (recency_factor(timedelta(days=days), w, 0.01) for days in (young, old))

    assert 1 - w - 1e-9 <= other <= one <= 1 + 1e-9
