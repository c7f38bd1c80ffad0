"""Deleting: documents by ids, or what a filter matches, once its number is confirmed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import (
    BackendError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.gather import gathered
from mcp_server_qdrant.core.notation import called
from mcp_server_qdrant.ingest.store import Store
from mcp_server_qdrant.qdrant.lookup import Lookup

EXAMPLES = 3
BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Named:
    """The documents of some ids (of each one part, for its title), and the ids that are nowhere."""

    documents: tuple[Document, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """The points that a filter matches in a collection: their exact number, and a few of them."""

    collection: str
    count: int
    examples: tuple[Document, ...]


@dataclass(eq=False)
class Deletion:
    """Deletes, and has all that is cached of a collection follow at once.

    The store's locks keep the parts of one document together; `deleted` is called with each
    collection that changed.
    """

    store: Store
    lookup: Lookup
    deleted: Callable[[str], None]

    async def named(self, ids: Sequence[str], collection: str | None = None) -> Named:
        """The documents of these ids; the id of a part stands for its whole document.

        Raises RequestError where an id is in several collections and none was named, BackendError
        where a collection that may have it could not be looked in.
        """
        wanted = list(dict.fromkeys(await self.lookup.full(ids, collection)))
        found = await self._found(wanted, collection)
        for one in wanted:
            if len(places := [name for name, named in found.items() if one in named]) > 1:
                raise RequestError(
                    f"Nothing was deleted: the id {one!r} is in "
                    f"{' and in '.join(map(called, places))}. Name the collection that is meant."
                )
        whole: dict[tuple[str, str], Document] = {}
        for named in found.values():
            for document in named.values():
                key = (document.collection, document.document or str(document.id))
                whole.setdefault(key, document)
        missing = [one for one in wanted if not any(one in named for named in found.values())]
        return Named(tuple(whole.values()), tuple(missing))

    async def by_ids(self, ids: Sequence[str], collection: str | None, seen: Named) -> None:
        """Delete the documents of these ids if they are still as they were seen, else nothing."""
        if await self.named(ids, collection) != seen:
            raise RequestError(
                "Nothing was deleted: what these ids name has changed meanwhile. Call again."
            )
        for number, document in enumerate(seen.documents):
            with _after(number, len(seen.documents), "documents"):
                await self._delete(document)

    async def _found(
        self, ids: Sequence[str], collection: str | None
    ) -> dict[str, dict[str, Document]]:
        """Collection -> id -> document."""
        names = await self.store.catalog.names() if collection is None else [collection]
        if collection is not None:
            await self._existing(collection)
        found, failed = await gathered(names, lambda name: self.lookup.named(name, ids))
        for name, error in failed.items():
            raise BackendError(
                f"Nothing was deleted: {called(name)} could not be looked in: {error}"
            )
        return found

    async def _existing(self, collection: str) -> None:
        if not await self.store.catalog.exists(collection):
            raise UnknownCollection(collection, await self.store.catalog.near(collection))

    async def _delete(self, one: Document) -> None:
        """A whole document: its chunks by their ids, or by a filter where that is sure or fast."""
        name, document = one.collection, one.document
        await self.store.catalog.target(name)
        try:
            if document is None:
                await self.store.points.delete_points(name, [one.id])
                return
            async with self.store.lock(name, document):
                # It may have been replaced since it was found.
                now = await self.store.points.first(name, document) or one
                parts = self.store.points.part_ids(one, 0, one.chunks - 1)
                present = self.store.points.part_ids(now, 0, now.chunks - 1)
                await self.store.points.delete_points(name, list({*present, *parts, one.id}))
                if self.store.catalog.has_document_index(name) or one.id not in parts:
                    await self.store.points.delete_document(name, document)
        finally:
            self._changed(name)

    async def matching(self, where: Mapping[str, Any], collection: str) -> Matching:
        """The points to confirm. Raises UnknownCollection, InvalidFilter."""
        await self._existing(collection)
        count, examples = await self.store.points.matched(collection, where, EXAMPLES)
        return Matching(collection, count, tuple(examples))

    async def by_filter(self, where: Mapping[str, Any], collection: str, count: int) -> int:
        """Delete what the filter matches if that is exactly `count` points, else nothing.

        Those very points are deleted: what comes to match meanwhile stays.
        """
        await self._existing(collection)
        ids = await self.store.points.matching_ids(collection, where, count + 1)
        if len(ids) != count:
            raise RequestError(changed(count, await self.matching(where, collection)))
        try:
            for first in range(0, count, BATCH):
                with _after(first, count, "points"):
                    await self.store.points.delete_points(collection, ids[first : first + BATCH])
        finally:
            self._changed(collection)
        return count

    def _changed(self, collection: str) -> None:
        self.store.catalog.forget(collection)
        self.deleted(collection)


@contextmanager
def _after(done: int, count: int, what: str) -> Iterator[None]:
    """Say with a failure what was deleted before it."""
    try:
        yield
    except BackendError as error:
        if not done:
            raise
        raise BackendError(f"{done:,} of {count:,} {what} were deleted, then: {error}") from error


def changed(confirmed: int, now: Matching) -> str:
    """Why a number that was confirmed is not good enough."""
    points = "1 point" if now.count == 1 else f"{now.count:,} points"
    return (
        f"Nothing was deleted: the filter matches {points} of {called(now.collection)}, not "
        f"{confirmed}. Call again without confirm_count to see them."
    )
