"""The dates of texts: where they are, a period of them, and the newest."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from mcp_server_qdrant.core.datatypes import PointId

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # engines know later ones, calendars none
# Where the texts of this server keep their dates, by indexed fields.
DATES = ("updated_at", "created_at", "metadata.date")


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
