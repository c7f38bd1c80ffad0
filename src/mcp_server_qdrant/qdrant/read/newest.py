"""The newest texts of a collection, for who asks without a query."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from heapq import nlargest

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import PointId, Target
from mcp_server_qdrant.core.dates import EARLIEST, LATEST, Listed, Period, age_from
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import moment, time_of
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.engine import Engine, Point
from mcp_server_qdrant.qdrant.filters import bare, both, conditions, dated
from mcp_server_qdrant.qdrant.paging import pages
from mcp_server_qdrant.qdrant.payload import CHUNK_KEY, FILE_KEY, UPDATED_KEY

SCANNED = 2_000  # points of a collection that has no index of dates
PAGE = 500
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = models.Filter(must_not=[models.FieldCondition(key=CHUNK_KEY, range=models.Range(gte=1))])


class Newest:
    """Lists what was updated last. `dates` are the paths where a text may have its date.

    A text of several parts is listed once; each by itself where a filter asks for words of theirs.
    """

    def __init__(self, client: Engine, dates: Sequence[str], content_fields: Sequence[str]) -> None:
        self._client = client
        self._dates = tuple(dates)
        self._paths = [path.split(".") for path in dates]
        self._shown = [*dates, CHUNK_KEY, FILE_KEY, "doc.dated"]
        self._content = frozenset(content_fields)

    async def listed(
        self, target: Target, where: models.Filter | None, period: Period | None, limit: int
    ) -> Listed:
        """The `limit` newest points that meet the filter and have a date of the period."""
        condition = dated(where, period, target.dates or self._dates)
        if target.dates:
            if not self._asks_for_words(where):
                condition = both(_FIRST, condition)
            return await self._ordered(target, condition, limit)
        return await self._scanned(target.collection, condition, limit, self._asks_for_words(where))

    async def _ordered(self, target: Target, condition: models.Filter | None, limit: int) -> Listed:
        """In the order of the indexes; those without a date of one behind the others."""
        name, left = target.collection, condition
        total = (await self._client.count(name, count_filter=condition)).count
        records: list[Point] = []
        for key in (*target.dates, None):
            if len(records) >= min(limit, total):
                break
            found, _ = await self._client.scroll(
                name,
                left,
                limit=limit - len(records),
                order_by=_newest_by(key) if key else None,
                with_payload=self._shown,
            )
            records += found
            if key is not None:
                with_it = models.FieldCondition(key=key, range=models.DatetimeRange(lte=LATEST))
                left = both(models.Filter(must_not=[with_it]), left)
        return Listed(self._timed(records), total)

    async def _scanned(
        self,
        name: str,
        condition: models.Filter | None,
        limit: int,
        parts: bool,  # noqa: FBT001
    ) -> Listed:
        """By reading dates point by point, of so many points at most."""
        found: list[tuple[PointId, datetime | None]] = []
        read, complete = 0, True
        async for page in pages(self._client, name, PAGE, condition, with_payload=self._shown):
            found += self._timed(record for record in page if parts or not _further(record))
            read += len(page)
            if read >= SCANNED:
                complete = len(page) < PAGE
                break
        newest = nlargest(limit, found, key=lambda point: point[1] or EARLIEST)
        return Listed(newest, len(found), complete)

    def _timed(self, records: Iterable[Point]) -> list[tuple[PointId, datetime | None]]:
        """Each point once: a field may hold several dates.

        A text without a date is behind all others, by the time of its file.
        """
        found: dict[PointId, tuple[PointId, datetime | None]] = {}
        for record in records:
            when = age_from(record.payload, self._paths)
            file = None if when else time_of(record.payload, self._paths)
            found[record.id] = record.id, when or (file and EARLIEST + (file - EPOCH))
        return list(found.values())

    def _asks_for_words(self, where: models.Filter | None) -> bool:
        """True for a filter on the text, which further parts may meet and the first not."""
        asked = conditions(plain(where)) if where is not None else ()
        return any(inside + bare(one.get("key", "")) in self._content for inside, one in asked)


def _further(record: Point) -> bool:
    doc = (record.payload or {}).get("doc")
    return isinstance(doc, dict) and bool(doc.get("chunk"))


def _newest_by(key: str) -> models.OrderBy:
    return models.OrderBy(key=key, direction=models.Direction.DESC, start_from=LATEST)


async def last_update(client: Engine, collection: str) -> str | None:
    """When the newest point of a collection with an index of that date was written."""
    newest = _newest_by(UPDATED_KEY)
    try:
        records, _ = await client.scroll(
            collection, limit=1, order_by=newest, with_payload=[UPDATED_KEY]
        )
    except QdrantMcpError:
        return None
    found = (records[0].payload or {}).get(UPDATED_KEY) if records else None
    values = found if isinstance(found, list) else [found]
    times = {when: str(value) for value in values if (when := moment(value))}
    return times[max(times)] if times else None
