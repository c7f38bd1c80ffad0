"""Documents by id: single points, points with their neighbours, or whole documents."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, PointId
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, RequestError
from mcp_server_qdrant.core.notation import (
    as_point_id,
    cite,
    cite_all,
    first_id,
    part_of,
    sibling_id,
)
from mcp_server_qdrant.core.tasks import gather
from mcp_server_qdrant.qdrant.filters import parse
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from mcp_server_qdrant.qdrant.read.points import PointReader

PAGE = 256  # chunks read in one trip
NO_TEXT = "No text has the id {!r}: within takes an id of a result."
RACES = 5  # retries if a text is replaced while it is read


@dataclass(eq=False)
class Lookup:
    """Finds documents by the ids that a search returned, or that a caller gave when storing."""

    catalog: Catalog
    points: PointReader

    async def get(
        self,
        ids: Sequence[str],
        *,
        neighbours: int = 0,
        collection: str | None = None,
        room: int | None = None,
        whole: bool = False,
    ) -> tuple[list[Document], list[str], list[str]]:
        """Returns (documents in the order of `ids`, missing ids, a sentence per failed collection).

        The id of a point or a part gives that point, widened by `neighbours` chunks on either side.
        The id of a document, or a short id, gives its chunks joined, as many as fit in `room`
        characters; with `whole` so does the id of a first point. Without `collection`, all visible
        ones are searched. Raises BackendError if no collection answered, and like `complete_ids`.
        """
        full = await self.complete_ids(ids, collection)
        wanted = dict.fromkeys(full)
        begun = {point for one, point in zip(ids, full, strict=True) if whole or first_id(one)}

        async def look(name: str) -> dict[str, Document]:
            """One request, and one more for each document of several parts."""
            found = await self.find_in(name, list(wanted))
            for one, document in found.items():
                alone = one not in begun or document.chunk > 0
                if alone and document.id == as_point_id(one):
                    found[one] = await self._with_neighbours(document, neighbours)
                else:
                    found[one] = await self._read_whole(document, room)
            return found

        answers, failed = await gather(await self._collections(collection), look)
        failures = [f"{cite(name)}: {error}" for name, error in failed.items()]
        if failures and not answers:
            raise BackendError(f"No collection could be read: {failures[0]}")
        found = [named[one] for one in wanted for named in answers.values() if one in named]
        found = await self.points.check_heirs(found)
        once = {(d.collection, d.id, d.start, d.end): d for d in found}
        missing = [one for one in wanted if not any(one in named for named in answers.values())]
        return list(once.values()), missing, failures

    async def complete_ids(self, ids: Sequence[str], collection: str | None = None) -> list[str]:
        """Complete short ids and ids of parts; other ids stay as they are.

        Raises RequestError for an ambiguous id.
        """
        return [await self._complete_id(one, collection) for one in ids]

    async def _complete_id(self, one: str, collection: str | None) -> str:
        if numbered := part_of(one):
            return await self._point_of_part(one, *numbered, collection)
        if first_id(one) is None:
            return one
        names = await self._collections(collection)
        found, _ = await gather(names, partial(self.points.ids_with_prefix, short=one))
        known = sorted({point for points in found.values() for point in points})
        if len(known) > 1:
            raise RequestError(f"Several ids begin with {one}: {', '.join(known)}. Say which.")
        return known[0] if known else one

    async def _point_of_part(
        self, numbered: str, text: str, number: int, chunks: int, collection: str | None
    ) -> str:
        """The point id for `id:2/9`.

        Unchanged if that is a caller's own id, or if the text now has another number of parts.
        """
        whole, points = await self._complete_id(text, collection), dict[str, str]()
        look = partial(self.find_in, ids=[numbered, whole])
        answers, _ = await gather(await self._collections(collection), look)
        for name, named in answers.items():
            first = named.get(whole)
            if first and numbered not in named and first.chunks == chunks >= number:
                same = first.chunk == number - 1
                part = first.id if same else sibling_id(first, number - 1)
                points[name] = str(part)
        if len(points) > 1:
            raise RequestError(
                f"{numbered} is in {cite_all(sorted(points))}: pass collection_name."
            )
        return next(iter(points.values()), numbered)

    async def _collections(self, collection: str | None) -> Sequence[str]:
        if collection is None:
            return await self.catalog.names()
        return [await self.catalog.check_exists(collection)]

    async def find_one(self, wanted: str, collections: Sequence[str] | None = None) -> Document:
        """A part of the text with this id, in the collection if a single one is named.

        Raises RequestError if it is missing or in several, BackendError like `locate`.
        """
        named = collections[0] if collections and len(collections) == 1 else None
        known = named if named in await self.catalog.names() else None
        found, _ = await self.locate([wanted], known, refusal="")
        if not found:
            elsewhere = await self.describe_elsewhere([wanted], known) if known else ""
            raise RequestError(elsewhere or NO_TEXT.format(wanted))
        return found[0]

    async def describe_elsewhere(self, ids: Sequence[str], collection: str) -> str:
        """A sentence naming the other collections that have these ids; "" if there are none."""
        found: list[Document] = []
        with suppress(QdrantMcpError):
            found, *_ = await self.get(ids, room=1)
        there = cite_all(sorted({one.collection for one in found}))
        return there and f"Not in {cite(collection)}, but in {there}: name that collection."

    async def locate(
        self,
        ids: Sequence[str],
        collection: str | None = None,
        *,
        refusal: str = "Nothing was changed: ",
    ) -> tuple[list[Document], tuple[str, ...]]:
        """One part of the document of each id, and the ids that were not found.

        Raises RequestError if an id is in several collections and none was named, BackendError if
        a collection that may have it could not be read.
        """
        wanted = list(dict.fromkeys(await self.complete_ids(ids, collection)))
        names = await self._collections(collection)
        answers, failed = await gather(names, partial(self.find_in, ids=wanted))
        for name, error in failed.items():
            raise BackendError(f"{refusal}{cite(name)} could not be read: {error}")
        found: list[Document] = []
        missing: list[str] = []
        for one in wanted:
            places = [named[one] for named in answers.values() if one in named]
            if len(places) > 1:
                several = " and in ".join(cite(document.collection) for document in places)
                raise RequestError(
                    f"{refusal}the id {one!r} is in {several}. Name the collection that is meant."
                )
            found += places
            missing += [] if places else [one]
        return found, tuple(missing)

    async def parts(self, head: Document) -> list[Document]:
        """All parts of a document as they are stored, in order.

        Raises BackendError if one is missing.
        """
        found, lacking = await self._parts(head, None)
        if lacking:
            raise BackendError(
                f"Nothing was changed: {len(found)} of {head.chunks} parts of this text exist."
            )
        return found or [head]

    async def find_in(self, collection: str, ids: Sequence[str]) -> dict[str, Document]:
        """Id -> its point, or the first part of the document with that id.

        Takes one request, and another if there are further parts: a part of a replaced version
        yields the first part of the new text.
        """
        points = {wanted: as_point_id(wanted) for wanted in ids}
        firsts = {wanted: self.points.identify(collection, wanted, 0) for wanted in ids}
        asked = {*firsts.values(), *(point for point in points.values() if point is not None)}
        found = await self.points.by_id(collection, list(asked))
        current = await self.points.current_parts(found)
        by_id: dict[PointId | None, Document | None]
        by_id = {old.id: now for old, now in zip(found, current, strict=True)}
        either = {one: by_id.get(points[one]) or by_id.get(firsts[one]) for one in ids}
        return {wanted: document for wanted, document in either.items() if document}

    async def matching(self, collection: str, where: Mapping[str, Any]) -> list[Document]:
        """The points that match a filter in REST form, with only the document's id.

        Raises InvalidFilter.
        """
        return await self.points.matching(collection, parse(where))

    async def _read_whole(self, first: Document, room: int | None) -> Document:
        """The document with this first part, as much of it as fits."""
        for _ in range(RACES):
            chunks, lacking = await self._parts(first, room)
            if not lacking:
                break
            now = await self.points.first(first.collection, str(first.document))
            if now is None or now.version == first.version:
                break
            first = now  # replaced during the read
        return join_chunks(chunks, first, lacking=lacking) if chunks else first

    async def _parts(self, first: Document, room: int | None) -> tuple[list[Document], bool]:
        """The parts that fit, in order, and whether any is missing."""
        parts: list[Document] = []
        used, lacking = 0, False
        if first.document is None or first.chunks == 1:
            return parts, lacking
        for start in range(0, first.chunks, PAGE):
            end = min(start + PAGE, first.chunks) - 1
            page = await self.points.parts(first, start, end)
            lacking |= len(page) <= end - start
            for part in page:
                used += len(part.text)
                if parts and room is not None and used > room:
                    return parts, lacking
                parts.append(part)
        return parts, lacking

    async def _with_neighbours(self, document: Document, neighbours: int) -> Document:
        """The chunk joined with up to `neighbours` chunks before and after it.

        A chunk shared by another tenant stays alone: its neighbours may not be shared.
        """
        if document.document is None or document.chunks == 1 or not neighbours:
            return document
        first = max(document.chunk - neighbours, 0)
        last = min(document.chunk + neighbours, document.chunks - 1)
        parts = await self.points.parts(document, first, last)
        if len(parts) <= last - first:
            return document  # replaced during the read
        return join_chunks(parts, document)


def join_chunks(chunks: Sequence[Document], like: Document, *, lacking: bool = False) -> Document:
    """Join consecutive chunks, dropping their overlaps; all other fields are those of `like`.

    `lacking`: some are missing.
    """
    text, end = chunks[0].text, chunks[0].end or len(chunks[0].text)
    for chunk in chunks[1:]:
        start = chunk.start if chunk.start is not None else end
        if start > end:
            text += "\n\n" if start - end > 1 else " "
        text += chunk.text[max(end - start, 0) :]
        end = max(end, chunk.end or start + len(chunk.text))
    complete = len(chunks) == like.chunks
    return like._replace(
        text=text,
        start=chunks[0].start,
        end=end,
        chunk=chunks[0].chunk,
        chunks=1 if complete else like.chunks,
        last=None if complete else chunks[-1].chunk,
        torn=lacking,
    )
