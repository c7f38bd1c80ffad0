"""The date of a text is what it says of itself."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mcp_server_qdrant.core.context import use_zone
from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.dates import (
    calendar_dates,
    date_of,
    parse_period,
    parse_versioned_id,
    time_to_index,
)
from mcp_server_qdrant.core.errors import RequestError

STORED = {"created_at": "2026-04-01T00:00:00Z", "updated_at": "2026-05-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ({"metadata": {"date": "2023-05-08"}}, "2023-05-08"),
        ({"metadata": {"created_at": "2023-05-08T10:00Z"}}, "2023-05-08"),
        ({"metadata": {"created_at": "2023-05-09", "date": "2023-05-08"}}, "2023-05-08"),
        ({"dated": True}, "2026-04-01"),
        ({"dated": True, "file": {}}, "2026-04-01"),
        ({}, "2026-05-01"),  # a note: when it was stored or corrected
        ({"metadata": {"date": 2023}}, "2026-05-01"),
        ({"document": None}, "2026-04-01"),  # another tool's, which may have been told
        ({"file": {}}, None),
    ],
)
def test_it_is_the_texts_own_and_a_file_without_one_has_none(said, day):
    text = Document(**{"id": 1, "collection": "c", "text": "t", "document": "d"} | STORED | said)
    when = date_of(text)

    assert (when and when.date().isoformat()) == day


# A Sunday; in Berlin it is Monday already.
NOW = datetime(2026, 11, 29, 23, 30, tzinfo=UTC)
BERLIN, LA = ZoneInfo("Europe/Berlin"), ZoneInfo("America/Los_Angeles")
WRITTEN = {
    "2026-11-28": [
        *("28.11.2026", "28/11/2026", "11/28/2026", "2026/11/28", "20261128", "28.11.", "sat"),
        *("28 November", "Nov. 28, 2026", "28th of November 2026", "on Saturday"),
    ],
    "2026-05": ["May 2026", "in May", "may", "5/2026"],
    "2025-12": ["December", "dec 2025"],
    "2026-11-29": ["today", "sunday", "this Sunday"],
    "2026-11-23": ["monday", "last monday", "since Monday"],
    "2026-11-22": ["last sunday"],
    "2026-11-27": ["the day before yesterday", "friday"],
    "2026-11-30": ["tomorrow", "next monday"],
    "2026-10": ["last month", "previous month"],
}


@pytest.fixture
def zone():
    """Sets the time zone until the test ends."""
    yield use_zone
    use_zone(None)


def test_a_day_or_month_is_understood_as_people_write_it(zone):
    zone(UTC)
    for iso, others in WRITTEN.items():
        assert {text: parse_period(text, NOW) for text in others} == dict.fromkeys(
            others, parse_period(iso, NOW)
        )


def test_a_weekday_that_is_still_to_come_this_week_is_that_of_the_last(zone):
    zone(UTC)
    wednesday = datetime(2026, 11, 25, 12, tzinfo=UTC)

    assert parse_period("friday", wednesday) == parse_period("2026-11-20", NOW)
    assert parse_period("this friday", wednesday) == parse_period("2026-11-27", NOW)


@pytest.mark.parametrize("text", ["03/04/2026", "4-3-2026", "id@03/04/2026"])
def test_what_may_be_two_days_is_refused_with_both(text):
    with pytest.raises(RequestError, match=r"2026-0\d-0\d or 2026-0\d-0\d: write the one"):
        parse_versioned_id(text, NOW) if "@" in text else parse_period(text, NOW)


def test_days_are_those_of_the_time_zone_also_where_the_clocks_change(zone):
    zone(BERLIN)

    assert parse_period("today", NOW)[0] == datetime(2026, 11, 29, 23, tzinfo=UTC)
    assert parse_period("monday", NOW)[0] == datetime(2026, 11, 29, 23, tzinfo=UTC)
    short = parse_period("29.3.2026", NOW)
    assert short[1] - short[0] == timedelta(hours=23)
    assert parse_period("yesterday 14:00", NOW)[0] == datetime(2026, 11, 29, 13, tzinfo=UTC)
    end = datetime(2026, 11, 28, 22, 59, 59, 999999, tzinfo=UTC)
    assert parse_versioned_id("plan@2026-11-28", NOW) == ("plan", end)
    assert parse_versioned_id("ada@example.com", NOW) is None


def test_a_mere_day_is_found_as_that_day_in_another_time_zone(zone):
    zone(BERLIN)
    found = time_to_index(
        date_of(Document(id=1, collection="c", text="", metadata={"date": "28.11.2026"}))
    )
    zone(LA)
    first, after = parse_period("2026-11-28", NOW)

    assert first <= found < after


def test_dates_that_pass_away_are_kept_as_days_of_the_calendar(zone):
    zone(BERLIN)
    said = {"date": "yesterday", "created_at": "May 2026", "due": "today"}

    assert calendar_dates(said, NOW) == {
        "date": "2026-11-29",
        "created_at": "May 2026",
        "due": "today",
    }
    assert calendar_dates(None, NOW) is None
