"""Deletes documents by id, or the points that match a filter after their count is confirmed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, PointId
from mcp_server_qdrant.core.errors import BackendError, Outdated, RequestError
from mcp_server_qdrant.core.notation import cite, key_of, plural
from mcp_server_qdrant.core.writes import Deleted, KeptVersion, Matching, Named, batched
from mcp_server_qdrant.ingest.store import Store, check_seen
from mcp_server_qdrant.qdrant.filters import parse
from mcp_server_qdrant.qdrant.read.lookup import Lookup

EXAMPLES = 3  # points shown with a request for confirmation
BATCH = 1_000  # points per request
MOST_KEPT = 10_000  # points per call up to which texts are kept as earlier versions


@dataclass(eq=False)
class Deletion:
    """Deletes, and invalidates the caches of a collection at once.

    The store's locks protect the parts of a document; `deleted` is called with each changed
    collection.
    """

    store: Store
    lookup: Lookup
    deleted: Callable[[str], None]

    async def named(
        self, ids: Sequence[str], collection: str | None = None, seen: str | None = None
    ) -> Named:
        """The documents with these ids; the id of a part means its whole document.

        Raises RequestError if an id is in several collections and none was named, BackendError if a
        collection that may have it could not be read, Outdated if a document's revision is not
        `seen`.
        """
        found, missing = await self.lookup.locate(ids, collection)
        whole: dict[tuple[str, str], Document] = {}
        for document in found:
            check_seen(document, seen)
            whole.setdefault(key_of(document), document)
        return Named(tuple(whole.values()), missing)

    async def by_ids(self, seen: Named) -> list[KeptVersion]:
        """Delete these documents unless they have changed; returns how each is kept.

        Raises Outdated.
        """
        kept: list[KeptVersion] = []
        for number, document in enumerate(seen.documents):
            with _adding_progress(number, len(seen.documents), "documents"):
                kept.append(await self.delete(document, keep=True))
        return kept

    async def delete(self, seen: Document, *, keep: bool = False) -> KeptVersion:
        """Delete a whole document unless it has changed since it was read. Raises Outdated.

        All its parts are deleted in one step, after orphans of earlier versions, which searches
        would show once the first part is gone. `keep`: keep it as an earlier version.
        """
        kept = KeptVersion()
        name, points = seen.collection, self.store.points
        try:
            async with self.store.lock(name, seen.document or str(seen.id)):
                first, *others = points.part_ids(seen)
                further = await points.find_parts(name, others)
                now = next(iter(await points.by_id(name, [seen.head or seen.id])), None)
                if now is not None or seen.head is None:
                    check_seen(now, str(seen.revision))
                if now is not None and keep:
                    kept = await self.store.history.keep(now, deleted=True)
                if now is not None and now.writing is not None:
                    every = await points.settled_parts(now)
                    again = await points.by_id(name, [now.id])
                    orphans = [one for one in every if again and not one.current(again[0])]
                    await points.delete_seen(orphans)
                await points.delete_seen([(now or seen)._replace(id=first), *further])
                if await points.by_id(name, [seen.id if now is None else now.id]):
                    raise Outdated
        finally:
            self._changed(name)
        return kept

    async def matching(self, where: Mapping[str, Any], collection: str) -> Matching:
        """The points to confirm. Raises UnknownCollection, InvalidFilter."""
        collection = await self.store.catalog.check_exists(collection)
        points, condition = self.store.points, parse(where)
        count = await points.count(collection, condition)
        examples = tuple(await points.matching(collection, condition, EXAMPLES, whole=True))
        if count > MOST_KEPT:
            return Matching(collection, count, examples, 0, None)
        listed = await points.matching(collection, condition, MOST_KEPT)
        texts, partly = await self._group(collection, listed)
        days, going = self.store.history.days, sum(map(len, texts))
        return Matching(collection, count, examples, days, tuple(partly), going)

    async def by_filter(self, where: Mapping[str, Any], collection: str, count: int) -> Deleted:
        """Delete the points that match the filter if there are exactly `count`, otherwise nothing.

        Points that are written or begin to match meanwhile stay. Texts are deleted only as a whole:
        if only some parts match, the text stays. Above `MOST_KEPT` points no texts are kept as
        earlier versions.
        """
        collection = await self.store.catalog.check_exists(collection)
        points, condition = self.store.points, parse(where)
        listed = await points.matching(collection, condition, count + 1)
        if len(listed) != count:
            now = await points.count(collection, condition)
            raise RequestError(
                f"Nothing was deleted: the filter matches {plural(now, 'point')} of "
                f"{cite(collection)}, not {count}. Call again without confirm_count to see them."
            )
        texts, partly = await self._group(collection, listed)
        wanted, gone = sum(map(len, texts)), 0
        kept: list[KeptVersion] = []
        try:
            for batch in batched(texts, len, BATCH):
                some = [point for text in batch for point in text]
                with _adding_progress(gone, wanted, "points"):
                    if count <= MOST_KEPT:
                        kept += await self._keep_versions(collection, some)
                    await points.delete_seen(some)
                    left = await points.count_existing(collection, [one.id for one in some])
                    gone += len(some) - left
        finally:
            self._changed(collection)
        return Deleted(gone, tuple(kept), wanted - gone, tuple(partly))

    async def _group(
        self, collection: str, listed: Sequence[Document]
    ) -> tuple[list[list[Document]], list[Document]]:
        """The points grouped by text, and the first parts of texts that are listed incompletely.

        Parts whose first part is gone count as a text. Orphans of replaced versions are ignored.
        """
        texts: dict[tuple[PointId, str | None], list[Document]] = {}
        for one in listed:
            texts.setdefault((one.head or one.id, one.version), []).append(one)
        lacking = [key for key, parts in texts.items() if len(parts) < parts[0].chunks]
        found = await self.store.points.by_id(collection, [head for head, _ in lacking])
        heads = {one.id: one for one in found}
        for head, version in lacking:
            if head in heads:
                del texts[head, version]
        partly = [heads[h] for h, version in lacking if h in heads and heads[h].version == version]
        return list(texts.values()), partly

    async def _keep_versions(
        self, collection: str, listed: Sequence[Document]
    ) -> list[KeptVersion]:
        """Keep the texts whose first parts are among these points."""
        heads = [one.id for one in listed if one.head is None]
        texts = await self.store.points.by_id(collection, heads)
        return await self.store.history.keep_all(texts, deleted=True)

    def _changed(self, collection: str) -> None:
        self.store.catalog.forget(collection)
        self.deleted(collection)


@contextmanager
def _adding_progress(done: int, count: int, what: str) -> Iterator[None]:
    """Add to an error what was deleted before it."""
    try:
        yield
    except (BackendError, Outdated) as error:
        if not done:
            raise
        so_far = f"{done:,} of {count:,} {what} were deleted"
        if isinstance(error, Outdated):
            raise Outdated(f"{so_far}, not the next one") from error
        raise BackendError(f"{so_far}, then: {error}") from error
