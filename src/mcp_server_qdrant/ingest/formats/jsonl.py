"""JSON lines: one text per line, with its id and metadata."""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Faults,
    Loaded,
    created,
    decode,
    plain,
    tags_of,
)

IDS = ("id", "_id")
TEXTS = ("text", "document", "page_content", "content", "chunk", "body")
TIMES = ("created_at", "date", "timestamp")
MAX_LINE = 10_000_000


def read(path: str, data: bytes) -> Contents:
    """One text per line that has one. A line of another kind is left out, and named in a note."""
    contents, faults = Contents(), Faults("line")
    ids: set[str] = set()
    for number, line in _lines(data):
        try:
            with contained(lambda fault: UnusableFile(f"cannot be read: an unexpected {fault}")):
                text, notes = _loaded(path, _object(line))
        except UnusableFile as error:
            faults.add(str(error), number)
            continue
        for note in notes:
            faults.add(note, number)
        if text.id in ids:
            faults.add("has the id of an earlier line", number)
        else:
            ids.add(str(text.id))
            contents.texts.append(text)
    contents.notes = faults.notes()
    return contents


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    for number, line in enumerate(io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), 1):
        if line.strip():
            yield number, line


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise UnusableFile(f"is longer than {MAX_LINE // 1_000_000} MB")
    try:
        found = json.loads(decode(line))
    except (ValueError, RecursionError) as error:
        raise UnusableFile("is not JSON") from error
    if not isinstance(found, dict):
        raise UnusableFile("is not an object")
    return found


def _loaded(path: str, row: dict[str, Any]) -> tuple[Loaded, list[str]]:
    """The text of a line, and sentences on what could not be taken from it."""
    when, notes = created({key: row.pop(key) for key in TIMES if key in row})
    row = plain(row)
    key = next((key for key in TEXTS if isinstance(row.get(key), str)), None)
    if key is None or not row[key].strip():
        raise UnusableFile("has no text")
    text = row.pop(key)
    given = next((row.pop(key) for key in IDS if key in row), None)
    title = row.pop("title", None)
    tags, metadata = row.pop("tags", None), row.pop("metadata", None)
    rest = {key: value for key, value in row.items() if value not in (None, "", {}, [])}
    if isinstance(metadata, Mapping):
        rest |= metadata
    name = f"{path}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    loaded = Loaded(
        text=text,
        title=title if isinstance(title, str) and title.strip() else "",
        id=name if given in (None, "") else str(given),
        metadata=rest or None,
        tags=tags_of(tags),
        created_at=when,
    )
    return loaded, notes
