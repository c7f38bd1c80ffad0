"""CSV: a text per row, by its column of text or else as a line per column."""

import csv
import io
from collections.abc import Iterator
from functools import partial
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats import jsonl
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, decode, gathered

SIGNS = ",;\t|"


def read(path: str, data: bytes) -> Contents:
    """A text per row below the names of the columns. Raises UnusableFile.

    Columns are named as the keys of JSON lines are. Without one of text it is `name: value` lines.
    """
    text = decode(data)
    head = text.lstrip().partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(SIGNS, key=head.count))
    table = _rows(rows)
    _, first = next(table, (1, []))
    if isinstance(first, csv.Error):
        raise UnusableFile("has no first row that can be read: is a quote left open?")
    return gathered("row", table, partial(_loaded, path, _names(first)))


def _names(cells: list[str]) -> list[str]:
    """The names of the columns; one without a name, or with another's, gets its number."""
    names: list[str] = []
    for number, cell in enumerate(map(str.strip, cells), 1):
        names.append(f"{cell or 'column'} {number}" if cell in ("", *names) else cell)
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


def _loaded(path: str, names: list[str], cells: list[str] | csv.Error) -> tuple[Loaded, list[str]]:
    if isinstance(cells, csv.Error):
        raise UnusableFile(f"and those below cannot be read: is a quote left open? ({cells})")
    if len(cells) > len(names):
        raise UnusableFile(f"has {len(cells):,} cells for {len(names):,} columns")
    given = {name: cell for name, cell in zip(names, cells, strict=False) if cell.strip()}
    row: dict[str, Any] = {name: _number(cell) for name, cell in given.items()}
    row |= {name: given[name] for name in ("title", *jsonl.TEXTS) if name in given}
    if not any(name in names for name in jsonl.TEXTS):
        row["text"] = "\n".join(f"{name}: {cell.strip()}" for name, cell in given.items())
    return jsonl.loaded(path, row)


def _number(cell: str) -> str | int | float:
    """A number where it is written as one, so that filters compare it; `007` is none."""
    for kind in (int, float):
        try:
            if str(kind(cell)) == cell:
                return kind(cell)
        except ValueError:
            continue
    return cell
