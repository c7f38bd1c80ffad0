"""The dates of texts: where they are, a period of them, and the newest."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mcp_server_qdrant.core.datatypes import Document, PointId
from mcp_server_qdrant.core.notation import moment, time_of

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # engines know later ones, calendars none
DATE_KEY = "doc.date"  # the date of a text of this server
UNDATED = "none"  # its value for a text that has none
# Where texts keep their dates, by indexed fields. Without the first, any of the others counts.
DATES = (DATE_KEY, "updated_at", "created_at", "metadata.date")

_AGO = re.compile(r"(?:(?:last|past) )?(\d+|an?) ?(?:([dwmy])|(day|week|month|year)s?)(?: ago)?")
_NAMED = re.compile(r"(last|past|this) (week|month|year)")
_DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}  # at least
_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
A_DAY, A_SECOND = timedelta(days=1), timedelta(seconds=1)


class Period(NamedTuple):
    """From a moment on, and until before another one; None: without that end."""

    since: datetime | None
    until: datetime | None


class Listed(NamedTuple):
    """The newest points of a collection, with their times; those without a time are the last.

    `total` texts match. Where it is not `complete`, only some were looked at.
    """

    points: Sequence[tuple[PointId, datetime | None]]
    total: int
    complete: bool = True


def own_date(text: Document) -> datetime | None:
    """The date that a text gives: `metadata.date`, or the `created_at` that came with it."""
    said = [(text.metadata or {}).get(key) for key in ("date", "created_at")]
    given = [one for one in said if isinstance(one, str)]
    times = map(moment, [*given, text.created_at if text.dated else None])
    return next((when for when in times if when), None)


def date_of(text: Document) -> datetime | None:
    """The date of a text: its own, or else when it was stored or corrected.

    None for a file that gives none: the time of the file is not that of its text.
    """
    if (own := own_date(text)) or text.file is not None:
        return own
    first, second = text.updated_at, text.created_at
    if text.document is None:  # of another tool, which may have been told
        first, second = second, first
    return moment(first) or moment(second)


def age_from(payload: Any, paths: Iterable[Sequence[str]]) -> datetime | None:
    """The time that a payload is aged by, at the first of the paths that has one.

    None for a file that gives no date.
    """
    doc = payload.get("doc") if isinstance(payload, dict) else None
    if isinstance(doc, dict):
        said = doc.get("date") or doc.get("dated") or (None if "file" in doc else True)
        if said in (None, UNDATED):
            return None
    return time_of(payload, paths)


def span(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The first moment of a year, a month, a day or a second, and the first one after it.

    `7d` and `7 days` are the moment so long ago; `today`, `yesterday`, `last week` and `this month`
    begin at midnight. None where the text is nothing of these.
    """
    text = " ".join(text.split())
    try:
        if ago := _AGO.fullmatch(text.lower()):
            number = int(ago[1]) if ago[1].isdigit() else 1
            when = now - timedelta(days=number * _DAYS[(ago[2] or ago[3])[0]])
            return when, when
        if days := _in_words(text.lower(), now):
            return days
        if named := _MONTH.fullmatch(text):
            year, month = int(named[1]), int(named[2] or 1)
            years, months = divmod(month - 1 + (1 if named[2] else 12), 12)
            first = datetime(year, month, 1, tzinfo=UTC)
            return first, first.replace(year=year + years, month=months + 1)
        if (start := moment(text)) is not None:
            return start, start + (A_DAY if _DAY.fullmatch(text) else A_SECOND)
    except (ValueError, OverflowError):
        pass
    return None


def _in_words(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The days from midnight to midnight, in UTC."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        first = today - A_DAY * (text == "yesterday")
        return first, first + A_DAY
    if not (found := _NAMED.fullmatch(text)):
        return None
    before = found[1] != "this"
    if found[2] == "week":
        first = today - A_DAY * (today.weekday() + 7 * before)
        return first, first + 7 * A_DAY
    first = today.replace(day=1) if found[2] == "month" else today.replace(month=1, day=1)
    if before:
        first = (first - A_DAY).replace(day=1)
        first = first if found[2] == "month" else first.replace(month=1)
    return span(first.strftime("%Y-%m" if found[2] == "month" else "%Y"), now)
