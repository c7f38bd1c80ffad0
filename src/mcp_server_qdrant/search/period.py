"""The dates of a request."""

from datetime import datetime

from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import line, span


def period_of(request: SearchRequest, now: datetime) -> Period | None:
    """The period that a request names; None where it names none. Raises RequestError."""
    since, until = _span("since", request.since, now), _span("until", request.until, now)
    if since is None and until is None:
        return None
    period = Period(since and since[0], until and until[1])
    if period.since and period.until and period.since >= period.until:
        raise RequestError("since is later than until: exchange them.")
    return period


def _span(name: str, text: str | None, now: datetime) -> tuple[datetime, datetime] | None:
    if not text or not text.strip():
        return None
    if found := span(text, now):
        return found
    raise RequestError(
        f"{name} is no date: {line(text, 40)!r}. Use 2026-10-31, 2026-10, yesterday, last "
        "week, or 3 days, 2w, 3m, 1y for the time so long ago."
    )
