"""The dates of texts: where they are, a period of them, and the newest."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mcp_server_qdrant.core.datatypes import Document, PointId
from mcp_server_qdrant.core.notation import moment, time_of

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # engines know later ones, calendars none
DATE_KEY = "doc.date"  # the date of a text of this server
UNDATED = "none"  # its value for a text that has none
# Where texts keep their dates, by indexed fields. Without the first, any of the others counts.
DATES = (DATE_KEY, "updated_at", "created_at", "metadata.date")


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
