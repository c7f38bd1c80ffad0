"""Earlier versions of texts that a caller replaced or deleted, kept for some days.

Each version is a point without a vector that holds all parts of its text, in a hidden collection
(see `core.notation.visible_in`). So all replicas with this engine share them, and a tenant's client
sees only the tenant's own.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain, islice
from operator import attrgetter
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.context import caller_details
from mcp_server_qdrant.core.datatypes import SPARSE_NAME, Document, Earlier
from mcp_server_qdrant.core.dates import changed_at, parse_versioned_id
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.notation import (
    HISTORY,
    Place,
    as_point_id,
    cite_all,
    own_id,
    parse_time,
    part_of,
    place_of,
    point_id,
    short_id,
)
from mcp_server_qdrant.core.writes import LISTED, KeptVersion, Version, batched
from mcp_server_qdrant.qdrant.engine import Engine, Point
from mcp_server_qdrant.qdrant.filters import equal, has_id, one_of
from mcp_server_qdrant.qdrant.payload import document_of, stored_payload
from mcp_server_qdrant.qdrant.read.lookup import join_chunks
from mcp_server_qdrant.qdrant.write.points import DATE_INDEX, Points, create

MOST = 10_000  # versions, per tenant
MOST_BYTES = 256 << 20  # of the versions' texts, per tenant
TENDED = 500  # versions written between two checks of the limits; fewer for long texts
DAY = timedelta(days=1)
MOST_SHOWN = 35  # characters of an id, before the time
BEGINNING = 200  # characters of the text in a version's entry
BATCH_SIZE = 1 << 20  # characters of the texts that are written together
KEY, PARTS = "history", "parts"  # payload keys
IDS, COLLECTION, UNTIL = f"{KEY}.ids", f"{KEY}.collection", f"{KEY}.until"
NUMBER, BYTES = f"{KEY}.number", f"{KEY}.bytes"
INDEXES = {
    **dict.fromkeys((IDS, COLLECTION), models.PayloadSchemaType.KEYWORD),
    UNTIL: DATE_INDEX,
    NUMBER: models.PayloadSchemaType.INTEGER,
}


class History:
    """Keeps the versions of the last `days`; 0 keeps none.

    `client` and `points` are used for writing, `visible` tells which collections may be named.
    `indexes` are created in addition to its own.
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
        self._untended = 0  # versions that may be written before the next check of the limits

    async def keep(
        self, one: Document, *, deleted: bool = False, parts: Sequence[Document] = ()
    ) -> KeptVersion:
        """Keep the text with this first part; see `keep_all`."""
        return (await self.keep_all([one], deleted=deleted, parts=parts))[0]

    async def keep_all(
        self, texts: Sequence[Document], *, deleted: bool = False, parts: Sequence[Document] = ()
    ) -> list[KeptVersion]:
        """Keep the texts with these first parts, before they are replaced or deleted.

        The parts of a text are read unless all of them are among these `parts`. A failure is
        returned, not raised, so that the change goes on.
        """
        kept = [KeptVersion(file=one.file is not None) for one in texts]
        if not self.days:
            return kept
        until = self._now().astimezone(UTC).isoformat(timespec="milliseconds")
        until = until.replace("+00:00", "Z")
        whole: list[tuple[int, list[Document]]] = []
        for place, one in enumerate(texts):
            try:
                if deleted and one.textless:
                    raise RequestError("it has no text.")
                whole.append((place, await self._parts(one, parts)))
            except QdrantMcpError as error:
                kept[place] = replace(kept[place], fault=str(error))
        for some in batched(whole, lambda one: sum(len(part.text) for part in one[1]), BATCH_SIZE):
            fault = await self._try_write([read for _, read in some], until, deleted=deleted)
            for place, (one, *_) in some:
                if fault:
                    kept[place] = replace(kept[place], fault=fault)
                else:
                    shown = self._identity(one, one.collection)["shown"]
                    kept[place] = replace(kept[place], id=f"{shown}@{until}", days=self.days)
        return kept

    async def versions(
        self, wanted: str | None = None, collection: str | None = None
    ) -> list[Version]:
        """The last versions of one text (by id) or of all texts, newest first."""
        of = [*_conditions(wanted, collection), _until(gte=self._oldest())]
        found = _in_order(await self._read_entries(of, every=wanted is not None))
        return [_version(_description(record)) for _, record in reversed(found[-LISTED:])]

    def at_time(self, wanted: str) -> tuple[str, datetime] | None:
        """Parse `ID@TIME`; see `core.dates.parse_versioned_id`."""
        return parse_versioned_id(wanted, self._now())

    async def version(self, wanted: str, collection: str | None = None) -> Version | None:
        """The whole version with this id, else the text as it was at the time in `ID@TIME`.

        Raises RequestError if the id is in several collections.
        """
        if (named := self.at_time(wanted)) is None:
            return None
        own, when = named
        ends, oldest = (
            _in_order(await self._read_entries(_conditions(own, collection), every=True)),
            self._oldest(),
        )
        ends = [pair for pair in ends if _end(pair[1]) >= oldest]
        found = [one for _, one in ends if wanted == f"{own}@{_description(one)['until']}"]
        found = found or [one for end, one in ends if end >= when]
        if not found:
            return None
        if len(places := {_description(one)["collection"] for one in found}) > 1:
            raise RequestError(f"{wanted} is in {cite_all(sorted(places))}: pass collection_name.")
        return next(iter((await self._read_versions(found[:1])).values()), None)

    async def count_earlier(self, texts: Iterable[Document]) -> dict[Place, Earlier]:
        """Place -> number of earlier versions and last change, for texts that have any.

        One request, and none if no text was changed since the oldest version.
        """
        oldest = self._oldest()
        wanted = {place_of(one) for one in texts if (end := changed_at(one)) and end >= oldest}
        counts, last = Counter[Place](), dict[Place, Mapping[str, Any]]()
        for _, record in await self._entries_since(oldest, wanted):
            place = _place(record)
            counts[place] += 1
            last[place] = _description(record)
        return {
            place: Earlier(counts[place], held["until"])
            for place, held in last.items()
            if place in wanted and not held["deleted"]
        }

    async def versions_at(self, texts: Iterable[Document], when: datetime) -> dict[Place, Version]:
        """Place -> version at this time, for texts that were changed since."""
        wanted = {place_of(one) for one in texts if (end := changed_at(one)) and end > when}
        found = await self._entries_since(max(when, self._oldest()), wanted)
        first = {_place(record): record for _, record in reversed(found)}
        known = await self._read_versions([first[place] for place in first.keys() & wanted])
        begun = {place: parse_time(one.document.updated_at) for place, one in known.items()}
        return {place: known[place] for place, since in begun.items() if since and since <= when}

    async def _entries_since(
        self, when: datetime, places: Collection[Place]
    ) -> list[tuple[datetime, Point]]:
        """The versions of texts that ended at this time or later, oldest first."""
        if not places:
            return []
        of = [one_of(IDS, sorted(own for _, own in places)), _until(gte=when)]
        with suppress(QdrantMcpError):  # the texts are shown in any case
            ends = _in_order(await self._read_entries(of, every=True))
            return [pair for pair in ends if pair[0] >= when]
        return []

    async def _read_versions(self, found: Sequence[Point]) -> dict[Place, Version]:
        """Place -> version with its whole text; the points are of different texts."""
        versions = {}
        for record in await self._client.retrieve(HISTORY, [one.id for one in found]):
            held = _description(record)
            place, head, own = held["collection"], held["head"], held["ids"][0]
            read = [
                document_of(place, head, part, ("document",))
                for part in json.loads((record.payload or {})[PARTS])
            ]
            parts = [part._replace(document=own) for part in read]
            document = join_chunks(parts, parts[0]) if len(parts) > 1 else parts[0]
            versions[_place(record)] = _version(held, document, parts)
        return versions

    async def move_versions(self, old: Document, place: str) -> None:
        """Assign the versions of a moved text to its new place."""
        where = [equal(COLLECTION, old.collection), equal(IDS, str(old.head or old.id))]
        with suppress(QdrantMcpError):  # the move is done and must not fail
            now = await self._with_known_ids(self._identity(old, place), where)
            await self._client.set_payload(HISTORY, now, models.Filter(must=where), key=KEY)

    async def erase(self, wanted: str, collection: str | None = None) -> int:
        """Erase a version by its id, or all versions of a text; returns their number."""
        of, erased = _conditions(wanted, collection), 0
        if named := self.at_time(wanted):
            own, when = named
            of = [*_conditions(own, collection), _until(gte=when, lte=when)]
        while found := await self._read_entries(of):
            await self._client.delete(HISTORY, models.Filter(must=[has_id(r.id for r in found)]))
            erased += len(found)
        return erased

    async def _read_entries(self, of: Sequence[Any], *, every: bool = False) -> list[Point]:
        """The last matching versions as points without texts, or with `every` all of them."""
        ordered = models.OrderBy(key=UNTIL, direction=models.Direction.DESC)
        where = models.Filter(must=list(of))
        # All of the last ones may belong to hidden collections.
        for most in (MOST,) if every else (LISTED, MOST):
            try:
                found, _ = await self._client.scroll(
                    HISTORY, where, limit=most, order_by=ordered, with_payload=[KEY]
                )
            except (UnknownCollection, AccessRefused):  # nothing was kept, or the key forbids it
                return []
            seen = [one for one in found if self._visible(_description(one)["collection"])]
            if len(seen) == len(found) or len(found) < most:
                break
        return seen if every else seen[:LISTED]

    async def _parts(self, one: Document, known: Sequence[Document]) -> list[Document]:
        """All parts of a text, in order; they are read unless they are all known."""
        further = [part for part in known if part.chunk and part.version == one.version]
        if 1 + len(further) >= one.chunks:
            return [one, *sorted(further, key=attrgetter("chunk"))]
        return [one, *await self._points.parts(one, 1, one.chunks - 1)]

    async def _point(
        self, parts: Sequence[Document], until: str, number: int, *, deleted: bool
    ) -> models.PointStruct:
        """A version as a point; its id is the same for the same version."""
        one, *further = parts
        # The metadata is in the first part.
        lean = [one, *(part._replace(metadata=None) for part in further)]
        payloads = [
            stored_payload(part._replace(chunk=number, chunks=len(parts), writing=None))
            for number, part in enumerate(lean)
        ]
        text = json.dumps(payloads, ensure_ascii=False, default=str)
        held = self._identity(one, one.collection) | {
            "until": until,
            "number": number,
            "bytes": len(text.encode("utf-8", "replace")),
            "by": caller_details(),
            "deleted": deleted,
            "title": one.title,
            "begins": "" if one.textless else one.text[:BEGINNING],
        }
        if held["shown"] != held["ids"][0]:  # where it was before a move, it had another id
            same = [equal(COLLECTION, one.collection), equal(IDS, held["head"])]
            held = await self._with_known_ids(held, same)
        # An incomplete version does not replace the complete one.
        name = "\0".join((one.collection, held["ids"][0], str(one.revision), str(len(parts))))
        point = self._points.identify(HISTORY, name, 0)
        return models.PointStruct(id=point, vector={}, payload={KEY: held, PARTS: text})

    def _identity(self, one: Document, place: str) -> dict[str, Any]:
        """All ids of a text in this collection, its own id first."""
        own = one.document or str(one.id)
        head = self._points.identify(place, own, 0)
        known = (own, head, short_id(head), str(one.id), short_id(one.id))
        shown = own_id(place, head if one.document else one.id, one.document)
        if len(shown) > MOST_SHOWN:  # a longer id has no room for the time
            shown = short_id(head)
        ids = list(dict.fromkeys(known))
        return {"collection": place, "ids": ids, "head": head, "shown": shown}

    async def _with_known_ids(
        self, held: dict[str, Any], of: Sequence[models.Condition]
    ) -> dict[str, Any]:
        """Add the ids of the matching versions."""
        known = [_description(one)["ids"] for one in await self._read_entries(of)]
        return held | {"ids": list(dict.fromkeys(chain(held["ids"], *known)))}

    def _oldest(self) -> datetime:
        return self._now() - timedelta(days=self.days)

    async def _try_write(
        self, texts: Sequence[Sequence[Document]], until: str, *, deleted: bool
    ) -> str | None:
        """Write versions of these texts, each by its parts; why that failed, if it did."""
        try:
            try:
                await self._write(texts, until, deleted=deleted)
            except UnknownCollection:
                self._untended = 0
                await self._write(texts, until, deleted=deleted)
        except QdrantMcpError as error:
            return str(error)
        return None

    async def _write(
        self, texts: Sequence[Sequence[Document]], until: str, *, deleted: bool
    ) -> None:
        if self._untended <= 0:
            await self._tend()
            self._untended = TENDED
        last = models.OrderBy(key=NUMBER, direction=models.Direction.DESC)
        found, _ = await self._client.scroll(HISTORY, limit=1, order_by=last, with_payload=[NUMBER])
        first = 1 + (_number(found[0]) if found else 0)
        points = [
            await self._point(parts, until, number, deleted=deleted)
            for number, parts in enumerate(texts, first)
        ]
        await self._client.upsert(HISTORY, points)
        self._untended -= sum(1 + TENDED * 8 * _size(point) // MOST_BYTES for point in points)

    async def _tend(self) -> None:
        """Create the collection if it is new, and erase versions beyond the limits."""
        client = self._client
        if not await client.collection_exists(HISTORY):
            sparse = {SPARSE_NAME: models.SparseVectorParams()}  # engines require a vector
            await create(client, HISTORY, vectors_config={}, sparse_vectors_config=sparse)
        there = (await client.get_collection(HISTORY)).payload_schema
        missing = {key: one for key, one in self._indexes.items() if key not in there}
        await client.create_payload_indexes(HISTORY, missing)
        counted = [UNTIL, NUMBER, BYTES]
        kept, _ = await client.scroll(HISTORY, limit=2 * MOST, with_payload=counted)
        if over := [one.id for one in _choose_excess(kept, self._now(), timedelta(days=self.days))]:
            await client.delete(HISTORY, models.Filter(must=[has_id(over)]))


def _choose_excess(kept: list[Point], now: datetime, days: timedelta) -> list[Point]:
    """The versions to erase: beyond the size limits, or certainly older than `days`.

    Clocks may be wrong. Versions are sorted by number, and none counts as older than the one before
    it. Age is measured from the newest version that is at least a day old, so a clock that is ahead
    for less than a day erases nothing.
    """
    kept = sorted(kept, key=lambda one: (_number(one), _end(one)))
    sizes = accumulate(map(_size, reversed(kept)))
    room = sum(size <= MOST_BYTES for size in islice(sizes, MOST))
    sure = max((end for end in map(_end, kept) if end <= now - DAY), default=None)
    ends = accumulate(map(_end, kept), max)
    old = sum(end < sure - days for end in ends) if sure else 0
    return kept[: max(len(kept) - room, old)]


def _in_order(found: Sequence[Point]) -> list[tuple[datetime, Point]]:
    """The versions with their end times, oldest first.

    If a clock was ahead, a version may end after its successor; it then gets the successor's end.
    """
    ends: dict[str, datetime] = {}
    ordered: list[tuple[datetime, Point]] = []
    for one in sorted(found, key=lambda one: (_number(one), _end(one)), reverse=True):
        place, end = _description(one)["collection"], _end(one)
        ends[place] = min(end, ends.get(place, end))
        ordered.append((ends[place], one))
    return sorted(ordered, key=lambda pair: (pair[0], _number(pair[1])))


def _place(one: Point) -> Place:
    held = _description(one)
    return held["collection"], held["head"]


def _end(one: Point) -> datetime:
    return datetime.fromisoformat(_description(one)["until"])


def _number(one: Point) -> int:
    """The sequence number of a version."""
    return int(_description(one)["number"])


def _size(one: Point | models.PointStruct) -> int:
    return int(_description(one)["bytes"])


def _description(record: Point | models.PointStruct) -> dict[str, Any]:
    """The description in a version's payload."""
    held: dict[str, Any] = (record.payload or {})[KEY]
    return held


def _until(**limits: Any) -> models.FieldCondition:
    return models.FieldCondition(key=UNTIL, range=models.DatetimeRange(**limits))


def _conditions(wanted: str | None, collection: str | None) -> list[models.Condition]:
    """The conditions for the versions of a text, by any of its ids."""
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
        ),  # so that this id is shown
        parts=tuple(parts),
        own=held["ids"][0],
    )
