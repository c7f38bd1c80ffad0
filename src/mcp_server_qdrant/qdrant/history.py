"""Earlier versions of texts: what a caller replaced or deleted, kept for a time.

Each is a point without a vector, with all parts of its text, in a collection that nothing else
reads: `core.notation.visible_in` hides it. So every server of an engine knows them, and a tenant's
client sees the tenant's own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain, islice
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.context import speaker
from mcp_server_qdrant.core.datatypes import SPARSE_NAME, Document
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.notation import (
    HISTORY,
    as_point_id,
    at_time,
    every,
    own_id,
    part_of,
    point_id,
    short_id,
)
from mcp_server_qdrant.core.writes import LISTED, Kept, Version
from mcp_server_qdrant.qdrant.engine import Engine, Point
from mcp_server_qdrant.qdrant.filters import among, equal
from mcp_server_qdrant.qdrant.payload import document_of, stored_payload
from mcp_server_qdrant.qdrant.read.lookup import joined
from mcp_server_qdrant.qdrant.write.points import DATE_INDEX, Points, create

MOST = 10_000  # versions, of a tenant where these are apart
MOST_BYTES = 256 << 20  # of their texts
TENDED = 500  # versions that are kept between two looks at the limits; fewer of long texts
DAY = timedelta(days=1)
MOST_SHOWN = 35  # characters of an id, before the time
BEGINNING = 200  # characters
PAGE = 500
KEY, PARTS = "history", "parts"  # of the payload
IDS, COLLECTION, UNTIL = f"{KEY}.ids", f"{KEY}.collection", f"{KEY}.until"
NUMBER, BYTES = f"{KEY}.number", f"{KEY}.bytes"
INDEXES = {
    **dict.fromkeys((IDS, COLLECTION), models.PayloadSchemaType.KEYWORD),
    UNTIL: DATE_INDEX,
    NUMBER: models.PayloadSchemaType.INTEGER,
}


class History:
    """The versions of the last `days`; 0 keeps none.

    `client` and `points` are those that write, `visible` tells which collections may be named.
    `indexes` are made beside its own.
    """

    def __init__(
        self,
        client: Engine,
        points: Points,
        days: int,
        visible: Callable[[str], bool],
        indexes: Mapping[str, Any],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.days = days
        self._client = client
        self._points = points
        self._visible = visible
        self._indexes = {**indexes, **INDEXES}
        self._now = now
        self._untended = 0  # versions that may be kept before the next look

    async def keep(self, one: Document, *, deleted: bool = False) -> Kept:
        """Keep a text, given by its first part, that is about to be replaced or deleted.

        A failure is returned, not raised, so that the replacement or deletion goes on.
        """
        file = one.file is not None
        if not self.days:
            return Kept(file=file)
        until = self._now().astimezone(UTC).isoformat(timespec="milliseconds")
        until = until.replace("+00:00", "Z")
        try:
            try:
                await self._write(one, until, deleted=deleted)
            except UnknownCollection:
                self._untended = 0
                await self._write(one, until, deleted=deleted)
        except QdrantMcpError as error:
            return Kept(fault=str(error), file=file)
        shown = self._identity(one, one.collection)["shown"]
        return Kept(f"{shown}@{until}", self.days, file=file)

    async def versions(
        self, wanted: str | None = None, collection: str | None = None
    ) -> list[Version]:
        """The last versions of the text of an id, or of all texts, the newest first."""
        of = [*_of(wanted, collection), _until(gte=self._oldest())]
        found = _in_order(await self._found(of, every=wanted is not None))
        return [_version(_held(record)) for _, record in reversed(found[-LISTED:])]

    async def version(self, wanted: str, collection: str | None = None) -> Version | None:
        """A whole version by `ID@TIME`: that of its id, else the text as it was at that time.

        Raises RequestError where texts of several collections may be meant.
        """
        if (named := at_time(wanted)) is None:
            return None
        own, when = named
        ends, oldest = (
            _in_order(await self._found(_of(own, collection), every=True)),
            self._oldest(),
        )
        ends = [pair for pair in ends if _end(pair[1]) >= oldest]
        found = [one for _, one in ends if wanted == f"{own}@{_held(one)['until']}"]
        found = found or [one for end, one in ends if end >= when]
        if not found:
            return None
        if len(places := {_held(one)["collection"] for one in found}) > 1:
            raise RequestError(f"{wanted} is in {every(sorted(places))}: pass collection_name.")
        for record in await self._client.retrieve(HISTORY, [found[0].id]):
            held = _held(record)
            place, head, own = held["collection"], held["head"], held["ids"][0]
            read = [
                document_of(place, head, part, ("document",))
                for part in json.loads((record.payload or {})[PARTS])
            ]
            parts = [part._replace(document=own) for part in read]
            document = joined(parts, parts[0]) if len(parts) > 1 else parts[0]
            return _version(held, document, parts)
        return None

    async def follow(self, old: Document, place: str) -> None:
        """Have the versions of a text that was moved be those of the text where it is now."""
        where = [equal(COLLECTION, old.collection), equal(IDS, str(old.head or old.id))]
        with suppress(QdrantMcpError):  # it is moved
            now = await self._with_known_ids(self._identity(old, place), where)
            await self._client.set_payload(HISTORY, now, models.Filter(must=where), key=KEY)

    async def erase(self, wanted: str, collection: str | None = None) -> int:
        """Erase a version by its id, or all those of a text, for good; how many there were."""
        of, erased = _of(wanted, collection), 0
        if named := at_time(wanted):
            own, when = named
            of = [*_of(own, collection), _until(gte=when, lte=when)]
        while found := await self._found(of):
            await self._client.delete(HISTORY, models.Filter(must=[among(r.id for r in found)]))
            erased += len(found)
        return erased

    async def _found(self, of: Sequence[Any], *, every: bool = False) -> list[Point]:
        """The points of the last versions that meet the conditions, or of all, without texts."""
        ordered = models.OrderBy(key=UNTIL, direction=models.Direction.DESC)
        where = models.Filter(must=list(of))
        # The last ones may all be of hidden collections.
        for most in (MOST,) if every else (LISTED, MOST):
            try:
                found, _ = await self._client.scroll(
                    HISTORY, where, limit=most, order_by=ordered, with_payload=[KEY]
                )
            except (UnknownCollection, AccessRefused):  # nothing was kept yet, or can be
                return []
            seen = [one for one in found if self._visible(_held(one)["collection"])]
            if len(seen) == len(found) or len(found) < most:
                break
        return seen if every else seen[:LISTED]

    async def _point(
        self, one: Document, until: str, number: int, *, deleted: bool
    ) -> models.PointStruct:
        """A text as it is kept; the same version again is the same point."""
        if one.textless and deleted:
            raise RequestError("it has no text.")
        parts = [one]
        for start in range(1, one.chunks, PAGE):
            parts += await self._points.parts(one, start, min(start + PAGE, one.chunks) - 1)
        parts = [one, *(part._replace(metadata=None) for part in parts[1:])]  # it is the first's
        payloads = [
            stored_payload(part._replace(chunk=number, chunks=len(parts), writing=None))
            for number, part in enumerate(parts)
        ]
        text = json.dumps(payloads, ensure_ascii=False, default=str)
        held = self._identity(one, one.collection) | {
            "until": until,
            "number": number,
            "bytes": len(text.encode("utf-8", "replace")),
            "by": speaker(),
            "deleted": deleted,
            "title": one.title,
            "begins": "" if one.textless else one.text[:BEGINNING],
        }
        if held["shown"] != held["ids"][0]:  # where it was before a move, it had another id
            same = [equal(COLLECTION, one.collection), equal(IDS, held["head"])]
            held = await self._with_known_ids(held, same)
        # One that lacks parts does not take the place of the whole one.
        name = "\0".join((one.collection, held["ids"][0], one.revision, str(len(parts))))
        point = self._points.identify(HISTORY, name, 0)
        return models.PointStruct(id=point, vector={}, payload={KEY: held, PARTS: text})

    def _identity(self, one: Document, place: str) -> dict[str, Any]:
        """All ids that a text in this place is known by; the first is its own."""
        own = one.document or str(one.id)
        head = self._points.identify(place, own, 0)
        known = (own, head, short_id(head), str(one.id), short_id(one.id))
        shown = own_id(place, head if one.document else one.id, one.document)
        if len(shown) > MOST_SHOWN:  # what is longer is not shown with a time
            shown = short_id(head)
        ids = list(dict.fromkeys(known))
        return {"collection": place, "ids": ids, "head": head, "shown": shown}

    async def _with_known_ids(
        self, held: dict[str, Any], of: Sequence[models.Condition]
    ) -> dict[str, Any]:
        """The same with the ids by which the versions that meet the conditions are known, too."""
        known = [_held(one)["ids"] for one in await self._found(of)]
        return held | {"ids": list(dict.fromkeys(chain(held["ids"], *known)))}

    def _oldest(self) -> datetime:
        return self._now() - timedelta(days=self.days)

    async def _write(self, one: Document, until: str, *, deleted: bool) -> None:
        if self._untended <= 0:
            await self._tend()
            self._untended = TENDED
        last = models.OrderBy(key=NUMBER, direction=models.Direction.DESC)
        found, _ = await self._client.scroll(HISTORY, limit=1, order_by=last, with_payload=[NUMBER])
        number = 1 + (_number(found[0]) if found else 0)
        point = await self._point(one, until, number, deleted=deleted)
        await self._client.upsert(HISTORY, [point])
        self._untended -= 1 + TENDED * 8 * _bytes(point) // MOST_BYTES

    async def _tend(self) -> None:
        """Make the collection where it is new, and erase what is surely too old, or too much."""
        client = self._client
        if not await client.collection_exists(HISTORY):
            sparse = {SPARSE_NAME: models.SparseVectorParams()}  # engines want some vector
            await create(client, HISTORY, vectors_config={}, sparse_vectors_config=sparse)
        there = (await client.get_collection(HISTORY)).payload_schema
        missing = {key: one for key, one in self._indexes.items() if key not in there}
        await client.create_payload_indexes(HISTORY, missing)
        counted = [UNTIL, NUMBER, BYTES]
        kept, _ = await client.scroll(HISTORY, limit=2 * MOST, with_payload=counted)
        if over := [one.id for one in _over(kept, self._now(), timedelta(days=self.days))]:
            await client.delete(HISTORY, models.Filter(must=[among(over)]))


def _over(kept: list[Point], now: datetime, days: timedelta) -> list[Point]:
    """The versions that have no room, and those that are surely older than so many days.

    Clocks go wrong. Versions are in the order of their numbers, and none is taken for older than
    one before it. Time has surely come as far as the last version that is a day old: a clock that
    is ahead for less than a day erases nothing.
    """
    kept = sorted(kept, key=lambda one: (_number(one), _end(one)))
    sizes = accumulate(map(_bytes, reversed(kept)))
    room = sum(size <= MOST_BYTES for size in islice(sizes, MOST))
    sure = max((end for end in map(_end, kept) if end <= now - DAY), default=None)
    ends = accumulate(map(_end, kept), max)
    old = sum(end < sure - days for end in ends) if sure else 0
    return kept[: max(len(kept) - room, old)]


def _in_order(found: Sequence[Point]) -> list[tuple[datetime, Point]]:
    """Versions as they followed each other, each with its end, the oldest first.

    Of a version that ended, by a clock that was ahead, after a later one did, the end is that of
    the later one.
    """
    ends: dict[str, datetime] = {}
    ordered: list[tuple[datetime, Point]] = []
    for one in sorted(found, key=lambda one: (_number(one), _end(one)), reverse=True):
        place, end = _held(one)["collection"], _end(one)
        ends[place] = min(end, ends.get(place, end))
        ordered.append((ends[place], one))
    return sorted(ordered, key=lambda pair: (pair[0], _number(pair[1])))


def _end(one: Point) -> datetime:
    return datetime.fromisoformat(_held(one)["until"])


def _number(one: Point) -> int:
    """The place of a version among all; 0 of those that were kept before they were counted."""
    return int(_held(one).get("number", 0))


def _bytes(one: Point | models.PointStruct) -> int:
    return int(_held(one).get("bytes", 0))


def _held(record: Point | models.PointStruct) -> dict[str, Any]:
    """What a kept version says of itself."""
    held: dict[str, Any] = (record.payload or {})[KEY]
    return held


def _until(**limits: Any) -> models.FieldCondition:
    return models.FieldCondition(key=UNTIL, range=models.DatetimeRange(**limits))


def _of(wanted: str | None, collection: str | None) -> list[models.Condition]:
    """The conditions for the versions of a text, by any of the ids that it is known by."""
    of: list[models.Condition] = []
    if wanted is not None:
        whole = (part_of(wanted) or (wanted,))[0]
        known = [wanted, whole, str(as_point_id(whole))]
        of.append(models.FieldCondition(key=IDS, match=models.MatchAny(any=known)))
    if collection is not None:
        of.append(equal(COLLECTION, collection))
    return of


def _version(
    held: Mapping[str, Any], document: Document | None = None, parts: Sequence[Document] = ()
) -> Version:
    collection = held["collection"]
    name = f"{held['shown']}@{held['until']}"
    document = document or Document(held["head"], collection, held["begins"], title=held["title"])
    return Version(
        id=name,
        collection=collection,
        until=held["until"],
        by=held["by"],
        deleted=held["deleted"],
        document=document._replace(
            id=point_id(collection, name, 0), document=name, head=None
        ),  # so that it is shown by that id
        parts=tuple(parts),
        own=held["ids"][0],
    )
