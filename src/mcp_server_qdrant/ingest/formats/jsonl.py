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
BLANK: tuple[Any, ...] = (None, "", {}, [])
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
    """The text of a line, or a row, and notes on what could not be read.

    If no key has a text, it is made of all values, in lines `name: value`.
    """
    if exported.is_record(row.get(exported.KEY)):
        return exported.restore_row(path, row, headings)
    when, notes = find_date({key: row[key] for key in TIMES if key in row})
    row = storable(row)
    key = next((one for one in TEXTS if isinstance(row.get(one), str) and row[one].strip()), None)
    if key:
        text = row.pop(key)
    else:
        values = {name: "\n".join(_list_values(one, name)) for name, one in row.items()}
        if not any(values[name] for name in values.keys() - {*IDS}):
            raise UnusableFile("has no text")
        text = "\n".join(filter(None, values.values()))
        own = ("tags", "metadata")
        row = {name: one for name, one in row.items() if name in own or not _is_nested(one)}
    given = next((row.pop(key) for key in IDS if key in row), None)
    title, tags, metadata = (row.pop(name, None) for name in ("title", "tags", "metadata"))
    rest = {name: one for name, one in row.items() if one not in BLANK and name not in TIMES}
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


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def _list_values(value: Any, name: str = "") -> Iterator[str]:
    """Each value within a value that is not blank, with its name."""
    if _is_nested(value):
        pairs = value.items() if isinstance(value, Mapping) else ((name, one) for one in value)
        for key, one in pairs:
            yield from _list_values(one, key)
    elif value is not None and (text := str(value).strip()):
        yield f"{name}: {text}"
