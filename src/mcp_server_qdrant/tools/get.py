"""qdrant-get: whole texts, the parts beside a passage, earlier versions."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, RequestError
from mcp_server_qdrant.core.fields import Id, Word, one_or_many
from mcp_server_qdrant.core.notation import (
    at_time,
    begins,
    called,
    document_id,
    every,
    line,
    moment,
    shown_id,
)
from mcp_server_qdrant.core.writes import LISTED, Version
from mcp_server_qdrant.tools.boundary import ClosedTool, answer, services_of_tool
from mcp_server_qdrant.tools.rendering import (
    BACK,
    described,
    details,
    heading,
    noted,
    quoted,
    structured,
    superseded,
)
from mcp_server_qdrant.tools.services import Services

if TYPE_CHECKING:
    from mcp_server_qdrant.qdrant.history import History

GET = "Texts of ids from qdrant-find, or whole documents by your own ids; ID@TIME as of then."
MAX_IDS = 50
MAX_NEIGHBOURS = 20
MAX_CHARACTERS = 60_000  # of texts in one answer: more than most clients hand on to their model
CHARACTERS = 20_000  # about 5,000 tokens

Ids = Annotated[
    list[Id],
    BeforeValidator(one_or_many),
    Field(min_length=1, max_length=MAX_IDS, description="Found ids, or your own"),
]
Place = Annotated[Word | None, Field(description="Default: all collections")]
Size = Annotated[
    int,
    Field(ge=1_000, le=MAX_CHARACTERS, description="Most characters"),
]
Versions = Annotated[bool, Field(description="List earlier versions")]
Neighbours = Annotated[
    int, Field(ge=0, le=MAX_NEIGHBOURS, description="Parts before and after to add")
]


async def get(
    ids: Ids,
    neighbours: Neighbours = 0,
    collection_name: Place = None,
    size: Size = CHARACTERS,
    versions: Versions = False,  # noqa: FBT002
    point_ids: bool = False,  # noqa: FBT001, FBT002
) -> CallToolResult:
    """Whole texts."""
    services = await services_of_tool()
    if versions:
        return await _versions(services.history, ids, collection_name)
    found, missing, failures = await services.lookup.get(
        ids, neighbours=neighbours, collection=collection_name, room=size
    )
    earlier, said = await _earlier(services, missing, collection_name, size)
    missing = [one for one in missing if one not in earlier]
    found += [one for one, _ in earlier.values()]
    if missing and collection_name:
        said += filter(None, [await services.lookup.elsewhere(missing, collection_name)])
    if not found:
        said += unseen(failures)
        raise RequestError(whole_texts([], missing, said))
    shown, notes = fitting(found, size)
    shown, more = described(shown)
    notes += [*said, *more, *torn(shown), *read_on(shown), *unseen(failures)]
    ends = {one.document: ended for one, ended in earlier.values()}
    texts = [structured(one, points=point_ids) | ends.get(one.document, {}) for one in shown]
    content = {"documents": texts, "missing": missing, "notes": notes}
    return answer(whole_texts(shown, missing, notes), content)


def make_get() -> ClosedTool:
    """The tool to register."""
    return ClosedTool.make(get, "qdrant-get", GET, write=False, unlisted={"point_ids"})


def fitting(
    found: Sequence[Document], room: int, most: int = MAX_CHARACTERS
) -> tuple[list[Document], list[str]]:
    """As many of the documents, in order, as have room together, and notes of what is not there.

    The first is always shown: cut to `room` characters where it alone has more; a call may ask for
    `most`.
    """
    first, *others = found
    shown, notes, length = [first], [], len(first.text)
    if length > room:
        shown = [first._replace(text=first.text[:room])]
        rest = f"size={length} gives the rest"
        if length > most:
            rest = "qdrant-find within it shows passages of the rest"
        notes.append(
            f"id {called(shown_id(first))} is cut after {room:,} of {length:,} characters: {rest}."
        )
    left: list[Document] = []
    used = len(first.text)
    for document in others:
        used += len(document.text)
        (left if used > room else shown).append(document)
    if left:
        names = every(shown_id(document) for document in left)
        notes.append(f"Left out for their length, to be asked for in another call: {names}.")
    return shown, notes


def whole_texts(found: Sequence[Document], missing: Sequence[str], more: Sequence[str] = ()) -> str:
    """Whole texts, the ids that are nowhere, and what else the caller should know."""
    blocks = []
    for document in found:
        lines = [heading(document), *quoted(document.text), *details(document)]
        if document.superseded_by:
            lines.append(superseded(document))
        if document.chunks > 1 and document.document is not None and not begins(document):
            lines.append(f"whole text: id {called(document_id(document))}")
        blocks.append("\n".join(lines))
    if missing:
        names = ", ".join(repr(line(one)) for one in missing)
        blocks.append(f"Not found: {names}. Use ids that qdrant-find returned.")
    blocks += noted(more)
    return "\n\n".join(blocks)


def torn(shown: Sequence[Document]) -> list[str]:
    """The texts that are not complete, and how to repair them."""
    return [
        f"id {called(document_id(one))} has parts of two versions, or lacks some: an"
        " update was cut short. Store its text again under that id."
        for one in shown
        if one.torn
    ]


def read_on(shown: Sequence[Document]) -> list[str]:
    """How to read on after texts that are not the end of their document: as much as before."""
    notes = []
    for one in shown:
        if one.document is not None and one.last is not None and one.last + 1 < one.chunks:
            neighbours = min((one.last - one.chunk) // 2, MAX_NEIGHBOURS)
            middle = min(one.last + 1 + neighbours, one.chunks - 1)
            own = document_id(one)
            notes.append(
                f"id {called(own)} goes on behind part {one.last + 1} of {one.chunks}: read on with"
                f" id {called(f'{own}:{middle + 1}/{one.chunks}')} and neighbours={neighbours}."
            )
    return notes


def unseen(failures: Sequence[str]) -> list[str]:
    """The collections that could not be read."""
    return [f"not looked in {failure}" for failure in failures]


async def _versions(
    history: "History", ids: Sequence[str], collection: str | None
) -> CallToolResult:
    """The versions of some texts, a line each. Raises RequestError where there are none."""
    each = [await history.versions(wanted, collection) for wanted in ids]
    found = [one for versions in each for one in versions]
    if not found:
        raise RequestError(f"No earlier version of {every(ids)} is kept.")
    lines = [f"- {one.line}" for one in found]
    older = ["older ones by ID@TIME"] if max(map(len, each)) >= LISTED else []
    lines += noted([", ".join([f"qdrant-get reads one by its id, {BACK}", *older]) + "."])
    return answer("\n".join(lines), {"versions": [_structured(one) for one in found]})


async def _earlier(
    services: Services, missing: Sequence[str], collection: str | None, room: int
) -> tuple[dict[str, tuple[Document, dict[str, Any]]], list[str]]:
    """The texts as they were that ids of no text mean, each with how it ended, and sentences.

    Raises RequestError where one is in several collections.
    """
    found, notes = dict[str, tuple[Document, dict[str, Any]]](), list[str]()
    try:
        for wanted in missing:
            if one := await services.history.version(wanted, collection):
                found[wanted] = one.document, _ended(one)
                notes.append(f"id {called(one.id)} is an earlier version, {one.ended}.")
                asked, first = at_time(wanted), moment(one.document.created_at)
                if asked and first and first > asked[1] and not one.document.dated:
                    notes.append(f"At that time there was no text with the id {called(asked[0])}.")
            elif named := at_time(wanted):
                present, said = await _unchanged(services, *named, collection, room)
                notes += said
                if present:
                    found[wanted] = present, {}
            else:
                notes += await gone(services, wanted, collection)
    except BackendError as error:
        notes.append(f"not looked for earlier versions: {error}")
    return found, notes


async def _unchanged(
    services: Services, own: str, when: datetime, collection: str | None, room: int
) -> tuple[Document | None, list[str]]:
    """The text of this id, if it is as it was at that time, and a sentence on it.

    Raises RequestError where it is in several collections.
    """
    found, _, failures = await services.lookup.get(
        [own], collection=collection, room=room, whole=True
    )
    if len(found) > 1:
        places = every(sorted({one.collection for one in found}))
        raise RequestError(f"{own} is in {places}: pass collection_name.")
    if not found:
        return None, unseen(failures)
    # What a file or its own date says is not when it was written.
    known = found[0].file is None and found[0].updated_at != found[0].created_at
    since = moment(found[0].updated_at) if known else None
    if since and since <= when:
        return found[0], [f"id {called(own)} has not changed since that time."]
    return None, [
        f"no version of id {called(own)} at that time is kept: read it as it is now, without @."
    ]


async def gone(services: Services, wanted: str, collection: str | None) -> list[str]:
    """A sentence on a text that was deleted or moved, and how to have it back."""
    versions = await services.history.versions(wanted, collection)
    if not versions:
        return []
    last = versions[0]
    now = last.id.rpartition("@")[0]
    if not last.deleted and now != wanted:
        with suppress(QdrantMcpError):
            if (await services.lookup.located([now], last.collection))[0]:
                return [f"That text is id {called(now)} of {called(last.collection)} now."]
    return [f"{called(wanted)} was {last.ended}: qdrant-get reads id {called(last.id)}, {BACK}."]


def _ended(one: Version) -> dict[str, Any]:
    """What structured content tells of a version beside its text."""
    return {"id": one.id, "until": one.until, "by": dict(one.by), "deleted": one.deleted}


def _structured(one: Version) -> dict[str, Any]:
    about = {"title": one.document.title, "text": one.document.text}
    return _ended(one) | {"collection": one.collection} | {k: v for k, v in about.items() if v}
