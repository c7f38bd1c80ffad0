"""Converts payloads to Documents and back: the official format, ours, and other tools'."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from mcp_server_qdrant.core.datatypes import (
    OURS,
    STORED_BY,
    SUPERSEDED_IN,
    SUPERSEDED_KEY,
    Document,
    Payload,
    PointId,
    is_current,
    own_doc,
)
from mcp_server_qdrant.core.dates import UNDATED, date_of, time_to_index
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import Identify, cite, is_part_id, part_id, stamp
from mcp_server_qdrant.core.writes import Changes
from mcp_server_qdrant.qdrant.engine import Found
from mcp_server_qdrant.qdrant.texts import paths_of, text_at

PENDING_KEY = "doc.pending"
DOCUMENT_KEY = "doc.id"
CHUNK_KEY = "doc.chunk"
CHUNKS_KEY = "doc.chunks"
VERSION_KEY = "doc.version"
UPDATED_KEY = "updated_at"
WRITING_KEY = "doc.writing"
WRITERS = ("stored_by.caller", "stored_by.client")
WRITER = ("client", "version", "caller")  # in `stored_by`
VERSION = "version"  # in `doc`
FILE_KEY = "doc.file"
SOURCE_KEY = "doc.file.source"
HASH_KEY = "doc.file.hash"
PROJECT_KEY = "metadata.project"
EXPIRES = "doc.expires"  # indexed in collections with texts that expire
MOST_PARTS = 200_000  # of a text; a larger number in a payload is not a part count
T = TypeVar("T")

_PLAIN_KEY = re.compile(r"[\w-]+", re.ASCII)
# Top-level payload keys with a meaning for this server.
_RESERVED = frozenset({"doc", "metadata", SUPERSEDED_KEY, SUPERSEDED_IN, STORED_BY})
_DESCRIBING = ("title", "name", "source", "url", "tags", "created_at", "updated_at")


def document_of(
    collection: str,
    point: PointId,
    payload: Payload | None,
    content_fields: Sequence[str],
    identify: Identify | None = None,
) -> Document:
    """A point's payload as a Document, whoever wrote it.

    The text is the first string at the paths of its collection; metadata is `metadata`, or else
    everything that was not used. A point without text says so in its text. `identify` gives the id
    of the text that superseded it.
    """
    payload = payload or {}
    found = text_at(payload, paths_of(content_fields, collection))
    key, text = found or (None, _without_text(payload))
    doc, places = own_doc(payload), _places(payload)
    by = _string((payload,), SUPERSEDED_KEY)
    place = _string((payload,), SUPERSEDED_IN) if by else None
    return Document(
        id=point,
        collection=collection,
        text=text,
        title=title_of(payload),
        source=_string(places, "source") or _string(places, "url"),
        metadata=_metadata(payload, key),
        tags=_tags(places),
        # The `created_at` of a file without a date of its own may be the file's time.
        created_at=_string(places, "created_at") if "file" not in doc or doc.get("dated") else None,
        updated_at=_string((payload,) if _typed(doc, "id", str) else places, "updated_at"),
        document=_typed(doc, "id", str),
        chunk=_number(doc, "chunk", 0, MOST_PARTS),
        chunks=_number(doc, "chunks", 1, MOST_PARTS),
        start=_typed(doc, "start", int),
        end=_typed(doc, "end", int),
        textless=key is None,
        section=_typed(doc, "section", str),
        sections=tuple(_sections(doc.get("sections"))),
        version=_typed(doc, VERSION, str) if isinstance(point, str) else None,  # ours are UUIDs
        head=head_of(point, doc),
        writing=_number(doc, "writing", 0) or None,
        superseded_by=by,
        superseded_in=place,
        stored_by=writer(payload.get(STORED_BY)),
        heir=identify(place or collection, by, 0) if by and identify else None,
        dated=doc.get("dated") is True,
        file=_typed(doc, "file", dict),
        pending=next(reversed(_tags((doc,), "pending")), None),
        expires=_string((doc,), "expires"),
    )


def stored_payload(document: Document) -> Payload:
    """The payload to store for a chunk: the official format and our additions.

    All chunks share one metadata object, which may be large. The placeholder for a missing text is
    not stored.
    """
    metadata = document.metadata
    payload: Payload = {
        "document": None if document.textless else document.text,
        "metadata": metadata if isinstance(metadata, dict | None) else dict(metadata),
        "title": document.title,
        "source": document.source,
        "tags": list(document.tags) or None,
        "created_at": document.created_at,
        "updated_at": document.updated_at,
    }
    stored = {k: v for k, v in payload.items() if v is not None or k == "metadata"}
    stored["doc"] = {
        "id": document.document,
        "chunk": document.chunk,
        "chunks": document.chunks,
        "start": document.start,
        "end": document.end,
        "date": stamp(time_to_index(when)) if (when := date_of(document)) else UNDATED,
    }
    if document.superseded_by:
        stored[SUPERSEDED_KEY] = document.superseded_by
        if document.superseded_in:
            stored[SUPERSEDED_IN] = document.superseded_in
    for name in ("section", "version", "writing", "dated", "file", "expires"):
        if value := getattr(document, name):
            stored["doc"][name] = value
    if document.stored_by:
        stored[STORED_BY] = dict(document.stored_by)
    if document.sections:
        stored["doc"]["sections"] = [list(one) for one in document.sections]
    return stored


def edits_of(
    payload: Payload, changes: Changes, text_keys: Iterable[str]
) -> tuple[Payload, Payload]:
    """The changed keys of another tool's payload, and those of its `metadata`.

    None removes a key. A title or tags in the metadata are changed there. Raises RequestError for
    the key of the text, or a key with a meaning for this server.
    """
    text_keys = {key for path in text_keys for key in (path, path.partition(".")[0])}
    edits, inside, held = Payload(), Payload(), payload.get("metadata")
    nested = held if isinstance(held, dict) else None
    edited = edits if nested is None else inside
    edited.update(changes.metadata or {})
    for key in (*edits, *(f"metadata.{key}" for key in inside)):
        if key in text_keys or key in _RESERVED:
            raise RequestError(
                f"The key {cite(key)} of another tool's point cannot be changed as metadata: "
                "leave it out."
            )
    given = {"title": changes.title, "tags": None if changes.tags is None else list(changes.tags)}
    for key, value in given.items():
        if value is not None:
            there = nested is not None and key not in payload and key in nested
            (inside if there else edits)[key] = value or None
    if changes.title == "" and title_of({**payload, "title": None, "metadata": None}):
        raise RequestError("The title is the point's own name: give another one instead.")
    return edits, inside


def key_path(*keys: str) -> str:
    """The path to a payload value in the engines' syntax."""
    return ".".join(key if _PLAIN_KEY.fullmatch(key) else f'"{key}"' for key in keys)


def head_of(point: PointId, doc: Any) -> str | None:
    """The id of the first part, for a further part with this `doc`; None for any other point."""
    if not isinstance(point, str) or not isinstance(doc, dict):
        return None
    version, chunk = doc.get(VERSION), _number(doc, "chunk", 0, MOST_PARTS)
    if _typed(doc, "id", str) is None or chunk == 0 or not isinstance(version, str):
        return None
    return part_id(point, version, chunk) if is_part_id(point) else None


def further_parts(found: Iterable[Found]) -> list[tuple[Found, str]]:
    """The further parts among the results, each with the id of its first part."""
    heads = ((one, head_of(one.id, one.payload.get("doc"))) for one in found)
    return [(one, head) for one, head in heads if head is not None]


def mark_current(
    parts: Iterable[tuple[Found, str]], firsts: Mapping[tuple[str, str], Payload | None]
) -> None:
    """Set `current` of further parts; `firsts`: (collection, id) -> first part's payload."""
    for one, head in parts:
        doc, first = one.payload["doc"], (firsts.get((one.collection, head)) or {}).get("doc")
        if first or VERSION in doc:
            now = first and (first.get(VERSION), _number(first, "chunks", 1, MOST_PARTS))
            chunk, writing = _number(doc, "chunk", 0, MOST_PARTS), _number(doc, "writing", 0)
            one.current = is_current(doc.get(VERSION), chunk, writing or None, now or None)


def payload_fields(content_fields: Sequence[str], *more: str) -> tuple[str, ...]:
    """The payload fields that `document_of` reads, and `more`, without other metadata.

    A top-level field may also be in the metadata.
    """
    described = (*_DESCRIBING, *(path for path in more if "." not in path))
    ours = ("doc", SUPERSEDED_KEY, SUPERSEDED_IN, STORED_BY)
    inside = (f"metadata.{key}" for key in described)
    texts = (path.partition(".")[0] for path in content_fields)  # JSON is read as a whole
    return tuple(dict.fromkeys((*texts, *ours, *described, *more, *inside)))


def title_of(payload: Payload | None) -> str | None:
    """The title of a point, whoever wrote it."""
    places = _places(payload or {})
    return _string(places, "title") or _string(places, "name")


def _places(payload: Payload) -> Sequence[Mapping[str, Any]]:
    """The objects that may hold a point's fields: the payload and its metadata."""
    metadata = payload.get("metadata")
    return (payload, metadata) if isinstance(metadata, dict) else (payload,)


def _without_text(payload: Payload) -> str:
    keys = ", ".join(sorted(payload)[:8])
    if not keys:
        return "(this point has no payload)"
    return f"(no text; payload keys: {keys}. Name the one to show in QDRANT_CONTENT_FIELDS)"


def _metadata(payload: Payload, used: str | None) -> Mapping[str, Any] | None:
    """The metadata, or else all other keys, without those where the text was found."""
    metadata = payload.get("metadata")
    if isinstance(metadata, dict):
        return {key: value for key, value in metadata.items() if f"metadata.{key}" != used}
    first = (used or "").partition(".")[0]
    rest = {k: v for k, v in payload.items() if k not in (used, first) and k not in OURS}
    return (rest if metadata is None else rest | {"metadata": metadata}) or None


def _string(places: Iterable[Mapping[str, Any]], key: str) -> str | None:
    for place in places:
        value = place.get(key)
        if value and isinstance(value, str):
            return value
    return None


def _tags(places: Iterable[Mapping[str, Any]], key: str = "tags") -> tuple[str, ...]:
    for place in places:
        tags = place.get(key)
        if isinstance(tags, str):
            return (tags,)
        if isinstance(tags, list) and tags:
            return tuple(str(tag) for tag in tags)
    return ()


def _typed(doc: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    value = doc.get(key)
    return value if isinstance(value, kind) else None


def writer(value: Any) -> dict[str, str] | None:
    """The valid fields of `stored_by` in a payload; None if there are none."""
    said = value if isinstance(value, dict) else {}
    known = {key: said[key] for key in WRITER if isinstance(said.get(key), str)}
    return known or None


def _sections(value: Any) -> Iterator[tuple[int, str]]:
    """The valid (offset, name) pairs among the values."""
    for one in value if isinstance(value, list) else ():
        match one:
            case [int(place), str(name)]:
                yield place, name


def _number(doc: Mapping[str, Any], key: str, default: int, most: float = math.inf) -> int:
    value = doc.get(key)
    return value if type(value) is int and default <= value <= most else default
