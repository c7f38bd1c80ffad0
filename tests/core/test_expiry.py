"""When a text expires, as people and agents say it."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.expiry import parse_expiry

NOW = datetime(2026, 11, 29, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("90 days", "2027-02-27T01:30:00Z"),
        ("in 2 weeks", "2026-12-13T01:30:00Z"),
        ("12h", "2026-11-29T13:30:00Z"),
        ("a month", "2026-12-30T01:30:00Z"),
        ("30 minutes", "2026-11-29T02:00:00Z"),
        ("1 second", "2026-11-29T01:30:01Z"),
        ("2026-12-31", "2027-01-01T00:00:00Z"),
        ("today", "2026-11-30T00:00:00Z"),
        ("2026-12", "2027-01-01T00:00:00Z"),
        ("2026-12-31T18:00:00+01:00", "2026-12-31T17:00:00Z"),
        ("999999 years", "3028-12-26T01:30:00Z"),
        ("friday", "2026-12-05T00:00:00Z"),
        ("next friday", "2026-12-05T00:00:00Z"),
        ("Sunday", "2026-11-30T00:00:00Z"),
        ("Dec 31", "2027-01-01T00:00:00Z"),
        ("24.12.", "2026-12-25T00:00:00Z"),
        ("Nov 28", "2027-11-29T00:00:00Z"),
        ("March", "2027-04-01T00:00:00Z"),
        ("November", "2026-12-01T00:00:00Z"),
        ("Two weeks", "2026-12-13T01:30:00Z"),
        ("the end of the month", "2026-12-01T00:00:00Z"),
        ("End of next month", "2027-01-01T00:00:00Z"),
        ("until the end of the year", "2027-01-01T00:00:00Z"),
        ("by end of March", "2027-04-01T00:00:00Z"),
        ("Never", ""),
    ],
)
def test_an_end_is_a_length_of_time_or_a_date_with_its_whole_day(said, end):
    assert parse_expiry(said, NOW) == end


@pytest.mark.parametrize(
    "said",
    [
        "soon",
        "90",
        "the end",
        "end of time",
        "2026-02-30",
        "2026-11-28",
        "0 days",
        "3 days ago",
        "last friday",
        "last May",
    ],
)
def test_what_is_no_time_or_past_is_refused(said):
    with pytest.raises(RequestError, match=r"^expires is "):
        parse_expiry(said, NOW)
