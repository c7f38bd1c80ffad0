"""CSV: a text per row, by a template, by its column of text, or else as a line per column."""

import csv
import io
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.core.rows import RowTemplate
from mcp_server_qdrant.ingest.formats import jsonl
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, gathered

SIGNS = ",;\t|"
NAMED = 10  # columns in an error


def read(path: str, text: str, template: RowTemplate | None = None) -> Contents:
    """A text per row below the names of the columns. Raises UnusableFile."""
    head = text.lstrip().partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(SIGNS, key=head.count))
    return table(path, rows, template)


def table(path: str, rows: Iterator[list[str]], template: RowTemplate | None) -> Contents:
    """A text per row below the first, which names the columns. Raises UnusableFile.

    Without a template, columns have the meaning that keys of JSON lines have by their names. Where
    none of them holds text, a text is `name: value` lines.
    """
    numbered = _rows(rows)
    _, first = next(numbered, (1, []))
    if isinstance(first, csv.Error):
        raise UnusableFile("has no first row that can be read: is a quote left open?")
    names = _names(first)
    if template and (missing := next((n for n in template.columns if n not in names), None)):
        there = ", ".join(map(repr, islice(names, NAMED)))
        raise UnusableFile(f"has no column {missing!r}, which the template names: it has {there}")
    return gathered("row", numbered, partial(_loaded, path, names, template))


def _names(cells: list[str]) -> dict[str, None]:
    """The names of the columns; one without a name, or with another's, gets its number."""
    names: dict[str, None] = {}
    for number, cell in enumerate(map(str.strip, cells), 1):
        names[f"{cell or 'column'} {number}" if not cell or cell in names else cell] = None
    return names


def _rows(rows: Iterator[list[str]]) -> Iterator[tuple[int, Any]]:
    """The rows that are not blank, with their numbers; the error after which none can be read."""
    number = 1
    try:
        for number, row in enumerate(rows, 1):
            if any(map(str.strip, row)):
                yield number, row
    except csv.Error as error:
        yield number + 1, error


def _loaded(
    path: str, names: dict[str, None], template: RowTemplate | None, cells: list[str] | csv.Error
) -> tuple[Loaded, list[str]]:
    if isinstance(cells, csv.Error):
        raise UnusableFile(f"and those below cannot be read: is a quote left open? ({cells})")
    if len(cells) > len(names):
        raise UnusableFile(f"has {len(cells):,} cells for {len(names):,} columns")
    given = {name: cell for name, cell in zip(names, cells, strict=False) if cell.strip()}
    row: dict[str, Any] = {name: _number(cell) for name, cell in given.items()}
    row |= {name: given[name] for name in ("title", *jsonl.TEXTS) if name in given}
    if not any(name in names for name in jsonl.TEXTS):
        row["text"] = "\n".join(f"{name}: {cell.strip()}" for name, cell in given.items())
    return _templated(path, row, given, template) if template else jsonl.loaded(path, row)


def _templated(
    path: str, row: dict[str, Any], given: dict[str, str], template: RowTemplate
) -> tuple[Loaded, list[str]]:
    """The text of a row by a template. Of the columns that it names, numbers stay metadata."""
    parts = {part: None for part, _ in template.parts} | template.filled(given)
    texts = () if "text" in parts else jsonl.TEXTS
    used = {n for n in template.columns if n not in texts and isinstance(row.get(n), str)}
    date = parts.pop("date", None)
    row = {name: value for name, value in row.items() if name not in used} | parts
    loaded, notes = jsonl.loaded(path, row | ({"created_at": date} if date else {}))
    if date and loaded.created_at is None and not notes:
        notes = [f"has the date {date!r}, which is not written as 2026-05-31"]
    return loaded, notes


def _number(cell: str) -> str | int | float:
    """A number where it is written as one, so that filters compare it; `007` is none."""
    for kind in (int, float):
        try:
            if str(kind(cell)) == cell:
                return kind(cell)
        except ValueError:
            continue
    return cell
