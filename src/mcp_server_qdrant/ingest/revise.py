"""Changes stored texts: title, tags, metadata, collection, or a passage; restores versions.

Parts are written again as they are, so a text keeps its sections, its dates and what supersedes it.
An edit changes only the parts that it touches.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from mcp_server_qdrant.core.context import ADMIN, caller, caller_details
from mcp_server_qdrant.core.datatypes import SUPERSEDED_IN, SUPERSEDED_KEY, Document
from mcp_server_qdrant.core.dates import date_of
from mcp_server_qdrant.core.errors import BackendError, Outdated, QdrantMcpError, RequestError
from mcp_server_qdrant.core.expiry import is_expired
from mcp_server_qdrant.core.notation import as_point_id, cite, stamp
from mcp_server_qdrant.core.writes import Changes, KeptVersion, Stored, Version
from mcp_server_qdrant.ingest.attributes import MAX_TEXT
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.ingest.edits import Edited, apply_edit, choose_kept
from mcp_server_qdrant.ingest.parts import parts_of
from mcp_server_qdrant.ingest.secrets import spans, without
from mcp_server_qdrant.ingest.store import Store, check_seen
from mcp_server_qdrant.qdrant.read.lookup import join_chunks


@dataclass(eq=False)
class Reviser:
    """Changes and moves texts, and restores earlier versions."""

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
        edit: Mapping[str, str] | None = None,
    ) -> Stored:
        """Change the attributes of a text; with `edit` also its text, with `to` its collection.

        Raises Outdated if the revision is not `seen` or changes meanwhile, RequestError if the
        caller may not delete, the id is taken in `to`, or the edit is ambiguous.
        """
        given = changes.title, changes.metadata, changes.tags
        (title, metadata, tags), secrets = self.store.mask_all(*given)
        tags = None if tags is None else tuple(dict.fromkeys(tags))
        changes = replace(changes, title=title, metadata=metadata, tags=tags)
        if edit is not None and to not in (None, one.collection):
            raise RequestError(
                f"The text is in {cite(one.collection)}: an edit does not move it. Nothing was "
                "changed: move it in a call of its own."
            )
        restored = changes.expires is not None and is_expired(one, self.store.now())
        if edit is not None:
            done = replace(await self._edit(one, edit, changes, seen), restored=restored)
        elif to and to != one.collection:
            done = await self._move(one, changes, to, seen, create=create)
        elif changes != Changes():
            done = replace(await self._change(one, changes, seen), restored=restored)
        else:
            raise RequestError(
                f"This text is in {cite(one.collection)} already: nothing was changed."
                if to
                else "Nothing was changed: give title, tags, metadata, expires or another "
                "collection_name."
            )
        return replace(done, masked=secrets + done.masked)

    async def restore(self, version: Version) -> Stored:
        """Replace the present text by an earlier version, and keep the present one as a version.

        Raises Outdated if another process writes the text meanwhile.
        """
        place, first = version.collection, version.parts[0]
        async with self.store.lock(place, str(first.document)):
            made = await self.store.ensure(place, create=True)
            point = as_point_id(str(first.document))
            found = await self.store.points.by_id(place, [] if point is None else [point])
            if found and found[0].document is None:  # another tool's
                new, old = found[0].metadata or {}, first.metadata or {}
                changed = (key for key in {**new, **old} if new.get(key) != old.get(key))
                changes = Changes(
                    title=None if found[0].title == first.title else first.title or "",
                    tags=None if found[0].tags == first.tags else first.tags,
                    metadata={key: old.get(key) for key in changed},
                )
                text = None if first.textless else first.text
                return replace(await self.store.alter(found[0], changes, text), restored=True)
            if first.textless:
                raise RequestError(
                    f"{cite(str(first.document))} no longer exists, and no version of it is "
                    "kept: store a new text."
                )
            now = stamp(self.store.now())
            before = await self.store.points.first(place, str(first.document))
            kept: dict[str, Any] = {
                "metadata": first.metadata,
                "updated_at": now,
                "version": None,
                "head": None,
            }
            if before is not None:  # a text that was superseded since stays so
                kept |= {key: getattr(before, key) for key in (SUPERSEDED_KEY, SUPERSEDED_IN)}
            if is_expired(first, self.store.now()):
                kept["expires"] = None
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
            new = [changes.applied_to(part)._replace(updated_at=now) for part in parts]
            return await self.store.put(self.store.numbered(new, parts[0]), parts[0])

    async def _edit(
        self, one: Document, edit: Mapping[str, str], changes: Changes, seen: str | None
    ) -> Stored:
        """Change the text itself; parts that the edit does not touch keep their vectors."""
        document = one.document or str(one.id)
        async with self.store.lock(one.collection, document):
            parts = await self._parts(one, seen)
            first = parts[0]
            if first.file is not None:
                raise RequestError(
                    "The text is from a file: nothing was changed. Edit the file, and the next "
                    "sync or ingest stores it; only texts that were stored with this tool can be "
                    "edited."
                )
            if first.textless:
                raise RequestError(f"{cite(str(first.id))} has no text that could be edited.")
            whole = join_chunks(parts, first) if len(parts) > 1 else first
            done, secrets = await asyncio.to_thread(self._apply_edit, whole.text, edit)
            if first.document is None:
                stored = await self.store.alter(first, changes, done.text)
            else:
                made = changes.applied_to(first)._replace(
                    updated_at=stamp(self.store.now()),
                    stored_by=caller_details() or first.stored_by,
                    version=None,
                    head=None,
                )
                new = await self._split_again(parts, made, done, len(whole.text))
                stored = await self.store.put(self.store.numbered(new, first), first, compared=True)
            return replace(stored, masked=secrets, lines=done.lines)

    def _apply_edit(self, text: str, edit: Mapping[str, str]) -> tuple[Edited, int]:
        """The text after the edit, with new secrets masked, and the number of these."""
        done = apply_edit(text, edit)
        if len(done.text) > MAX_TEXT:
            raise RequestError(
                f"The text would be longer than {MAX_TEXT:,} characters: nothing was changed. "
                "Store what is new as a text of its own."
            )
        found = spans(done.text) if self.store.mask else []
        found = [one for one in found if one[0] < done.end and one[1] > done.start]
        if not found:
            return done, 0
        start, end = min(done.start, found[0][0]), max(done.end, found[-1][1])
        masked = without(done.text, found)
        return Edited(masked, start, end + len(masked) - len(done.text)), len(found)

    async def _split_again(
        self, parts: Sequence[Document], made: Document, done: Edited, length: int
    ) -> list[Document]:
        """The parts of an edited text; those that the edit does not touch are unchanged."""
        _, encoder = await self.store.ready(made.collection)
        base = parts[0].start or 0
        old = [((part.start or 0) - base, (part.end or 0) - base) for part in parts]
        grown = len(done.text) - length
        before, after, (start, end) = 0, 0, (0, len(done.text))
        whole = all(begin <= close for (_, close), (begin, _) in pairwise(old))
        if len(parts) > 1 and whole and old[-1][1] == length:  # without a gap
            before, after, (start, end) = choose_kept(old, done, grown)
        stretch = done.text[start:end]
        cut = await self.store.spans(encoder, made._replace(text=stretch)) if stretch else []
        rest = [(begin + grown, close + grown) for begin, close in old[len(old) - after :]]
        bounds = [*old[:before], *((start + a, start + b) for a, b in cut), *rest]
        new = parts_of(made._replace(section=parts[before].section, sections=()), done.text, bounds)
        last = enumerate(parts[len(parts) - after :], len(new) - after)
        for number, was in (*enumerate(parts[:before]), *last):
            new[number] = new[number]._replace(section=was.section, sections=was.sections)
        return new

    async def _move(
        self, one: Document, changes: Changes, to: str, seen: str | None, *, create: bool
    ) -> Stored:
        """Copy a text to another collection, then delete the original.

        After an interruption it is in both; moving it again completes the move. If the original
        changes meanwhile, it stays and the copy is deleted.
        """
        check_may_delete()
        document = one.document or str(one.id)
        async with self.store.lock(to, document):
            parts = await self._parts(one, seen)
            if parts[0].document is None:
                target = await self.store.writable(one.collection, dry=True)
                record = await self.store.points.read_record(parts[0])
                self.store.points.check_replaceable(target, record, moved=True)
            made = await self.store.ensure(to, create=create)
            moved = [_relocate(changes.applied_to(part), to) for part in parts]
            moved = [part._replace(document=document) for part in moved]
            new = self.store.numbered(moved, None)
            there = await self.store.points.first(to, document)
            if there is not None and there.revision != new[0].revision:
                raise RequestError(
                    f"{cite(to)} has a text with the id {cite(document)} already: nothing was "
                    "changed. Delete that one first, or store this one under another id."
                )
            changed = changes != Changes()
            kept = await self.store.history.keep(parts[0]) if changed else KeptVersion()
            done = await self.store.put(new, there)
        await self._delete_original(parts[0], done)
        await self._update_references(parts[0], done)
        return replace(done, created_collection=made, moved=parts[0], before=kept)

    async def _delete_original(self, old: Document, copy: Stored) -> None:
        """Delete a text that was copied, or the copy if the text has changed meanwhile."""
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
                f"The text was copied to {cite(copy.collection)}, but is still in "
                f"{cite(old.collection)}: {error} Move it again."
            ) from error

    async def _update_references(self, old: Document, done: Stored) -> None:
        """Write the new collection of a text into its versions and the texts it supersedes."""
        await self.store.history.move_versions(old, done.collection)
        with suppress(QdrantMcpError):  # the move itself is done
            for one in await self.store.points.superseded_by(old.collection, [done.document]):
                await self.store.points.retire(one, done.document, done.collection)

    async def _parts(self, one: Document, seen: str | None) -> list[Document]:
        """All parts of the text as it is now."""
        first = await self._first(one)
        check_seen(first or one, seen)
        return await self.deletion.lookup.parts(first or one)

    async def _first(self, one: Document) -> Document | None:
        found = await self.store.points.by_id(one.collection, [one.head or one.id])
        return found[0] if found else None


def _relocate(part: Document, place: str) -> Document:
    """The part in another collection, without its file and that file's time."""
    when = part.updated_at if date_of(part) else None
    heir = part.superseded_by and (part.superseded_in or part.collection)
    return part._replace(
        collection=place, file=None, updated_at=when, superseded_in=heir if heir != place else None
    )


def check_may_delete() -> None:
    """Raise RequestError if the caller may not delete."""
    who = caller()
    if who is not None and ADMIN not in who.scopes:
        raise RequestError(
            f"Nothing was changed: moving deletes a text where it was, which needs the scope "
            f"{ADMIN}, which your token lacks."
        )
