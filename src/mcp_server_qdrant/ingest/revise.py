"""Changes to a text that is stored, without the text: its title, tags and metadata, and its place.

Its parts are written as they are, so that a text of many sections keeps them, and so are its dates
and what supersedes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mcp_server_qdrant.core.context import ADMIN, caller
from mcp_server_qdrant.core.datatypes import SUPERSEDED_IN, SUPERSEDED_KEY, Document
from mcp_server_qdrant.core.dates import date_of
from mcp_server_qdrant.core.errors import BackendError, Outdated, QdrantMcpError, RequestError
from mcp_server_qdrant.core.notation import called, stamp
from mcp_server_qdrant.core.writes import Changes, Kept, Stored, Version
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.ingest.encoding import Progress, silent
from mcp_server_qdrant.ingest.parts import numbered
from mcp_server_qdrant.ingest.store import Store, check_seen
from mcp_server_qdrant.ingest.writer import Job


@dataclass(eq=False)
class Revision:
    """Changes texts where they are, and moves them."""

    store: Store
    deletion: Deletion

    async def revise(
        self,
        one: Document,
        changes: Changes,
        *,
        to: str | None = None,
        create: bool = False,
        seen: str | None = None,
        progress: Progress = silent,
    ) -> Stored:
        """Change what is stored with a text; all of its parts carry it. `to`: move it as well.

        A move that is cut short leaves it in both collections: move it again. It is deleted only
        as it was copied: if somebody else is quicker, their version stays where it is and the copy
        goes. Raises Outdated where it is not of the revision that was `seen`, or is not any more,
        RequestError where the caller may not delete or the id is taken.
        """
        place = to or one.collection
        moves = place != one.collection
        (title, metadata), secrets = self.store.masked(changes.title, changes.metadata)
        changes = replace(changes, title=title, metadata=metadata)
        if moves:
            check_may_delete()
        elif changes == Changes():
            raise RequestError(
                f"This text is in {called(place)} already: nothing was changed."
                if to
                else "Nothing was changed: give title, tags, metadata or another collection_name."
            )
        async with self.store.lock(place, one.document or str(one.id)):
            parts = await self._parts(one, seen)
            made = moves and await self.store.ensure(place, create=create)
            new = [changes.made(part) for part in parts]
            if moves:
                new = [_at(place, part) for part in new]
            else:
                now = stamp(self.store.now())
                new = [part._replace(updated_at=now) for part in new]
            if one.document and not moves:
                done = await self._put(new, parts[0], progress)
                return replace(done, masked=secrets)
            changed = changes != Changes()
            kept = await self.store.history.keep(parts[0]) if changed else Kept()
            done = replace(await self._put(new, None, progress), masked=secrets, before=kept)
        await self._leave(parts[0], done)
        if not moves:  # a point of another tool
            return replace(done, updated=True)
        await self._follow(parts[0], done)
        return replace(done, created_collection=made, moved=parts[0])

    async def restore(self, version: Version, progress: Progress = silent) -> Stored:
        """Store an earlier version as it was, in the place of what is there now, which is kept.

        Raises Outdated where somebody else is quicker.
        """
        place, first = version.collection, version.parts[0]
        document = first.document or str(first.id)
        async with self.store.lock(place, document):
            made = await self.store.ensure(place, create=True)
            now = stamp(self.store.now())
            before = await self.store.points.first(place, document)
            parts = [
                part._replace(metadata=first.metadata, updated_at=now, version=None, head=None)
                for part in version.parts
            ]
            done = await self._put(parts, before, progress)
        return replace(done, created_collection=made, restored=True)

    async def _leave(self, old: Document, done: Stored) -> None:
        """Delete a text that was copied; the copy where it was changed meanwhile."""
        try:
            await self.deletion.delete(old)
        except Outdated:
            if await self._first(old) is not None:
                with suppress(QdrantMcpError):
                    for copy in await self.store.points.by_id(done.collection, done.ids[:1]):
                        await self.deletion.delete(copy)
                raise
        except BackendError as error:
            if done.collection == old.collection:
                raise
            raise BackendError(
                f"The text was copied to {called(done.collection)}, but is still in "
                f"{called(old.collection)}: {error} Move it again."
            ) from error

    async def _follow(self, old: Document, done: Stored) -> None:
        """Write the new place of a moved text into its versions and the texts it supersedes."""
        await self.store.history.follow(old, done.collection)
        where = {
            "must": [
                {"key": SUPERSEDED_KEY, "match": {"value": done.document}},
                {"is_empty": {"key": SUPERSEDED_IN}},
            ]
        }
        with suppress(QdrantMcpError):  # it is moved
            for one in await self.deletion.lookup.matching(old.collection, where):
                if one.chunk == 0:
                    await self.store.points.retire(one, done.document, done.collection)

    async def _parts(self, one: Document, seen: str | None) -> list[Document]:
        """All parts of the text as it is now."""
        first = await self._first(one)
        check_seen(first or one, seen)
        return await self.deletion.lookup.parts(first or one)

    async def _first(self, one: Document) -> Document | None:
        found = await self.store.points.by_id(one.collection, [one.head or one.id])
        return found[0] if found else None

    async def _put(
        self, parts: Sequence[Document], before: Document | None, progress: Progress
    ) -> Stored:
        """Write the parts in the place of a text, or where none of its id may be.

        The very same text, which a move that was cut short has left, may.
        """
        collection, points = parts[0].collection, self.store.points
        document = parts[0].document or str(parts[0].id)
        target, encoder = await self.store.ready(collection)
        writing = int(self.store.now().timestamp()) if len(parts) > 1 else None
        new = numbered(
            [part._replace(document=document, writing=writing) for part in parts], points.identify
        )
        there = await points.first(collection, document)
        if before is None and there is not None and there.revision != new[0].revision:
            raise RequestError(
                f"{called(collection)} has a text with the id {called(document)} already: nothing "
                "was changed. Delete that one first, or store this one under another id."
            )
        job = Job(parts=new, before=before or there, exact=True, progress=progress)
        done = await self.store.put(job, target, encoder)
        return replace(done, updated=before is not None)


def _at(place: str, part: Document) -> Document:
    """The part in another collection; the time of its file does not become its date."""
    when = part.updated_at if date_of(part) else None
    heir = part.superseded_by and (part.superseded_in or part.collection)
    return part._replace(
        collection=place,
        file=None,
        updated_at=when,
        superseded_in=heir if heir != place else None,
    )


def check_may_delete() -> None:
    """Raise RequestError where the caller may not delete."""
    who = caller()
    if who is not None and ADMIN not in who.scopes:
        raise RequestError(
            f"Nothing was changed: moving deletes a text where it was, which needs the scope "
            f"{ADMIN}, which your token lacks."
        )
