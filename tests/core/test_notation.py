"""How names, ids and times are written."""

import sys
import unicodedata
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_server_qdrant.core.dates import parse_period
from mcp_server_qdrant.core.notation import (
    date_paths,
    impossible_time,
    iso,
    name_fault,
    own_id,
    parse_time,
    point_id,
    short_id,
    shortened_path,
    visible,
    without_controls,
)

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
TIMES = {
    "2024-01-01": NEW_YEAR,
    "20240101": NEW_YEAR,
    "2024-01-01T02:00:00+02:00": NEW_YEAR,
    "2024-01-01T00:00:00Z": NEW_YEAR,
    "2024-01-01 02:00:00 +0200": NEW_YEAR,
    "9999-12-31T23:59:59Z": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    "0001-01-01": datetime(1, 1, 1, tzinfo=UTC),
    1_704_067_200: NEW_YEAR,
    1_704_067_200.5: NEW_YEAR.replace(microsecond=500_000),
    1_704_067_200_000.0: NEW_YEAR,
    -2_208_988_800_000: datetime(1900, 1, 1, tzinfo=UTC),
    date(2024, 1, 1): NEW_YEAR,
    datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))): NEW_YEAR,
}
IMPOSSIBLE = [
    "9999-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00+14:00",
    "0001-01-01 00:00:00.5+0001",
    "2024-02-30",
    "10000-01-01",
    "-0044-03-15",
    "2024-01-01T25:00",
    "2024-01-01T00:00:00+99:00",
    "2024-01-01 00:00:00 -99:00",
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-14))),
    float("nan"),
    float("inf"),
    -float("inf"),
    1e300,
    10**18,
    10**5000,
    -(10**5000),
    -(10**13) * 7,
    253_402_300_800_000,
    True,
    False,
]
NO_TIMES = ["", "yesterday", "May 2024", "2024-05", "2024-01-05 10:00 UTC", None, [], {}, b"2024"]


@pytest.mark.parametrize("value", TIMES, ids=str)
def test_a_time_is_read_in_utc(value):
    assert parse_time(value) == TIMES[value]
    assert parse_time(value).tzinfo is UTC
    assert not impossible_time(value)


@pytest.mark.parametrize("value", IMPOSSIBLE, ids=lambda value: type(value).__name__)
def test_a_time_that_no_calendar_has_is_none_and_told_apart(value):
    assert parse_time(value) is None
    assert impossible_time(value)


@pytest.mark.parametrize("value", NO_TIMES, ids=repr)
def test_what_is_no_time_at_all_is_not_taken_for_one(value):
    assert parse_time(value) is None
    assert not impossible_time(value)


zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    st.one_of(
        st.datetimes(timezones=zones),
        st.datetimes(timezones=zones).map(datetime.isoformat),
        st.dates(),
        st.floats(),
        st.integers(),
        st.booleans(),
        st.text(),
        st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}"),
    )
)
@example("\ud800")
@example(10**400)
def test_every_value_is_a_time_that_can_be_stored_or_none(value):
    when = parse_time(value)

    assert when is None or parse_time(iso(when)) == when.replace(microsecond=0)


NOW = datetime(2026, 11, 22, 11, tzinfo=UTC)
SPANS = {
    "2026": (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    "2026-10": (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)),
    " 2026-12 ": (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    "2024-02-29": (datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
    "2026-11-21T10:00:00+01:00": (
        datetime(2026, 11, 21, 9, tzinfo=UTC),
        datetime(2026, 11, 21, 9, 0, 1, tzinfo=UTC),
    ),
    "7d": (datetime(2026, 11, 15, 11, tzinfo=UTC),) * 2,
    "2W": (datetime(2026, 11, 8, 11, tzinfo=UTC),) * 2,
    "3 m": (datetime(2026, 8, 21, 11, tzinfo=UTC),) * 2,
    "1y": (datetime(2025, 11, 21, 11, tzinfo=UTC),) * 2,
    "3 days": (datetime(2026, 11, 19, 11, tzinfo=UTC),) * 2,
    "the last three days": (datetime(2026, 11, 19, 11, tzinfo=UTC),) * 2,
    "two weeks ago": (datetime(2026, 11, 8, 11, tzinfo=UTC),) * 2,
    "an hour ago": (datetime(2026, 11, 22, 10, tzinfo=UTC),) * 2,
    "2h": (datetime(2026, 11, 22, 9, tzinfo=UTC),) * 2,
    "a week ago": (datetime(2026, 11, 15, 11, tzinfo=UTC),) * 2,
    "Last 2 weeks": (datetime(2026, 11, 8, 11, tzinfo=UTC),) * 2,
    "today": (datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC)),
    "Yesterday": (datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC)),
    "this week": (datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC)),
    "last week": (datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC)),
    "last month": (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)),
    "this  month": (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)),
    "last year": (datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
}
NO_SPANS = [
    "",
    "soon",
    "me",
    "may be",
    "31",
    "1/2",
    "12/11",
    "30.2.2026",
    "last day",
    "7",
    "d",
    "2026-13",
    "2026-02-30",
    "9999",
    "0000-01",
]
NO_SPANS += ["99999999999d"]


def test_a_date_is_all_the_time_that_it_names():
    assert {text: parse_period(text, NOW) for text in SPANS} == SPANS


def test_what_names_no_time_has_no_span():
    assert [text for text in NO_SPANS if parse_period(text, NOW)] == []


def test_a_field_is_looked_for_in_the_metadata_too_unless_it_is_a_path():
    assert date_paths(["date", "info.when"]) == ["date", "metadata.date", "info.when"]


@pytest.mark.parametrize(
    ("path", "length", "shown"),
    [
        ("A > B > C", 9, "A > B > C"),
        ("Shed > Key > Spare > Nail", 20, "Shed > … > Nail"),
        ("Shed > Key > Spare > Nail", 24, "Shed > … > Spare > Nail"),
        ("The shed behind the house > Key", 20, "The shed… > Key"),
        ("Shed > The key behind the door", 20, "Shed > The key…"),
        ("The shed behind the house", 10, "The shed behind the house"),
    ],
)
def test_a_path_that_is_too_long_loses_its_middle(path, length, shown):
    assert shortened_path(path, length) == shown


@pytest.mark.parametrize(
    ("given", "own"),
    [("plan", True), ("my plan", True), ("7", False), ("6f1ca6a5-6d", False), ("x" * 61, False)],
)
def test_a_text_is_shown_by_its_callers_id_where_that_is_short_and_no_id_of_a_point(given, own):
    point = point_id("notes", given, 0)

    assert own_id("notes", point, given) == (given if own else short_id(point))
    assert own_id("others", point, given) == short_id(point)


# Signs before numbers and verses, which are seen.
ARABIC = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
OTHERS = "\u034f\u115f\u1160\u17b4\u180b\u3164\ufe00\ufe0f\uffa0\U000e0100\U000e01ef\u2028"


def test_whatever_nobody_sees_is_removed():
    codes = set(range(sys.maxunicode + 1)) - ARABIC
    unseen = [chr(one) for one in codes if unicodedata.category(chr(one)) in ("Cf", "Cc")]
    unseen = [*sorted(set(unseen) - set("\n\r\t")), *OTHERS]

    assert len(unseen) > 200
    assert [
        one for one in unseen if visible(f"a{one}b") != "ab" or without_controls(f"a{one}b") != "ab"
    ] == []
    assert [one for one in unseen if name_fault(f"a{one}") is None] == []
    assert visible({"a\u200b": ["b\xad\n\tc", 1, None]}) == {"a": ["b\n\tc", 1, None]}


@pytest.mark.parametrize(
    "text",
    [
        *("👩‍💻", "👨‍👩‍👧", "🏳️‍🌈", "🧑🏽‍🚀", "🧔🏻‍♂️", "❤️", "❤️‍🔥", "1️⃣", "™️", "☎︎", "🏴‍☠️"),
        *("می‌خواهم", "क्‍ष", "e\u0301", "ほげ", "\u3000", "\u0661\u066c\u0660"),
    ],
)
def test_what_an_emoji_or_a_word_needs_stays(text):
    assert visible(text) == without_controls(text) == text
    assert name_fault(text) is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("😀" + "".join(map(chr, range(0xE0100, 0xE0130))), "😀"),
        ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f"),
        ("a\ufe0f\u200db", "ab"),
        ("😀\u200dx\u200d😀", "😀x😀"),
        ("1\ufe0f2", "12"),
        ("م\u200c\u200cی", "می"),
    ],
)
def test_what_hides_behind_an_emoji_or_a_letter_goes(text, seen):
    assert visible(text) == seen


def test_an_id_with_what_nobody_sees_is_shown_as_that_of_its_point():
    hidden = "plan\U000e0041"

    assert own_id("notes", point_id("notes", hidden, 0), hidden) == short_id(
        point_id("notes", hidden, 0)
    )
