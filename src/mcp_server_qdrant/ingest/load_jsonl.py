"""JSON lines: one text per line, with its id and metadata."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_server_qdrant.errors import UnusableFile
from mcp_server_qdrant.ingest.load import Contents, Loaded, decode, plain, tags_of
from mcp_server_qdrant.notation import moment

IDS = ("id", "_id")
TEXTS = ("text", "document", "page_content", "content", "chunk", "body")
TIMES = ("created_at", "date", "timestamp")
MAX_LINE = 10_000_000
SHOWN = 5


class _BadLineError(ValueError):
    """Why a line is left out."""


def read(path: str, data: bytes) -> Contents:
    """One text per line that has one. A line of another kind is left out, and named in a note."""
    contents = Contents()
    faults: dict[str, list[int]] = {}
    ids: set[str] = set()
    for number, line in _lines(data):
        try:
            text = _loaded(path, _object(line))
        except _BadLineError as error:
            faults.setdefault(str(error), []).append(number)
            continue
        if text.id in ids:
            faults.setdefault("has the id of an earlier line", []).append(number)
        else:
            ids.add(str(text.id))
            contents.texts.append(text)
    contents.notes = [_note(lines, fault) for fault, lines in faults.items()]
    return contents


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        if line.strip():
            yield number, line


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise _BadLineError(f"is longer than {MAX_LINE // 1_000_000} MB")
    try:
        found = json.loads(decode(line))
    except UnusableFile as error:
        raise _BadLineError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _BadLineError("is not JSON") from error
    if not isinstance(found, dict):
        raise _BadLineError("is not an object")
    return found


def _loaded(path: str, row: dict[str, Any]) -> Loaded:
    try:
        row = plain(row)
    except UnusableFile as error:
        raise _BadLineError(str(error)) from error
    key = next((key for key in TEXTS if isinstance(row.get(key), str)), None)
    if key is None or not row[key].strip():
        raise _BadLineError("has no text")
    text = row.pop(key)
    given = next((row.pop(key) for key in IDS if key in row), None)
    title = row.pop("title", None)
    tags, times = row.pop("tags", None), [row.pop(key) for key in TIMES if key in row]
    metadata = row.pop("metadata", None)
    rest = {key: value for key, value in row.items() if value not in (None, "", {}, [])}
    if isinstance(metadata, Mapping):
        rest |= metadata
    name = f"{path}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Loaded(
        text=text,
        title=title if isinstance(title, str) and title.strip() else "",
        id=name if given in (None, "") else str(given),
        metadata=rest or None,
        tags=tags_of(tags),
        created_at=next((when for when in map(moment, times) if when), None),
    )


def _note(lines: list[int], fault: str) -> str:
    """What is wrong with the first line, and the numbers of those like it."""
    first, *others = lines
    if not others:
        return f"line {first:,} {fault}"
    more = f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else ""
    numbers = ", ".join(f"{number:,}" for number in others[:SHOWN])
    return f"line {first:,} {fault} (likewise {numbers}{more})"
