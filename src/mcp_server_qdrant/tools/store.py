"""qdrant-store: stores a text, changes a stored one, or restores an earlier version."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from mcp_server_qdrant.core.context import caller_details
from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.dates import calendar_dates, parse_date
from mcp_server_qdrant.core.errors import BackendError, RequestError, UnknownCollection
from mcp_server_qdrant.core.expiry import is_expired, parse_expiry
from mcp_server_qdrant.core.fields import Id, JsonObject, Tags, Text, Word, one_or_many
from mcp_server_qdrant.core.notation import (
    CALENDAR,
    as_point_id,
    cite,
    document_id,
    impossible_time,
    is_tool_id,
    iso,
    one_line,
    own_id,
    part_of,
    plural,
    short_id,
)
from mcp_server_qdrant.core.writes import Changes, Stored
from mcp_server_qdrant.ingest.attributes import MAX_TEXT
from mcp_server_qdrant.ingest.edits import check
from mcp_server_qdrant.qdrant.read.scope import MEMORY
from mcp_server_qdrant.tools.about import tell_about
from mcp_server_qdrant.tools.boundary import ClosedTool, make_result, services_of_tool
from mcp_server_qdrant.tools.get import explain_missing, find_expired
from mcp_server_qdrant.tools.services import Services
from mcp_server_qdrant.tools.supersession import (
    check_free,
    describe_links,
    describe_near,
    link,
    name_successor,
    near_data,
)

STORE = (
    "Remember a text: decisions, facts, preferences. With a stored id: replaces that text; "
    "without information: changes its title, tags or metadata, or moves it. What is not given "
    "stays; [] and null in metadata remove. ID@TIME alone restores a version."
)
MAX_OLD = 50  # texts superseded by one call
ELSEWHERE_SECONDS = 1.0  # for searching other collections for an id

Where = Annotated[Word | None, Field(description="Created if new; with id: moves that text here")]
Information = Annotated[Text | None, Field(description="Text to remember")]
Seen = Annotated[Word | None, Field(description="Revision of the text; no other is changed")]
DocumentId = Annotated[
    Id | None, Field(description="Your own, or a found one; storing again updates it")
]
Edit = Annotated[
    JsonObject,
    Field(
        description="Changes the text of id: append; prepend; replace, with; section (A > B), with"
    ),
]
Metadata = Annotated[
    JsonObject,
    Field(description="Filter by: project (or all), created_at; source: URL if from the web"),
]
StoredTags = Annotated[
    Tags, Field(description="Words to filter by; pinned, open: shown at session start")
]
Superseded = Annotated[
    Annotated[list[Id], Field(max_length=MAX_OLD)] | None,
    BeforeValidator(one_or_many),
    Field(description="Ids of texts that this one (or id) makes outdated: ranked last; []: undo"),
]
Title = Annotated[Word | None, Field(description="Shown with the text")]
About = Annotated[
    JsonObject,
    Field(description="Of the collection: description; folder (. is this one); follow (sync it)"),
]
Place = Annotated[Word | None, Field(description="Default: all collections")]
Expires = Annotated[
    Word | None, Field(description="Date, or 90 days: not found after it; never: no expiry")
]

UNLISTED = frozenset({"seen", "moved_from"})  # for the page /viz and careful callers


async def store(
    information: Information = None,
    metadata: Metadata = None,
    collection_name: Where = None,
    id: DocumentId = None,  # noqa: A002
    tags: StoredTags = None,
    title: Title = None,
    supersedes: Superseded = None,
    expires: Expires = None,
    create: Annotated[bool, Field(description="Create even if the name resembles another")] = False,  # noqa: FBT002
    about: About = None,
    edit: Edit = None,
    seen: Seen = None,
    moved_from: Place = None,
) -> CallToolResult:
    """Store a text, or change a stored one."""
    services = await services_of_tool()
    if about is not None:
        if information is not None or id is not None or edit is not None:
            raise RequestError("about describes a collection: store the text in a separate call.")
        return await tell_about(services, about, collection_name, create=create)
    if edit is not None and (information is not None or id is None):
        raise RequestError("edit needs the id of a stored text, and no information.")
    now = services.store.now()
    metadata = calendar_dates(metadata, now)
    created_at = _parse_created_at(metadata)
    ends = None if expires is None else parse_expiry(expires, now)
    words = None if tags is None else tuple(dict.fromkeys(t for t in tags if t.strip()))
    if information is None and supersedes and id is None:
        raise RequestError(
            "supersedes needs information, or the id of the stored text that replaces the old ones."
        )
    collection_name = collection_name and await services.catalog.resolve_alias(collection_name)
    if information is None and id is not None:
        dated = iso(created_at) if created_at else None
        changes = Changes(title, words, metadata, dated, ends)
        return await _change(
            services,
            id,
            changes,
            collection_name,
            supersedes,
            edit and check(edit),
            moved_from=moved_from,
            create=create,
            seen=seen,
        )
    return await _remember(
        services,
        NewDocument(
            text=_check_text(information),
            metadata=metadata,
            id=id,
            title=title,
            tags=words,
            created_at=created_at,
            stored_by=caller_details() or None,
            expires=ends,
        ),
        collection_name,
        supersedes,
        create=create,
        seen=seen,
    )


async def _change(
    services: Services,
    id: str,  # noqa: A002
    changes: Changes,
    named: str | None,
    supersedes: Sequence[str] | None,
    edit: Mapping[str, str] | None,
    *,
    moved_from: str | None,
    create: bool,
    seen: str | None,
) -> CallToolResult:
    """Change a stored text or its attributes, or restore an earlier version."""
    one = await _find_text(services, id, named, moved_from)
    if one is None and edit:
        said = await explain_missing(services, id, None)
        none = f"There is no text {cite(id)}: edit takes the id of a stored one."
        raise RequestError(" ".join([none, *said]))
    if one is None:
        bare = changes == Changes() and supersedes is None
        return await _restore(services, id, named, bare=bare)
    if edit and not seen and await services.store.points.find_heir(one):
        raise RequestError(name_successor(one, "edit that one."))
    olds = None if supersedes is None else await _find_outdated(services, supersedes, None)
    await check_free(services, olds or (), one.document, None)
    first = (one.head or one.id,)
    done = Stored(one.collection, one.document or str(one.id), first, updated=True)
    if changes.expires is None and is_expired(one, services.store.now()):
        changes = replace(changes, expires="")
    elsewhere = named not in (None, one.collection)
    if olds is None or elsewhere or changes != Changes() or edit:
        done = await services.revision.revise(
            one, changes, to=named, create=create, seen=seen, edit=edit
        )
    return _store_result(await link(services, done, olds))


async def _remember(
    services: Services,
    new: NewDocument,
    named: str | None,
    supersedes: Sequence[str] | None,
    *,
    create: bool,
    seen: str | None,
) -> CallToolResult:
    """Store a text in the `named` or the default collection."""
    project = (new.metadata or {}).get("project")
    collection = named or await services.catalog.storing_collection(project) or MEMORY
    if new.id is not None:
        # An id of ours is of one text, wherever it is; a name may be in several collections.
        unique = named is None and is_tool_id(new.id)
        found = await _find_text(services, new.id, None) if unique else None
        collection = found.collection if found else collection
        with suppress(UnknownCollection):  # it may be a new one
            (own,) = await services.lookup.complete_ids([new.id], named)
            new = replace(new, id=own)
        if named is None and found is None:
            await _check_place(services, str(new.id), collection)
        if str(new.id).strip():
            await _check_id(services, str(new.id), collection, seen)
        else:
            new = replace(new, id=None)
    olds = await _find_outdated(services, supersedes or (), collection)
    await check_free(services, olds, new.id, new.text)
    done = await services.store.store(new, collection, create=create, supersedes=olds, seen=seen)
    if supersedes == []:
        done = await link(services, done, [])
    renamed = [] if named else await services.catalog.find_renamed()
    return _store_result(done, renamed)


async def _restore(
    services: Services,
    id: str,  # noqa: A002
    collection: str | None,
    *,
    bare: bool,
) -> CallToolResult:
    """Restore an earlier version. Raises RequestError with a hint if the id is not of a version."""
    version = await services.history.version(id, collection)
    if version is None and bare and (one := await find_expired(services, id, collection)):
        return _store_result(await services.revision.revise(one, Changes(expires="")))
    if version is None:
        said = await explain_missing(services, id, None)
        none = f"There is no text {cite(id)}: give information to store one, or the id of a"
        raise RequestError(" ".join([none, "found text to change it.", *said]))
    if not bare:
        raise RequestError("An earlier version is restored unchanged: give only its id.")
    return _store_result(await services.revision.restore(version))


def make_store(description: str | None) -> ClosedTool:
    """The tool to register."""
    return ClosedTool.make(
        store,
        "qdrant-store",
        description or STORE,
        write=True,
        repeatable=False,  # an append is added again
        unlisted=UNLISTED,
    )


def _check_text(information: str | None) -> str:
    if information is None or not information.strip():
        raise RequestError(
            "information is empty: give the text to remember, or the id of a stored text to "
            "change its title, tags, metadata or collection."
        )
    if len(information) > MAX_TEXT:
        raise RequestError(f"information is longer than {MAX_TEXT} characters: split it.")
    return information


def _parse_created_at(metadata: Mapping[str, Any] | None) -> datetime | None:
    said = (metadata or {}).get("created_at")
    when = parse_date(said)
    if said is not None and when is None:
        fault = CALENDAR if impossible_time(said) else "not a date such as 2026-05-31"
        raise RequestError(f"metadata.created_at is {fault}: correct it, or leave it out.")
    return when


async def _check_place(services: Services, id: str, default: str) -> None:  # noqa: A002
    """Raise RequestError if a text with this id is in another collection than the default."""
    with suppress(UnknownCollection):
        if (await services.lookup.get([id], collection=default, room=1))[0]:
            return
    places = list[str]()
    with suppress(BackendError, TimeoutError):  # best effort
        async with asyncio.timeout(ELSEWHERE_SECONDS):
            found, *_ = await services.lookup.get([id], room=1)
            places = [document.collection for document in found]
    if places:
        raise RequestError(
            f"id {id} is in {places[0]!r}: pass collection_name={places[0]!r} to update it there, "
            f"or collection_name={default!r} to store the text here as well."
        )


async def _check_id(services: Services, id: str, collection: str, seen: str | None) -> None:  # noqa: A002
    """Raise RequestError for the id of a moved, superseded or deleted text.

    An unknown id is accepted only if it is a name that the caller chose, not one in our own form.
    """
    with suppress(UnknownCollection):
        found, _ = await services.lookup.locate([id], collection)
        if found:
            if not seen and await services.store.points.find_heir(found[0]):
                raise RequestError(name_successor(found[0], "store the correction under that id."))
            return
    said, point = list[str](), as_point_id(id)
    if is_tool_id(id) or point is not None:
        said = await explain_missing(services, id, None)
    versions = await services.history.versions(id) if said and not is_tool_id(id) else []
    theirs = point is not None and versions and versions[0].id.startswith(f"{short_id(point)}@")
    if versions and versions[0].own == id and not theirs:
        return  # a name chosen by the caller can be reused
    part, earlier = part_of(id), await services.history.version(id)
    if part and (whole := await _find_text(services, part[0], collection)):
        said = [f"The text {cite(part[0])} has {plural(whole.chunks, 'part')} now."]
    elif earlier and earlier.id == id:
        said = ["It is an earlier version: give only its id to restore it."]
    elif is_tool_id(id) and (other := await _find_text(services, id, None)):
        said = [f"It is in collection {cite(other.collection)}."]
    if said or is_tool_id(id):
        none = f"There is no text {cite(id)} in {cite(collection)}: store a new one without id, "
        raise RequestError(" ".join([f"{none}or give the id of a found one.", *said]))


async def _find_text(
    services: Services,
    id: str,  # noqa: A002
    collection: str | None,
    moved_from: str | None = None,
) -> Document | None:
    """The text with this id: in `moved_from`, else in the collection, else in any."""
    for place in [moved_from] if moved_from else [*filter(None, [collection]), None]:
        with suppress(*([UnknownCollection] if place == collection else [])):
            found, _ = await services.lookup.locate([id], place)
            if found:
                return found[0]
    return None


async def _find_outdated(
    services: Services, ids: Sequence[str], collection: str | None
) -> list[Document]:
    """The superseded texts, from this collection or any other."""
    olds: list[Document] = []
    for id in ids:  # noqa: A001
        found = await _find_text(services, id, collection)
        if found is None:
            said = await explain_missing(services, id, None)
            none = f"supersedes: there is no text {cite(id)}: use the id of a found one."
            raise RequestError(" ".join([none, *said]))
        olds.append(found)
    return olds


def _store_result(done: Stored, renamed: Sequence[str] = ()) -> CallToolResult:
    """The result of a store as text and as structured content."""
    values: dict[str, Any] = {
        "collection": done.collection,
        "id": own_id(done.collection, done.ids[0], done.document),
        "parts": len(done.ids),
    }
    if done.expires:
        values["expires_at"] = done.expires
    if done.before.id:
        values["before"] = done.before.id
    if done.lines:
        values["lines"] = list(done.lines)
    if done.near:
        values["near"] = near_data(done)
    if done.heir:
        values["superseded_by"] = document_id(done.heir)
    text = as_text(done)
    if renamed:
        text += (
            f" The folder of collection {cite(renamed[0])} no longer exists. If it was renamed to "
            "this one, pass that collection_name, or have the user run mcp-server-qdrant describe "
            f"{cite(renamed[0])} --folder with the new path."
        )
    return make_result(text, values)


def as_text(done: Stored) -> str:
    """The result of storing, on one line; similar texts follow on lines of their own."""
    verb = "Moved" if done.moved else "Updated" if done.updated else "Remembered"
    verb = "Restored" if done.restored else verb
    made = " (new collection)" if done.created_collection else ""
    parts = f" in {len(done.ids)} parts" if len(done.ids) > 1 else ""
    if done.replaced > 1:
        parts += f" instead of all its {done.replaced} parts"
    place = f"collection {cite(done.collection)}{made}{parts}"
    own = cite(own_id(done.collection, done.ids[0], done.document))
    said = [f"{verb} {'to' if done.moved else 'in'} {place}: id {own}."]
    if done.masked:
        said.append(f"Masked {plural(done.masked, 'secret')}.")
    if done.kept:
        said.append(f"Unchanged: {', '.join(done.kept)}.")
    said += [*_how_found(done), *describe_links(done)]
    if done.expires:
        said.append(f"Expires {done.expires}: from then on it is kept, but not found.")
    if done.lines:
        first, last = done.lines
        said.append(f"Changed: line{f's {first:,}-' if first < last else ' '}{last:,}.")
    said += [*_previous_notes(done), *([f"{done.hint}."] if done.hint else [])]
    return " ".join([*said, *describe_near(done)])


def _how_found(done: Stored) -> list[str]:
    """A sentence if the text has no vector."""
    if done.without_vector:
        why = one_line(done.without_vector.removeprefix("keywords only: "), None)
        return [f"Found by keywords only: {why}."]
    if done.lacking:
        return [f"Found by keywords only, until this is fixed: {one_line(done.lacking, None)}"]
    later = "Found by keywords now, and by meaning once the model is ready."
    return [later] if done.pending else []


def _previous_notes(done: Stored) -> list[str]:
    """What the next sync does with the text of a file; the previous version, and how long."""
    said, before = [], done.before
    if done.moved and done.moved.file:
        said.append(
            "It is from a file: the next sync of its folder stores it in the old collection again."
        )
    elif before.file:
        said.append("It is from a file: the next sync of its folder brings the file's text back.")
    if before.fault:
        said.append(f"The previous version was not kept: {one_line(before.fault, None)}")
    elif before.id:
        said.append(f"Previous version: id {cite(before.id)}, kept {before.days} days.")
    return said
