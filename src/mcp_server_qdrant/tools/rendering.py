"""A stored text in an answer: as lines for agents, and as structured content.

Stored text never looks like the server's own: a text has `>` before each of its lines, which none
of the server's lines has; a title, tag or name is on one line behind a label of the server.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_server_qdrant.core.context import speaker
from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.dates import date_of
from mcp_server_qdrant.core.notation import (
    LINE,
    called,
    chain,
    document_id,
    escaped,
    every,
    heir_id,
    is_numbered,
    line,
    plain,
    shown_id,
    some,
)
from mcp_server_qdrant.core.writes import Kept

SOURCE = 60  # characters, the last ones
MAX_METADATA = 200_000  # characters of JSON in one answer, beside what the first text has
BACK = "qdrant-store with that id alone brings it back"
NAMED = 10  # deleted texts
WEB = re.compile("https?://", re.IGNORECASE)
_HASH = re.compile("[0-9a-f]{32}")  # the id of a text that was stored without one
REPEATED = ("title", "tags", "source", "created_at")  # of the metadata: on lines of their own


def noted(said: Iterable[str]) -> list[str]:
    """Notes, one per line."""
    return [f"Note: {line(note, None)}" for note in said]


def quoted(text: str) -> list[str]:
    """A stored text, each of its lines marked as such."""
    return [f"> {plain(one)}" if one else ">" for one in text.splitlines()]


def heading(document: Document) -> str:
    """Collection, id, part and title of a text, and who says it."""
    said = "".join(f", {one}" for one in (web(document), writer(document)) if one)
    return f"{placed(document, said)}{titled(document.heading, LINE)}"


def placed(document: Document, about: str = "") -> str:
    """The collection, the id and the part of a text, and what else is said `about` it."""
    own = shown_id(document)
    shown = f"{called(document.collection)} (id {called(own)}{about})"
    if own.startswith(f"{document.collection}/"):  # the name is not said twice
        shown = f"{called(own)}{about and f' ({about[2:]})'}"
    return shown if is_numbered(document) else f"{shown}{part(document)}"


def titled(title: str | None, length: int) -> str:
    """A title or a section behind the name of a text."""
    return f" · {line(chain(title, length))}" if title else ""


def origin(document: Document, *, dated: bool = True) -> str:
    """The day of a text, and where it is from, as far as its id does not tell it."""
    known = (day(document) if dated else None, None if web(document) else source(document))
    said = [called(one) for one in known if one and one != document_id(document)]
    return "".join(f", {one}" for one in (*said, web(document), writer(document)) if one)


def web(document: Document) -> str:
    """The address of a text that came from the web."""
    where = document.source or ""
    return f"from the web: {called(line(where, SOURCE))}" if WEB.match(where) else ""


def writer(document: Document) -> str:
    """Who stored a text, where that was another caller, or another program."""
    said, own = document.stored_by or {}, speaker()
    if said.get("caller") and said["caller"] != own.get("caller"):
        return f"written by {called(said['caller'])}"
    if said.get("client") and said["client"] != own.get("client"):
        return f"stored with {called(said['client'])}"
    return ""


def source(document: Document) -> str:
    """The file or address of a text, or the id that it was stored under."""
    where = line(document.source or "", None)
    own = line(document.document or "", None)
    if not _HASH.fullmatch(own):
        where = own or where
    return where if len(where) <= SOURCE else f"…{where[1 - SOURCE :]}"


def day(document: Document) -> str | None:
    """The day that the text is of, as far as one is known."""
    when = date_of(document)
    return when.date().isoformat() if when else None


def part(document: Document) -> str:
    """The number of the part and of all parts, if there are several."""
    if document.chunks == 1:
        return ""
    first = document.chunk + 1
    which = first if document.last is None else f"{first}-{document.last + 1}"
    return f" part {which}/{document.chunks}"


def details(document: Document) -> list[str]:
    """Metadata, tags, source and dates, as far as there are any; each thing once."""
    shown = (document.title, document.source, document.created_at, list(document.tags))
    more = {
        key: value
        for key, value in (document.metadata or {}).items()
        if key not in REPEATED or value not in shown
    }
    pairs = {
        "metadata": compact(more) if more else None,
        "tags": every(document.tags),
        "source": line(document.source or "", None),
        "created": line(document.created_at or ""),
    }
    return [f"{name}: {value}" for name, value in pairs.items() if value]


def superseded(document: Document) -> str:
    """The text that took the place of an outdated one."""
    return f"superseded by: id {called(heir_id(document) or '')}"


def kept_versions(done: Sequence[Kept]) -> list[str]:
    """The versions that deleted texts are now, a few of them named, and why others are none."""
    faults = list(dict.fromkeys(line(one.fault, None) for one in done if one.fault))
    said = [f"not kept: {fault}" for fault in faults[:3]]
    if ids := [one.id for one in done if one.id]:
        days = max(one.days for one in done)
        said.insert(0, f"kept {days} days: id {some(ids, NAMED)}; {BACK}.")
    return said


def described(
    found: Sequence[Document], room: int = MAX_METADATA
) -> tuple[list[Document], list[str]]:
    """The documents with as much of their metadata as has room, and a note of what is left out.

    The first always has its own.
    """
    shown: list[Document] = []
    left: list[str] = []
    used = 0
    for document in found:
        if document.metadata and used <= room:
            used += len(compact(document.metadata))
        if document.metadata and shown and used > room:
            left.append(called(shown_id(document)))
            document = document._replace(metadata=None)  # noqa: PLW2901
        shown.append(document)
    many = f"Metadata left out for its length, to be asked for with qdrant-get: id {some(left)}."
    return shown, [many] if left else []


def compact(value: Mapping[str, Any]) -> str:
    """Metadata on one line."""
    return escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def structured(one: Document, *, points: bool = False) -> dict[str, Any]:
    """One text as structured content; `points`: under the id of its point, for programs."""
    values = {
        "id": identified(one, points=points),
        "collection": one.collection,
        "document": document_id(one),  # not a hash of what may be hidden from the caller
        "text": one.text,
        "title": one.heading,
        "part": part_of(one),
        "metadata": dict(one.metadata) if one.metadata else None,
        "tags": list(one.tags) or None,
        "source": one.source,
        "stored_by": written_by(one),
        "created_at": one.created_at,
        "revision": one.revision,
        "superseded_by": heir_id(one),
    }
    return present(values)


def identified(one: Document, *, points: bool) -> str:
    """The id of a text as all tools show it, or that of its point."""
    return str(one.id) if points else shown_id(one)


def part_of(document: Document) -> str | None:
    """The number of the part and of all parts; None of a text that is one part."""
    return part(document).removeprefix(" part ") or None


def written_by(one: Document) -> dict[str, str] | None:
    """Who stored a text, where that is worth saying."""
    return dict(one.stored_by) if one.stored_by and writer(one) else None


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that there are."""
    return {key: value for key, value in values.items() if value is not None}
