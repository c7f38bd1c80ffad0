"""qdrant-get: whole texts, the parts beside a passage, earlier versions."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field
from rapidfuzz.distance import Prefix

from mcp_server_qdrant.core.context import to_local
from mcp_server_qdrant.core.datatypes import Document, Earlier
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, RequestError
from mcp_server_qdrant.core.expiry import is_expired
from mcp_server_qdrant.core.fields import Id, Word, one_or_many, without_null
from mcp_server_qdrant.core.notation import (
    cite,
    cite_all,
    document_id,
    has_start,
    heir_id,
    one_line,
    parse_time,
    place_of,
    plural,
    shown_id,
)
from mcp_server_qdrant.core.writes import LINE, LISTED, Version
from mcp_server_qdrant.tools.boundary import ClosedTool, make_result, services_of_tool
from mcp_server_qdrant.tools.rendering import (
    BACK,
    as_notes,
    details,
    document_data,
    heading,
    limit_metadata,
    quote,
    successor_line,
    version_data,
)
from mcp_server_qdrant.tools.services import Services

GET = "Texts by ids from qdrant-find, or whole documents by your own ids; ID@TIME: as of then."
MAX_IDS = 50
MAX_NEIGHBOURS = 20
MAX_CHARACTERS = 60_000  # of texts in one answer; most clients pass on less to their model
BEFORE = 20  # characters shown before what changed
CHARACTERS = 20_000  # about 5,000 tokens

Ids = Annotated[
    list[Id],
    BeforeValidator(one_or_many),
    Field(min_length=1, max_length=MAX_IDS, description="Found or own ids"),
]
Place = Annotated[Word | None, Field(description="Default: all collections")]
Size = Annotated[int, Field(ge=1_000, le=MAX_CHARACTERS, description="Maximum characters")]
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
        return await _versions(services, ids, collection_name)
    found, missing, failures = await services.lookup.get(
        ids, neighbours=neighbours, collection=collection_name, room=size
    )
    earlier, said = await _find_earlier(services, missing, collection_name, size)
    missing = [one for one in missing if one not in earlier]
    found += [one for one, _ in earlier.values()]
    if missing and collection_name:
        said += filter(None, [await services.lookup.describe_elsewhere(missing, collection_name)])
    if not found:
        said += unread_notes(failures)
        raise RequestError(render_texts([], missing, said))
    shown, notes = fit(found, size)
    shown, more = limit_metadata(shown)
    now = services.store.now()
    said += [expired_note(one) for one in shown if is_expired(one, now)]
    present = [one for one in shown if one.document not in earlier]
    changed = {place_of(one): one for one in present}
    before = await services.history.count_earlier(present)
    since = [_unchanged_note(changed[place], one) for place, one in before.items()]
    notes += [*said, *more, *torn_notes(shown), *read_on_notes(shown), *unread_notes(failures)]
    ends = {one.document: ended for one, ended in earlier.values()}
    texts = [
        document_data(one, points=point_ids)
        | version_data(before.get(place_of(one)))
        | ends.get(one.document, {})
        for one in shown
    ]
    content = {"documents": texts, "missing": missing, "notes": notes}
    return make_result(render_texts(shown, missing, [*since, *notes]), content)


def make_get() -> ClosedTool:
    """The tool to register."""
    return ClosedTool.make(get, "qdrant-get", GET, write=False, unlisted={"point_ids"})


def fit(
    found: Sequence[Document], room: int, most: int = MAX_CHARACTERS
) -> tuple[list[Document], list[str]]:
    """The first documents that fit, in order, and notes on what is left out.

    The first is always shown, cut to `room` characters if it is longer. `most` is the largest room
    that a call can ask for.
    """
    first, *others = found
    shown, notes, length = [first], [], len(first.text)
    if length > room:
        shown = [first._replace(text=first.text[:room])]
        rest = f"size={length} gives the rest"
        if length > most:
            rest = "qdrant-find within it shows passages of the rest"
        notes.append(
            f"id {cite(shown_id(first))} is cut after {room:,} of {length:,} characters: {rest}."
        )
    left: list[Document] = []
    used = len(first.text)
    for document in others:
        used += len(document.text)
        (left if used > room else shown).append(document)
    if left:
        names = cite_all(shown_id(document) for document in left)
        notes.append(f"Left out because of their length; ask for them in another call: {names}.")
    return shown, notes


def render_texts(
    found: Sequence[Document], missing: Sequence[str], more: Sequence[str] = ()
) -> str:
    """Whole texts, the ids that were not found, and notes."""
    blocks = []
    for document in found:
        lines = [heading(document), *quote(document.text), *details(document)]
        if heir_id(document):
            lines.append(successor_line(document))
        if document.chunks > 1 and document.document is not None and not has_start(document):
            lines.append(f"whole text: id {cite(document_id(document))}")
        blocks.append("\n".join(lines))
    if missing:
        names = ", ".join(repr(one_line(one)) for one in missing)
        blocks.append(f"Not found: {names}. Use ids that qdrant-find returned.")
    blocks += as_notes(more)
    return "\n\n".join(blocks)


def torn_notes(shown: Sequence[Document]) -> list[str]:
    """Notes on incomplete texts, and how to repair them."""
    return [
        f"id {cite(document_id(one))} has parts of two versions, or lacks some: an update was"
        " interrupted. Store its text again under that id."
        for one in shown
        if one.torn
    ]


def read_on_notes(shown: Sequence[Document]) -> list[str]:
    """Notes on how to read on after texts whose document continues: as many parts again."""
    notes = []
    for one in shown:
        if one.document is not None and one.last is not None and one.last + 1 < one.chunks:
            neighbours = min((one.last - one.chunk) // 2, MAX_NEIGHBOURS)
            middle = min(one.last + 1 + neighbours, one.chunks - 1)
            own = document_id(one)
            notes.append(
                f"id {cite(own)} continues after part {one.last + 1} of {one.chunks}: read"
                f" on with id {cite(f'{own}:{middle + 1}/{one.chunks}')} and"
                f" neighbours={neighbours}."
            )
    return notes


def unread_notes(failures: Sequence[str]) -> list[str]:
    """Notes on the collections that could not be read."""
    return [f"not searched: {failure}" for failure in failures]


async def _versions(
    services: Services, ids: Sequence[str], collection: str | None
) -> CallToolResult:
    """List the versions of some texts. Raises RequestError if there are none."""
    each = [await services.history.versions(wanted, collection) for wanted in ids]
    found = [version for versions in each for version in versions]
    if not found:
        raise RequestError(f"No earlier version of {cite_all(ids)} is kept.")
    told = [await _tell_apart(services, of, some) for of, some in zip(ids, each, strict=True)]
    lines = [f"- {one.summary}" for some in told for one in some]
    older = ["older ones by ID@TIME"] if max(map(len, each)) >= LISTED else []
    lines += as_notes([", ".join([f"qdrant-get reads one by its id, {BACK}", *older]) + "."])
    return make_result("\n".join(lines), {"versions": [_version_with_text(one) for one in found]})


async def _tell_apart(
    services: Services, own: str, versions: Sequence[Version]
) -> Sequence[Version]:
    """The versions; those that begin alike with the passage that the next one changed instead."""
    if not versions:
        return versions
    found, *_ = await services.lookup.get([own], collection=versions[0].collection, whole=True)
    known = [one.text for one in found] + [one.document.text for one in versions]
    if len({one_line(text, LINE) for text in known}) == len(known):
        return versions
    told, later = list[Version](), known[0] if found else ""
    for one in versions:
        whole = await services.history.version(one.id, one.collection)
        text = whole.document.text if whole else one.document.text
        same = Prefix.similarity(text, later)
        line = text.count("\n", 0, same) + 1
        start = max(text.rfind("\n", 0, same), text.rfind(" ", 0, max(same - BEFORE, 0))) + 1
        changed = f"line {line}: {text[start:]}" if same > LINE else text
        told.append(replace(one, document=one.document._replace(text=changed)))
        later = text
    return told


def _unchanged_note(one: Document, earlier: Earlier) -> str:
    """A note on a text that was changed."""
    when = to_local(datetime.fromisoformat(earlier.since)).date()
    count = plural(earlier.number, "earlier version")
    own = cite(document_id(one))
    return f"id {own} is unchanged since {when}; {count}: versions=true lists them."


async def _find_earlier(
    services: Services, missing: Sequence[str], collection: str | None, room: int
) -> tuple[dict[str, tuple[Document, dict[str, Any]]], list[str]]:
    """Earlier versions for the missing ids: id -> (text, how it ended); and notes.

    Raises RequestError if an id is in several collections.
    """
    found, notes = dict[str, tuple[Document, dict[str, Any]]](), list[str]()
    try:
        for wanted in missing:
            if one := await services.history.version(wanted, collection):
                found[wanted] = one.document, _version_data(one)
                notes.append(f"id {cite(one.id)} is an earlier version, {one.ended}.")
                asked, first = services.history.at_time(wanted), parse_time(one.document.created_at)
                if asked and first and first > asked[1] and not one.document.dated:
                    notes.append(f"At that time there was no text with the id {cite(asked[0])}.")
            elif named := services.history.at_time(wanted):
                present, said = await _find_unchanged(services, *named, collection, room)
                notes += said
                if present:
                    found[wanted] = present, {}
            else:
                notes += await explain_missing(services, wanted, collection)
    except BackendError as error:
        notes.append(f"earlier versions could not be read: {error}")
    return found, notes


async def _find_unchanged(
    services: Services, own: str, when: datetime, collection: str | None, room: int
) -> tuple[Document | None, list[str]]:
    """The text with this id if it has not changed since that time, and notes.

    Raises RequestError if it is in several collections.
    """
    found, _, failures = await services.lookup.get(
        [own], collection=collection, room=room, whole=True
    )
    if len(found) > 1:
        places = cite_all(sorted({one.collection for one in found}))
        raise RequestError(f"{own} is in {places}: pass collection_name.")
    if not found:
        return None, unread_notes(failures)
    # A file's time, or a stated date, is not when the text was stored.
    known = found[0].file is None and found[0].updated_at != found[0].created_at
    since = parse_time(found[0].updated_at) if known else None
    if (since and since <= when) or when == parse_time(found[0].expires):
        return found[0], [f"id {cite(own)} has not changed since that time."]
    return None, [
        f"no version of id {cite(own)} from that time is kept; the id without @ gives the "
        "present text."
    ]


async def explain_missing(services: Services, wanted: str, collection: str | None) -> list[str]:
    """A note on a text that was deleted or moved, and how to restore it."""
    versions = await services.history.versions(wanted, collection)
    if not versions:
        return []
    last = versions[0]
    now = last.id.rpartition("@")[0]
    if not last.deleted and now != wanted:
        with suppress(QdrantMcpError):
            if (await services.lookup.locate([now], last.collection))[0]:
                return [f"That text is id {cite(now)} of {cite(last.collection)} now."]
    return [f"{cite(wanted)} was {last.ended}: qdrant-get reads id {cite(last.id)}, {BACK}."]


async def find_expired(services: Services, wanted: str, collection: str | None) -> Document | None:
    """The text with this id, or ID@TIME, if it has expired since."""
    named = services.history.at_time(wanted)
    with suppress(QdrantMcpError):
        for own in (wanted, *(named or ())[:1]):
            for one in (await services.lookup.locate([own], collection))[0]:
                when = named[1] if named and own != wanted else None
                since = parse_time(one.updated_at)
                known = when in (None, parse_time(one.expires)) or (
                    when and since and since <= when
                )
                return one if known and is_expired(one, services.store.now()) else None
    return None


def expired_note(one: Document) -> str:
    """A note on an expired text."""
    version = cite(f"{document_id(one)}@{one.expires}")
    return f"id {cite(document_id(one))} has expired: no search finds it; id {version}: {BACK}."


def _version_data(one: Version) -> dict[str, Any]:
    """Structured content on a version, without its text."""
    return {"id": one.id, "until": one.until, "by": dict(one.by), "deleted": one.deleted}


def _version_with_text(one: Version) -> dict[str, Any]:
    about = {"title": one.document.title, "text": one.document.text or None}
    return _version_data(one) | {"collection": one.collection} | without_null(about)
