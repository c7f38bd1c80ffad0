"""Changes to a text that is stored, without the text: its title, tags and metadata, and its place.

Its parts are written as they are, so that a text of many sections keeps them, and so are its dates
and what supersedes it.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mcp_server_qdrant.core.context import ADMIN, caller
from mcp_server_qdrant.core.datatypes import SUPERSEDED_IN, SUPERSEDED_KEY, Document
from mcp_server_qdrant.core.dates import date_of
from mcp_server_qdrant.core.errors import BackendError, Outdated, QdrantMcpError, RequestError
from mcp_server_qdrant.core.notation import as_point_id, called, stamp
from mcp_server_qdrant.core.writes import Changes, Kept, Stored, Version
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.ingest.store import Store, check_seen


@dataclass(eq=False)
class Revision:
    """Changes texts where they are, moves them, and brings earlier versions back."""

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
    ) -> Stored:
        """Change what is stored with a text; all of its parts carry it. `to`: move it as well.

        Raises Outdated where it is not of the revision that was `seen`, or is not any more,
        RequestError where the caller may not delete or the id is taken.
        """
        given = changes.title, changes.metadata, changes.tags
        (title, metadata, tags), secrets = self.store.masked(*given)
        tags = None if tags is None else tuple(dict.fromkeys(tags))
        changes = replace(changes, title=title, metadata=metadata, tags=tags)
        if to and to != one.collection:
            done = await self._move(one, changes, to, seen, create=create)
        elif changes != Changes():
            done = await self._change(one, changes, seen)
        else:
            raise RequestError(
                f"This text is in {called(one.collection)} already: nothing was changed."
                if to
                else "Nothing was changed: give title, tags, metadata or another collection_name."
            )
        return replace(done, masked=secrets)

    async def restore(self, version: Version) -> Stored:
        """Store an earlier version as it was, in the place of what is there now, which is kept.

        Raises Outdated where somebody else is quicker.
        """
        place, first = version.collection, version.parts[0]
        async with self.store.lock(place, str(first.document)):
            made = await self.store.ensure(place, create=True)
            if foreign := await self._foreign(place, str(first.document)):
                changes = _back(foreign, first)
                text = None if first.textless else first.text
                return replace(await self.store.alter(foreign, changes, text), restored=True)
            if first.textless:
                raise RequestError(
                    f"{called(str(first.document))} is not there any more, and no text of it is "
                    "kept: store a new one."
                )
            now = stamp(self.store.now())
            before = await self.store.points.first(place, str(first.document))
            kept: dict[str, Any] = {
                "metadata": first.metadata,
                "updated_at": now,
                "version": None,
                "head": None,
            }
            if before is not None:  # what was superseded since stays so
                kept |= {key: getattr(before, key) for key in (SUPERSEDED_KEY, SUPERSEDED_IN)}
            parts = [part._replace(**kept) for part in version.parts]
            done = await self.store.put(self.store.numbered(parts, before), before)
        return replace(done, created_collection=made, restored=True)

    async def _change(self, one: Document, changes: Changes, seen: str | None) -> Stored:
        document = one.document or str(one.id)
        async with self.store.lock(one.collection, document):
            parts = await self._parts(one, seen)
            if parts[0].document is None:
                return await self.store.alter(parts[0], changes)
            now = stamp(self.store.now())
            new = [changes.made(part)._replace(updated_at=now) for part in parts]
            return await self.store.put(self.store.numbered(new, parts[0]), parts[0])

    async def _move(
        self, one: Document, changes: Changes, to: str, seen: str | None, *, create: bool
    ) -> Stored:
        """Copy a text, then delete it where it was.

        Cut short, it is in both collections: move it again. It is deleted only as it was copied: if
        somebody else is quicker, their version stays where it is and the copy goes.
        """
        check_may_delete()
        document = one.document or str(one.id)
        async with self.store.lock(to, document):
            parts = await self._parts(one, seen)
            if parts[0].document is None:
                target, points = (
                    await self.store.writable(one.collection, dry=True),
                    self.store.points,
                )
                points.check_replaceable(target, await points.record(parts[0]), moved=True)
            made = await self.store.ensure(to, create=create)
            moved = [_at(to, changes.made(part))._replace(document=document) for part in parts]
            new = self.store.numbered(moved, None)
            there = await self.store.points.first(to, document)
            if there is not None and there.revision != new[0].revision:
                raise RequestError(
                    f"{called(to)} has a text with the id {called(document)} already: nothing was "
                    "changed. Delete that one first, or store this one under another id."
                )
            changed = changes != Changes()
            kept = await self.store.history.keep(parts[0]) if changed else Kept()
            done = await self.store.put(new, there)
        await self._leave(parts[0], done)
        await self._follow(parts[0], done)
        return replace(done, created_collection=made, moved=parts[0], before=kept)

    async def _leave(self, old: Document, copy: Stored) -> None:
        """Delete a text that was copied; the copy where it was changed meanwhile."""
        try:
            await self.deletion.delete(old)
        except Outdated:
            if await self._first(old) is not None:
                with suppress(QdrantMcpError):
                    for one in await self.store.points.by_id(copy.collection, copy.ids[:1]):
                        await self.deletion.delete(one)
                raise
        except BackendError as error:
            raise BackendError(
                f"The text was copied to {called(copy.collection)}, but is still in "
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

    async def _foreign(self, place: str, own: str) -> Document | None:
        """The point of another tool that has this id."""
        point = as_point_id(own)
        found = await self.store.points.by_id(place, [] if point is None else [point])
        return next((one for one in found if one.document is None), None)

    async def _first(self, one: Document) -> Document | None:
        found = await self.store.points.by_id(one.collection, [one.head or one.id])
        return found[0] if found else None


def _back(now: Document, then: Document) -> Changes:
    """What makes the present point of another tool what it was."""
    new, old = now.metadata or {}, then.metadata or {}
    return Changes(
        title=None if now.title == then.title else then.title or "",
        tags=None if now.tags == then.tags else then.tags,
        metadata={key: old.get(key) for key in {**new, **old} if new.get(key) != old.get(key)},
    )


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
