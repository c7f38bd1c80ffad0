"""qdrant-store: remember a text, change what is stored with one, bring an earlier version back."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from mcp_server_qdrant.core.context import speaker
from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import BackendError, RequestError, UnknownCollection
from mcp_server_qdrant.core.fields import Id, JsonObject, Tags, Text, Word
from mcp_server_qdrant.core.notation import (
    CALENDAR,
    amount,
    as_point_id,
    at_time,
    called,
    document_id,
    heir_id,
    impossible,
    iso,
    line,
    made_here,
    moment,
    own_id,
    part_of,
    short_id,
)
from mcp_server_qdrant.core.writes import Changes, Kept, Stored
from mcp_server_qdrant.tools.boundary import ClosedTool, answer, services_of_tool
from mcp_server_qdrant.tools.get import gone
from mcp_server_qdrant.tools.services import Services

STORE = (
    "Remember a text: decisions, facts, preferences. With the id of a stored one: replaces it, or "
    "without information changes title, tags or metadata, or moves it. What is left out stays; [] "
    "and null inside metadata remove. ID@TIME alone restores it."
)
MEMORY = "memory"  # for texts stored where neither the call nor a setting names a collection
MAX_TEXT = 2_000_000
ELSEWHERE_SECONDS = 1.0  # for which other collections are looked through for an id

Where = Annotated[
    Word | None,
    Field(description="A new name makes a collection; id's text in another one moves here"),
]
Information = Annotated[Text | None, Field(description="The text to remember")]
Seen = Annotated[Word | None, Field(description="Revision of the text; no other is changed")]
DocumentId = Annotated[
    Id | None, Field(description="Your own id, or a found one; storing again updates it")
]
Metadata = Annotated[JsonObject, Field(description="Facts to filter by: project, created_at")]
StoredTags = Annotated[Tags, Field(description="Words to filter by")]
Superseded = Annotated[
    Id | None, Field(description="Id of an outdated text: kept, but ranked last from now on")
]
Title = Annotated[Word | None, Field(description="Shown with the text")]
Place = Annotated[Word | None, Field(description="Default: all collections")]

UNLISTED = frozenset({"seen", "moved_from"})  # for the page, and careful callers


async def store(
    information: Information = None,
    metadata: Metadata = None,
    collection_name: Where = None,
    id: DocumentId = None,  # noqa: A002
    tags: StoredTags = None,
    title: Title = None,
    supersedes: Superseded = None,
    create: Annotated[bool, Field(description="Make a collection of a similar name")] = False,  # noqa: FBT002
    seen: Seen = None,
    moved_from: Place = None,
) -> CallToolResult:
    """Remember a text, or change what is stored with one."""
    services = await services_of_tool()
    created_at = _created_at(metadata)
    words = None if tags is None else tuple(dict.fromkeys(t for t in tags if t.strip()))
    if information is None and supersedes:
        raise RequestError("supersedes needs information: the text that stands in its place.")
    if information is None and id is not None:
        one = await _located(services, id, collection_name, moved_from)
        if one is None:
            given = title is not None or words is not None or metadata
            return await _restore(services, id, collection_name, bare=not given)
        dated = iso(created_at) if created_at else None
        changes = Changes(title, words, metadata, dated)
        done = await services.revision.revise(
            one, changes, to=collection_name, create=create, seen=seen
        )
        return _answer(done)
    text = _checked(information)
    collection = collection_name or await services.catalog.place() or MEMORY
    if id is not None:
        with suppress(UnknownCollection):  # it may be a new one
            (id,) = await services.lookup.full([id], collection_name)  # noqa: A001
    if collection_name is None and id is not None:
        await _check_place(services, id, collection)
    if id is not None and id.strip():
        await _check_id(services, id, collection, seen)
    new = NewDocument(
        text=text,
        metadata=metadata,
        id=id if id and id.strip() else None,
        title=title,
        tags=words,
        created_at=created_at,
        stored_by=speaker() or None,
    )
    old = await _superseded(services, supersedes, collection, new) if supersedes else None
    done = await services.store.store(new, collection, create=create, supersedes=old, seen=seen)
    renamed = [] if collection_name else await services.catalog.renamed()
    return _answer(done, renamed)


async def _restore(
    services: Services,
    id: str,  # noqa: A002
    collection: str | None,
    *,
    bare: bool,
) -> CallToolResult:
    """Bring back an earlier version; where the id is of none, say of what it may be."""
    version = await services.history.version(id, collection)
    if version is None:
        said = await gone(services, id, None)
        none = f"There is no text {called(id)}: give information to store one, or the id of a"
        raise RequestError(" ".join([none, "found text to change it.", *said]))
    if not bare:
        raise RequestError("An earlier version comes back as it was: give its id alone.")
    return _answer(await services.revision.restore(version))


def make_store(description: str | None) -> ClosedTool:
    """The tool to register."""
    return ClosedTool.make(
        store, "qdrant-store", description or STORE, write=True, unlisted=UNLISTED
    )


def _checked(information: str | None) -> str:
    if information is None or not information.strip():
        raise RequestError(
            "information is empty: give the text to remember, or the id of a stored one to change "
            "its title, tags or metadata, or its collection."
        )
    if len(information) > MAX_TEXT:
        raise RequestError(f"information is longer than {MAX_TEXT} characters: split it.")
    return information


def _created_at(metadata: Mapping[str, Any] | None) -> datetime | None:
    said = (metadata or {}).get("created_at")
    when = moment(said)
    if said is not None and when is None:
        fault = CALENDAR if impossible(said) else "no date in ISO 8601, such as 2026-05-31"
        raise RequestError(f"metadata.created_at is {fault}: correct it, or leave it out.")
    return when


async def _check_place(services: Services, id: str, default: str) -> None:  # noqa: A002
    """Raise RequestError where the id is of a text of another collection than the default one."""
    with suppress(UnknownCollection):
        if (await services.lookup.get([id], collection=default, room=1))[0]:
            return
    places = list[str]()
    with suppress(BackendError, TimeoutError):  # those that answer in time
        async with asyncio.timeout(ELSEWHERE_SECONDS):
            found, *_ = await services.lookup.get([id], room=1)
            places = [document.collection for document in found]
    if places:
        raise RequestError(
            f"id {id} is in {places[0]!r}: pass collection_name={places[0]!r} to update it there, "
            f"or collection_name={default!r} to store the text here as well."
        )


async def _check_id(services: Services, id: str, collection: str, seen: str | None) -> None:  # noqa: A002
    """Raise RequestError for the id of a text that was moved, superseded or deleted.

    So is one that only tools make, if there is no such text. A name of a caller's own makes one.
    """
    with suppress(UnknownCollection):
        found, _ = await services.lookup.located([id], collection)
        if found:
            heir = None if seen else await _heir(services, found[0])
            if heir is not None:
                raise RequestError(_followed(found[0], "store the correction under that id."))
            return
    said, point = list[str](), as_point_id(id)
    if made_here(id) or point is not None:
        said = await gone(services, id, None)
    versions = await services.history.versions(id) if said and not made_here(id) else []
    theirs = point is not None and versions and versions[0].id.startswith(f"{short_id(point)}@")
    if versions and versions[0].own == id and not theirs:
        return  # its caller's own name: it may have a text again
    part, earlier = part_of(id), at_time(id) and await services.history.version(id)
    if part and (whole := await _located(services, part[0], collection)):
        said = [f"The text {called(part[0])} has {amount(whole.chunks, 'part')} now."]
    elif earlier and earlier.id == id:
        said = ["It is an earlier version: give the id alone to bring it back."]
    elif made_here(id) and (other := await _located(services, id, None)):
        said = [f"It is of {called(other.collection)}."]
    if said or made_here(id):
        none = (
            f"There is no text {called(id)} in {called(collection)}: store a new one without id, "
        )
        raise RequestError(" ".join([f"{none}or give the id of a found one.", *said]))


async def _heir(services: Services, one: Document) -> Document | None:
    """The text that superseded this one, if it is there."""
    if one.heir is None:
        return None
    with suppress(UnknownCollection):
        place = one.superseded_in or one.collection
        return next(iter(await services.store.points.by_id(place, [one.heir])), None)
    return None


def _followed(one: Document, advice: str) -> str:
    heir, place = heir_id(one) or "", one.superseded_in or one.collection
    return (
        f"{called(document_id(one))} was superseded by id {called(heir)} of {called(place)}: "
        f"{advice}"
    )


async def _located(
    services: Services,
    id: str,  # noqa: A002
    collection: str | None,
    moved_from: str | None = None,
) -> Document | None:
    """A stored text: in `moved_from`, in the collection where there is one of this id, anywhere."""
    for place in [moved_from] if moved_from else [*filter(None, [collection]), None]:
        with suppress(*([UnknownCollection] if place == collection else [])):
            found, _ = await services.lookup.located([id], place)
            if found:
                return found[0]
    return None


async def _superseded(
    services: Services,
    id: str,  # noqa: A002
    collection: str,
    new: NewDocument,
) -> Document:
    """The text that is to rank last: of this collection, or of the one that has it."""
    found = await _located(services, id, collection)
    if found is None:
        said = await gone(services, id, None)
        none = f"supersedes: there is no text {called(id)}: use the id of a found one."
        raise RequestError(" ".join([none, *said]))
    heir = await _heir(services, found)
    again = heir and (heir.document == new.id or new.text.strip().startswith(heir.text.strip()))
    if heir is not None and not again:
        raise RequestError(f"supersedes: {_followed(found, 'give that id.')}")
    return found


def _answer(done: Stored, renamed: Sequence[str] = ()) -> CallToolResult:
    """What became of the text, on one line and as structured content."""
    values: dict[str, Any] = {
        "collection": done.collection,
        "id": own_id(done.collection, done.ids[0], done.document),
        "parts": len(done.ids),
    }
    if done.before.id:
        values["before"] = done.before.id
    if done.near:
        known, cosine = done.near
        values["near"] = {"id": document_id(known), "relevance": round(cosine, 3)}
    text = as_text(done)
    if renamed:
        text += (
            f" The folder of collection {called(renamed[0])} is gone, and may be this one under a "
            "new name: name that collection, or have its owner run mcp-server-qdrant describe "
            f"{called(renamed[0])} --folder with the new path."
        )
    return answer(text, values)


def as_text(done: Stored) -> str:
    """The result of storing, on one line."""
    verb = "Moved" if done.moved else "Updated" if done.updated else "Remembered"
    verb = "Brought back" if done.restored else verb
    parts = f" in {len(done.ids)} parts" if len(done.ids) > 1 else ""
    made = " (new collection)" if done.created_collection else ""
    later = " Found by keywords now, by meaning once the model is there." if done.pending else ""
    if done.lacking:
        later = f" Found by keywords only, until this is mended: {line(done.lacking, None)}"
    if done.without_vector:
        why = line(done.without_vector.removeprefix("keywords only: "), None)
        later = f" Found by keywords only: {why}."
    kept = f" Kept as before: {', '.join(done.kept)}." if done.kept else ""
    if done.replaced > 1:
        parts += f" instead of all its {done.replaced} parts"
    shown = own_id(done.collection, done.ids[0], done.document)
    place = f"collection {called(done.collection)}{made}{parts}: id {called(shown)}"
    where = f"{'to' if done.moved else 'in'} {place}"
    secret = f" {amount(done.masked, 'secret')} in it masked." if done.masked else ""
    old = f" Superseded: id {called(document_id(done.retired))}." if done.retired else ""
    back = ""
    if done.moved and done.moved.file:
        back = " It is from a file: the next sync of its folder stores it where it was, too."
    elif done.before.file:
        back = " It is from a file: the next sync of its folder brings the file's text back."
    return f"{verb} {where}.{secret}{kept}{later}{old}{back}{_before(done.before)}{_nearly(done)}"


def _before(done: Kept) -> str:
    """The version that a text replaced, and for how long it is there."""
    if done.fault:
        return f" The version before was not kept: {line(done.fault, None)}"
    return f" The version before: id {called(done.id)}, kept {done.days} days." if done.id else ""


def _nearly(done: Stored) -> str:
    """The memory that the text nearly repeats, and how to keep one of the two."""
    if done.near is None:
        return ""
    known, cosine = done.near
    return (
        f" Nearly repeats id {called(document_id(known))} [{cosine:.2f}]: to retire that one, store"
        " this again with that id as supersedes; to update it, with that id as id, and delete this"
        f" one.\n> {line(known.text)}"
    )
