"""The newest texts of a collection, for a search without a query."""

import math
import re
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.context import seconds_left
from mcp_server_qdrant.core.datatypes import PointId, Target
from mcp_server_qdrant.core.dates import EARLIEST, LATEST, NewestPoints, Period, age_from
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.forms import comparable
from mcp_server_qdrant.core.notation import parse_time, time_of
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.engine import Engine, Point
from mcp_server_qdrant.qdrant.filters import (
    bare_path,
    both,
    conditions,
    exclude_expired,
    restrict_to_period,
)
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.payload import CHUNK_KEY, FILE_KEY, UPDATED_KEY, title_of
from mcp_server_qdrant.qdrant.texts import keys_of, paths_of, text_at

SCANNED = 2_000  # points read of a collection without a date index
MOST_READ = 100_000  # points whose text is searched for phrases
SPARE_SECONDS = 1.0  # of a search's time, left for its other work
PAGE = 500
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = models.Filter(must_not=[models.FieldCondition(key=CHUNK_KEY, range=models.Range(gte=1))])


class Newest:
    """Lists the texts with the latest date or change. `dates` are the payload paths of dates.

    A text of several parts is listed once, unless the filter matches words: then each part is.
    """

    def __init__(
        self,
        client: Engine,
        dates: Sequence[str],
        content_fields: Sequence[str],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._now = now
        self._dates = tuple(dates)
        self._paths = [path.split(".") for path in dates]
        self._shown = [*dates, CHUNK_KEY, FILE_KEY, "doc.dated"]
        self._content = content_fields

    async def list_newest(
        self,
        target: Target,
        where: models.Filter | None,
        period: Period | None,
        limit: int,
        phrases: Sequence[re.Pattern[str]] = (),
    ) -> NewestPoints:
        """The `limit` newest points that match the filter, the period and all `phrases`.

        A dated text also matches the period by its last change.
        """
        content = paths_of(self._content, target.collection)
        parts = bool(phrases) or _asks_for_words(where, content)
        condition = restrict_to_period(where, period, target.dates or self._dates, changed=True)
        condition = self._live(target, condition)
        if not target.dates or phrases:
            return await self._scan(target.collection, condition, limit, parts, phrases)
        return await self._read_ordered(
            target, condition if parts else both(_FIRST, condition), limit
        )

    async def count_undated(self, target: Target, where: models.Filter | None) -> int:
        """The number of matching texts without any date."""
        some = restrict_to_period(None, Period(None, LATEST), target.dates or self._dates)
        without = both(models.Filter(must_not=[some, *(_FIRST.must_not or ())]), where)
        without = self._live(target, without)
        return int((await self._client.count(target.collection, count_filter=without)).count)

    def _live(self, target: Target, where: Any) -> Any:
        """The filter, restricted to unexpired texts if some may expire."""
        return exclude_expired(where, self._now()) if target.expiring else where

    async def _read_ordered(
        self, target: Target, condition: models.Filter | None, limit: int
    ) -> NewestPoints:
        """List by the date indexes, one after the other; points without the date come later."""
        name, left = target.collection, condition
        total = (await self._client.count(name, count_filter=condition)).count
        records: list[Point] = []

        async def read(where: models.Filter | None, most: int, key: str | None) -> None:
            found, _ = await self._client.scroll(
                name,
                where,
                limit=most,
                order_by=_newest_by(key) if key else None,
                with_payload=self._shown,
            )
            records.extend(found)

        for key in (*target.dates, None):
            if len(records) >= min(limit, total):
                break
            await read(left, limit - len(records), key)
            if key is not None:
                with_it = models.FieldCondition(key=key, range=models.DatetimeRange(lte=LATEST))
                left = both(models.Filter(must_not=[with_it]), left)
        if UPDATED_KEY in target.dates and total > limit:  # recently changed texts may be missing
            await read(condition, limit, UPDATED_KEY)
        return NewestPoints(self._with_times(records), total)

    async def _scan(
        self,
        name: str,
        condition: models.Filter | None,
        limit: int,
        parts: bool,  # noqa: FBT001
        phrases: Sequence[re.Pattern[str]],
    ) -> NewestPoints:
        """List by scanning a limited number of points."""
        found: list[tuple[PointId, datetime | None]] = []
        read, complete, most = 0, True, MOST_READ if phrases else SCANNED
        content, shown = paths_of(self._content, name), self._shown
        if phrases:
            shown = [*shown, *keys_of(self._content, name), "title", "name", "metadata"]
        async for page in pages(self._client, name, PAGE, condition, with_payload=shown):
            some = [one for one in page if parts or not _is_further(one)]
            found += self._with_times(one for one in some if _has_phrases(phrases, one, content))
            read += len(page)
            if read >= most or (seconds_left() or math.inf) < SPARE_SECONDS:
                complete = len(page) < PAGE
                break
        newest = nlargest(limit, found, key=lambda point: point[1] or EARLIEST)
        return NewestPoints(newest, len(found), complete)

    def _with_times(self, records: Iterable[Point]) -> list[tuple[PointId, datetime | None]]:
        """(id, time) of each point, without duplicates: a field may hold several dates.

        A dated text counts by its last change. Undated texts come last, by the time of their file.
        """
        found: dict[PointId, tuple[PointId, datetime | None]] = {}
        for record in records:
            when = age_from(record.payload, self._paths)
            payload = record.payload or {}
            doc = payload.get("doc")
            if when and isinstance(doc, dict) and "file" not in doc:
                when = max(when, parse_time(payload.get(UPDATED_KEY)) or when)
            file = None if when else time_of(record.payload, self._paths)
            found[record.id] = record.id, when or (file and EARLIEST + (file - EPOCH))
        return list(found.values())


def _asks_for_words(where: models.Filter | None, content: Container[str]) -> bool:
    """True for a filter on the text, which a further part may match and the first part not."""
    asked = conditions(plain(where)) if where is not None else ()
    return any(inside + bare_path(one.get("key", "")) in content for inside, one in asked)


def _has_phrases(phrases: Sequence[re.Pattern[str]], record: Point, content: Sequence[str]) -> bool:
    """Whether all phrases are in the text or the title of a point."""
    found = text_at(record.payload, content)
    text = comparable(f"{found[1] if found else ''}\n{title_of(record.payload) or ''}")
    return all(phrase.search(text) for phrase in phrases)


def _is_further(record: Point) -> bool:
    doc = (record.payload or {}).get("doc")
    return isinstance(doc, dict) and bool(doc.get("chunk"))


def _newest_by(key: str) -> models.OrderBy:
    return models.OrderBy(key=key, direction=models.Direction.DESC, start_from=LATEST)


async def last_update(client: Engine, collection: str) -> str | None:
    """When the newest point of a collection with an index of that date was written."""
    records: list[Point] = []
    with suppress(QdrantMcpError):
        newest, shown = _newest_by(UPDATED_KEY), [UPDATED_KEY]
        records, _ = await client.scroll(collection, limit=1, order_by=newest, with_payload=shown)
    found = (records[0].payload or {}).get(UPDATED_KEY) if records else None
    values = found if isinstance(found, list) else [found]
    times = {when: str(value) for value in values if (when := parse_time(value))}
    return times[max(times)] if times else None
