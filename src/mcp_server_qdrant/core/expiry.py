"""Expiry times of texts: parses them, and tells whether a text has expired.

An expired text is no longer found. It stays stored, so that it can be restored.
"""

import re
from datetime import datetime, timedelta

from mcp_server_qdrant.core.context import to_local
from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.dates import parse_duration, parse_period
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import iso, one_line, parse_time

NEVER = "never"
_LONGEST = timedelta(days=366 * 1000)
# A day, month or year ends with its last moment anyway; "the end of the month" is that of this one.
_END_OF = re.compile(
    r"(?:until |by )?(?:the )?end of (?:the )?(?=(week|month|quarter|year)$)?", re.IGNORECASE
)


def parse_expiry(text: str, now: datetime) -> str:
    """Parse an expiry time to ISO 8601; "" for `never`.

    A day, month or year stands for its end. A weekday, or a day or month without a year, is the
    next one. Raises RequestError for any other text and, since agents often mistake the year, for a
    time in the past.
    """
    said = " ".join(text.split())
    if said.lower() in (NEVER, ""):
        return ""
    if end := _END_OF.match(said):
        said = ("this " if end[1] else "") + said[end.end() :]
    after = parse_duration(said.lower().removeprefix("in ").removeprefix("after "))
    if after is not None:
        when: datetime | None = now + min(after, _LONGEST)
    elif ":" in said:
        when = parse_time(said)
    else:
        when = days[1] if (days := parse_period(said, now, coming=True)) else None
    if when is None:
        raise RequestError(
            f"expires is not a date: {one_line(said, 40)!r}. Use 2026-12-31, or a time from now: "
            f"90 days, 2 weeks, 1 year; or {NEVER}."
        )
    if when <= now:
        raise RequestError(
            f"expires is in the past: {one_line(said, 40)!r}; today is {to_local(now).date()}. "
            "Use a later date, or qdrant-delete."
        )
    return iso(when)


def is_expired(document: Document, now: datetime) -> bool:
    """True if the text has expired."""
    when = parse_time(document.expires)
    return when is not None and when <= now
