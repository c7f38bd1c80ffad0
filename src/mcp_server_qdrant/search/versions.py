"""Shows changed texts as they were at the end of a period, and counts earlier versions."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from mcp_server_qdrant.core.context import to_local
from mcp_server_qdrant.core.datatypes import Document, Result
from mcp_server_qdrant.core.dates import Period, date_of
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import parse_time, place_of
from mcp_server_qdrant.core.writes import Version
from mcp_server_qdrant.qdrant.history import History
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.words.terms import Words

SECONDS = 5.0  # after which texts are shown as they are now


async def as_of(
    history: History, hits: Sequence[Hit], period: Period | None, words: Words | None = None
) -> list[Hit]:
    """The hits, with texts that were changed after the period as they were at its end.

    A search, which has `words`, finds these by the date of their first version. It leaves out those
    without a kept version in the period.
    """
    if period is None or period.until is None:
        return list(hits)
    when = period.until - timedelta(microseconds=1)
    day = to_local(when).date().isoformat()
    stood = {}
    with suppress(QdrantMcpError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            stood = await history.versions_at([hit.document for hit in hits], when)
    found = []
    for hit in hits:
        date, version = parse_time(hit.doc.get("date")), stood.get(place_of(hit.document))
        if version:
            document = _shown(version, words)
            date = date_of(document)
            hit = hit._replace(as_of=day, reading=partial(_same, document), parts=())  # noqa: PLW2901
        if words is None or date is None or _within(date, period):
            found.append(hit)
    return found


async def with_earlier(history: History, results: Sequence[Result]) -> list[Result]:
    """The results; changed texts get the number of earlier versions and the last change."""
    earlier = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            earlier = await history.count_earlier(one.document for one in results if not one.as_of)
    return [replace(one, earlier=earlier.get(place_of(one.document))) for one in results]


def _shown(version: Version, words: Words | None) -> Document:
    """A version as a document; for a long text its best part for the query, or the first."""
    part = version.parts[0]
    if words and len(version.parts) > 1:
        reader = words.reader
        part = max(version.parts, key=lambda one: words.share(one.text, reader(one.text)))
    return version.document._replace(
        text=part.text,
        section=part.section,
        sections=part.sections,
        chunk=0,
        chunks=1,
        last=None,
    )


def _same(document: Document) -> Document:
    return document


def _within(when: datetime, period: Period) -> bool:
    since, until = period
    return (since is None or when >= since) and (until is None or when < until)
