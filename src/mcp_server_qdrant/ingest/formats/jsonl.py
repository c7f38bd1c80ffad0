"""JSON lines: one text per line, with its id and metadata."""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, created, decode, plain, tags_of

IDS = ("id", "_id")
TEXTS = ("text", "document", "page_content", "content", "chunk", "body")
TIMES = ("created_at", "date", "timestamp")
MAX_LINE = 10_000_000
SHOWN = 5
KINDS = 50


def read(path: str, data: bytes) -> Contents:
    """One text per line that has one. A line of another kind is left out, and named in a note."""
    contents, faults = Contents(), Faults()
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


class Faults:
    """Faults and the lines that have them; of a large file only a few are kept."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[int]] = {}

    def add(self, fault: str, number: int) -> None:
        """Take in a fault of a line."""
        if fault not in self._first and len(self._first) >= KINDS:
            fault = "has another fault"
        self._counts[fault] += 1
        numbers = self._first.setdefault(fault, [])
        if len(numbers) <= SHOWN:
            numbers.append(number)

    def notes(self) -> list[str]:
        """One sentence per fault, with the first lines that have it."""
        return [_note(self._first[fault], count, fault) for fault, count in self._counts.items()]


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


def _note(lines: list[int], count: int, fault: str) -> str:
    """The fault of the first line, and the numbers of those like it."""
    first, *others = lines
    if not others:
        return f"line {first:,} {fault}"
    more = f" and {count - 1 - SHOWN:,} more" if count - 1 > SHOWN else ""
    numbers = ", ".join(f"{number:,}" for number in others)
    return f"line {first:,} {fault} (likewise {numbers}{more})"
