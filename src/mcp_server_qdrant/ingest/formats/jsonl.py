"""JSON lines: one text per line, with id and metadata."""

import io
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats import exported
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    collect,
    content_id,
    find_date,
    storable,
    strictly,
    tags_of,
)
from mcp_server_qdrant.ingest.formats.markdown import headings

IDS = ("id", "_id")
TEXTS = ("text", "document", "page_content", "content", "chunk", "body")
TIMES = ("created_at", "date", "timestamp")
MAX_LINE = 10_000_000  # bytes


def read(path: str, data: bytes) -> Contents:
    """One text per line. Lines without a text are left out with a note."""
    return collect("line", lines(data), partial(_loaded, path))


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The non-blank lines with their numbers."""
    for number, line in enumerate(io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), 1):
        if line.strip():
            yield number, line


def _loaded(path: str, line: bytes) -> tuple[Loaded, list[str]]:
    if len(line) > MAX_LINE:
        raise UnusableFile(f"is longer than {MAX_LINE // 1_000_000} MB")
    try:
        found = json.loads(strictly(line))
    except (ValueError, RecursionError) as error:
        raise UnusableFile("is not JSON") from error
    if not isinstance(found, dict):
        raise UnusableFile("is not an object")
    return load_row(path, found)


def load_row(path: str, row: dict[str, Any]) -> tuple[Loaded, list[str]]:
    """The text of a line, or a row, and notes on what could not be read."""
    if exported.is_record(row.get(exported.KEY)):
        return exported.restore_row(path, row, headings)
    when, notes = find_date({key: row.pop(key) for key in TIMES if key in row})
    row = storable(row)
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
    made = Loaded(
        text=text,
        title=title if isinstance(title, str) and title.strip() else "",
        id=content_id(path, text) if given in (None, "") else str(given),
        metadata=rest or None,
        tags=tags_of(tags),
        created_at=when,
    )
    return made, notes
