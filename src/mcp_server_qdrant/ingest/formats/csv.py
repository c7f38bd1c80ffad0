"""CSV: one text per row, from its text column or else one line per column."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats import jsonl
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, collect

SIGNS = ",;\t|"


def read(path: str, text: str) -> Contents:
    """One text per row below the header. Raises UnusableFile."""
    head = text.lstrip().partition("\n")[0]
    lines = io.StringIO(text, newline="").readlines()
    limit = csv.field_size_limit(len(text) + 1)  # a cell may be as long as the file
    try:
        return table(path, _parse(lines, max(SIGNS, key=head.count)))
    finally:
        csv.field_size_limit(limit)


def _parse(lines: Sequence[str], delimiter: str) -> Iterator[list[str] | None]:
    """The rows; None for a line with an unclosed quote, after which reading continues."""
    start, ended = 0, False

    def rest() -> Iterator[str]:
        nonlocal ended
        yield from islice(lines, start, None)
        ended = True

    while not ended:
        rows, begin = csv.reader(rest(), delimiter=delimiter), start
        for row in rows:
            if ended:  # within the row
                yield None
                start, ended = begin + 1, False
                break
            yield row
            begin = start + rows.line_num


def table(path: str, rows: Iterator[list[str] | None]) -> Contents:
    """One text per row below the header. Raises UnusableFile.

    Columns have the same meaning as the keys of JSON lines. Without a text column, a text is made
    of `name: value` lines.
    """
    filled = (one for one in enumerate(rows, 1) if one[1] is None or any(map(str.strip, one[1])))
    _, first = next(filled, (1, []))
    if first is None:
        raise UnusableFile("has no first row that can be read: is a quote left open?")
    names: dict[str, None] = {}  # missing and duplicate ones get the column's number
    for number, cell in enumerate(map(str.strip, first), 1):
        names[f"{cell or 'column'} {number}" if not cell or cell in names else cell] = None
    return collect("row", filled, partial(_load_row, path, names))


def _load_row(
    path: str, names: dict[str, None], cells: list[str] | None
) -> tuple[Loaded, list[str]]:
    if cells is None:
        raise UnusableFile("has a quote that is left open")
    if len(cells) > len(names):
        raise UnusableFile(f"has {len(cells):,} cells for {len(names):,} columns")
    given = {name: cell for name, cell in zip(names, cells, strict=False) if cell.strip()}
    row: dict[str, Any] = {name: _number(cell) for name, cell in given.items()}
    row |= {name: given[name] for name in ("title", *jsonl.TEXTS) if name in given}
    if not any(name in names for name in jsonl.TEXTS):
        row["text"] = "\n".join(f"{name}: {cell.strip()}" for name, cell in given.items())
    return jsonl.load_row(path, row)


def _number(cell: str) -> str | int | float:
    """The cell as a number if it is one, for use in filters; `007` is not."""
    for kind in (int, float):
        with suppress(ValueError):
            if str(kind(cell)) == cell:
                return kind(cell)
    return cell
