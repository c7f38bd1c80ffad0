"""The dates of texts: where they are stored, how people write them, and periods."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from mcp_server_qdrant.core.context import from_local_time, to_local
from mcp_server_qdrant.core.datatypes import Document, PointId
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import one_line, parse_time, time_of

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # the latest that `datetime` can hold
DATE_KEY = "doc.date"  # the date of a text of this server
UNDATED = "none"  # its value for a text without a date
# The indexed date fields. If the first one is missing, any of the others counts.
DATES = (DATE_KEY, "updated_at", "created_at", "metadata.date")

_NUMBERS = ("a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DURATION = re.compile(
    rf"(\d{{1,6}}|an|one|{'|'.join(_NUMBERS)}) ?"
    r"(min|[shdwmy]|(?:second|minute|hour|day|week|month|year)s?)"
)
_AGO = re.compile(r"(?:the )?(?:(?:last|past) )?(.+?)(?: ago)?")
_UNITS = {  # the longest month and year
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "m": timedelta(days=31),
    "y": timedelta(days=366),
}
_NAMED = re.compile(r"(last|past|previous|this|current|next) (week|month|quarter|year)")
_NEAR = {"today": 0, "now": 0, "yesterday": -1, "day before yesterday": -2, "tomorrow": 1}
_STEPS = {"this": 0, "current": 0, "next": 1}
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FILLING = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b|,|\.(?= )|\b(?:on|in|since|of|the|from|at) ")
_ISO = re.compile(r"\d{8}|\d{4}-?w\d\d(?:-?\d)?")
_CLOCK = re.compile(r"(.+) (\d\d?):(\d\d)")
A_DAY, A_SECOND = timedelta(days=1), timedelta(seconds=1)

Wall = tuple[datetime, datetime]  # start and end (exclusive), as local wall-clock times


class Period(NamedTuple):
    """A period from `since` to `until` (exclusive); None: open-ended."""

    since: datetime | None
    until: datetime | None


class NewestPoints(NamedTuple):
    """The newest points of a collection with their times; those without a time come last.

    `total` is the number of matching texts; if not `complete`, only some were read.
    """

    points: Sequence[tuple[PointId, datetime | None]]
    total: int
    complete: bool = True


def own_date(text: Document) -> datetime | None:
    """The date given with a text: `metadata.date`, or a `created_at` from its caller or file."""
    said = [(text.metadata or {}).get(key) for key in ("date", "created_at")]
    given = [one for one in said if isinstance(one, str)]
    times = map(parse_date, [*given, text.created_at if text.dated else None])
    return next((when for when in times if when), None)


def parse_date(value: Any) -> datetime | None:
    """Like `parse_time`, but also takes a day, month or year as people write it; its start."""
    if (when := parse_time(value)) or not isinstance(value, str):
        return when
    with suppress(RequestError, ValueError, OverflowError):
        if wall := _calendar(value):
            return from_local_time(wall[0])
    return None


def time_to_index(when: datetime) -> datetime:
    """The time to index for a date: noon for a date without a time.

    Noon is on the same day in all time zones up to twelve hours away.
    """
    wall = to_local(when).replace(tzinfo=None)
    return from_local_time(wall + A_DAY / 2) if wall == _midnight(wall) else when


def calendar_dates(metadata: dict[str, Any] | None, now: datetime) -> dict[str, Any] | None:
    """The metadata with relative dates such as `yesterday` replaced by calendar days.

    Raises RequestError for an ambiguous day.
    """
    made = dict(metadata or {})
    for key in made.keys() & {"date", "created_at"}:
        said = made[key]
        if isinstance(said, str) and not parse_date(said) and (found := parse_period(said, now)):
            made[key] = to_local(found[0]).date().isoformat()
    return metadata and made


def parse_versioned_id(text: str, now: datetime) -> tuple[str, datetime] | None:
    """Parse `ID@TIME` into id and time (the end of a day or month); None if it is not that."""
    own, _, said = text.rpartition("@")
    if own and (found := parse_period(said, now)):
        exact = found[1] - found[0] <= A_SECOND
        return own, found[0] if exact else found[1] - timedelta(microseconds=1)
    return None


def date_of(text: Document) -> datetime | None:
    """The date of a text: the given one, or else when it was stored or corrected.

    None for a file without a date: the file's time is not that of its text.
    """
    if (own := own_date(text)) or text.file is not None:
        return own
    first, second = text.updated_at, text.created_at
    if text.document is None:  # another tool's `created_at` may be a given date
        first, second = second, first
    return parse_time(first) or parse_time(second)


def changed_at(text: Document) -> datetime | None:
    """When a text of this server was changed; None if that was within a second of storing it.

    None for texts of files.
    """
    if text.file is not None or text.document is None:
        return None
    when, first = parse_time(text.updated_at), parse_time(text.created_at)
    return None if when and first and when - first < A_SECOND else when


def age_from(payload: Any, paths: Iterable[Sequence[str]]) -> datetime | None:
    """The time from which a text's age is computed: that at the first path that has one.

    None for a file without a date.
    """
    doc = payload.get("doc") if isinstance(payload, dict) else None
    if isinstance(doc, dict):
        said = doc.get("date") or doc.get("dated") or (None if "file" in doc else True)
        if said in (None, UNDATED):
            return None
    return time_of(payload, paths)


def parse_duration(text: str) -> timedelta | None:
    """A length of time: `90 days`, `two weeks`, `a year`, `12h`; None for any other text."""
    if not (found := _DURATION.fullmatch(" ".join(text.lower().split()))):
        return None
    number = int(found[1]) if found[1].isdigit() else 1
    number = _NUMBERS.index(found[1]) + 1 if found[1] in _NUMBERS else number
    return number * _UNITS["min" if found[2].startswith("min") else found[2][0]]


def parse_period(
    text: str, now: datetime, *, coming: bool = False
) -> tuple[datetime, datetime] | None:
    """Start and end (exclusive) of the year, month, day or second that a text names.

    Days are those of the person's time zone. `7d` and `7 days` give the moment that long ago. A
    day or month without a year (`monday`, `May`) is the latest one, or the `coming` one. None if
    the text is no date. Raises RequestError for an ambiguous day.
    """
    text, wall = " ".join(text.split()), to_local(now).replace(tzinfo=None)
    try:
        if (ago := _AGO.fullmatch(text.lower())) and (length := parse_duration(ago[1])) is not None:
            return now - length, now - length
        if days := _calendar(text, wall, coming=coming):
            return from_local_time(days[0]), from_local_time(days[1])
        if exact := parse_time(text):
            return exact, exact + A_SECOND
        if (clock := _CLOCK.fullmatch(text)) and (days := _calendar(clock[1], wall)):
            when = from_local_time(days[0].replace(hour=int(clock[2]), minute=int(clock[3])))
            return when, when + timedelta(minutes=1)
    except (ValueError, OverflowError):
        pass
    return None


@lru_cache(4096)  # a search reads the same dates for several steps
def _calendar(text: str, now: datetime | None = None, *, coming: bool = False) -> Wall | None:
    """A day, week, month, quarter or year; without `now`, no relative ones.

    A day or month without a year is the latest one, or the `coming` one, which may be the present.

    Raises ValueError for a date that does not exist.
    """
    said = " ".join(_FILLING.sub(" ", f"{text.lower()} ").split())
    if _ISO.fullmatch(said):
        week = "w" in said and len(said) < 9
        return _days(datetime.fromisoformat(said.upper()), 7 if week else 1)
    if now and (found := _from_now(said, _midnight(now), coming=coming)):
        return found
    year, month, day = _in_numbers(said) or _in_words(said.removeprefix("last "))
    if year and not month:
        return _months(year, 1, 12)
    if not month or not (year or now):
        return None
    if not year and now:
        coming, this = coming and not said.startswith("last "), (now.month, now.day)
        over = (month, day or 31) < this if coming else (month, day or 1) <= this
        year = now.year + over - (not coming)
    return _days(datetime(year, month, day)) if day else _months(year, month)


def _in_numbers(said: str) -> tuple[int, int, int] | None:
    """Year, month and day (0 if absent) of 2026-11-28, 28.11.2026, 11/28/2026 or 11/2026."""
    parts = re.split(r"[-./]", said)
    if not all(map(str.isdecimal, parts)) or not 4 <= len(said) <= 10 or said[:4] == "0000":
        return None
    numbers = [int(one) for one in parts]
    if len(parts[0]) == 4:
        year, month, day = [*numbers, 0, 0][:3]
        return year, month, day
    dots, year = "." in said, 0
    if len(parts[-1]) == 4 or len(parts) == 3:
        year = numbers.pop() + 2000 * (len(parts[-1]) == 2)
    if not year and not dots:
        return None
    one, two = numbers if len(numbers) == 2 else (0, numbers[0])
    if one and not dots and max(one, two) <= 12 and one != two:
        raise RequestError(
            f"{one_line(said)} may be {year}-{two:02}-{one:02} or {year}-{one:02}-{two:02}: "
            "write the one that you mean."
        )
    return (year, one, two) if two > 12 and not dots else (year, two, one)


def _in_words(said: str) -> tuple[int, int, int]:
    """Year, month and day (0 if absent) of words such as `28 nov 2026`."""
    year = month = day = 0
    for word in said.split():
        number = int(word) if word.isdecimal() else 0
        if number > 999 and not year:
            year = number
        elif 0 < number <= 31 and not day:
            day = number
        elif month or not (month := _place(word, MONTHS)):
            return 0, 0, 0
    return year, month, day


def _from_now(said: str, today: datetime, *, coming: bool) -> Wall | None:
    """A day, week, month, quarter or year relative to today."""
    if said in _NEAR:
        return _days(today + A_DAY * _NEAR[said])
    if found := _NAMED.fullmatch(said):
        step = _STEPS.get(found[1], -1)
        if found[2] == "week":
            return _days(today + A_DAY * (7 * step - today.weekday()), 7)
        count = {"month": 1, "quarter": 3, "year": 12}[found[2]]
        number = (today.year * 12 + today.month - 1) // count * count + count * step
        return _months(number // 12, number % 12 + 1, count)
    which, _, named = said.rpartition(" ")
    if which not in ("", "last", "past", *_STEPS) or not (place := _place(named, WEEKDAYS)):
        return None
    ahead = place - 1 - today.weekday()  # within this week
    if which in _STEPS:
        return _days(today + A_DAY * (ahead + 7 * _STEPS[which]))
    if coming and not which:
        return _days(today + A_DAY * (ahead % 7))
    return _days(today + A_DAY * (ahead - 7 * (ahead > 0 or (ahead == 0 and which != ""))))


def _place(word: str, names: Sequence[str]) -> int:
    """The number, from 1, of the name that begins with this word; 0 for none."""
    found = (n for n, name in enumerate(names, 1) if len(word) > 2 and name.startswith(word))
    return next(found, 0)


def _midnight(when: datetime) -> datetime:
    return when.replace(hour=0, minute=0, second=0, microsecond=0)


def _days(first: datetime, count: int = 1) -> Wall:
    return first, first + A_DAY * count


def _months(year: int, month: int, count: int = 1) -> Wall:
    years, months = divmod(month - 1 + count, 12)
    return datetime(year, month, 1), datetime(year + years, months + 1, 1)
