"""CSV: one text per row, from its text column or else one line per column."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count, islice
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats import jsonl
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, collect

SIGNS = ",;\t|"
LOOKED = 20  # rows among which the header is looked for


def read(path: str, text: str) -> Contents:
    """One text per row below the header. Raises UnusableFile."""
    lines = io.StringIO(text, newline="").readlines()
    head = next((line for line in lines if any(sign in line for sign in SIGNS)), "")
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

    Columns have the same meaning as the keys of JSON lines. The header is the first row of several
    cells; lines above it, such as a title, are texts, and so is a header with no row below it.
    """
    filled = (one for one in enumerate(rows, 1) if one[1] is None or any(map(str.strip, one[1])))
    top = [*islice(filled, LOOKED)]
    if top and top[0][1] is None:
        raise UnusableFile("has no first row that can be read: is a quote left open?")
    several = (at for at, (_, row) in enumerate(top) if row and len([*filter(str.strip, row)]) > 1)
    head = next(several, 0) if len(top) > 1 else 1
    names: dict[str, None] = {}  # missing and duplicate ones get the column's number
    header = (row or () for _, row in top[head : head + 1])
    for number, cell in enumerate(map(str.strip, chain(*header)), 1):
        names[f"{cell or 'column'} {number}" if not cell or cell in names else cell] = None
    above = ((at, (["text"], row and [" ".join(row).strip()])) for at, row in top[:head])
    below = ((at, ([*names], row)) for at, row in chain(top[head + 1 :], filled))
    return collect("row", chain(above, below), partial(_load_row, path))


def _load_row(path: str, item: tuple[list[str], list[str] | None]) -> tuple[Loaded, list[str]]:
    names, cells = item
    if cells is None:
        raise UnusableFile("has a quote that is left open")
    more = (f"column {number}" for number in count(len(names) + 1))
    columns = zip(chain(names, more), cells, strict=False)
    given = {name: cell for name, cell in columns if cell.strip()}
    row: dict[str, Any] = {name: _number(cell) for name, cell in given.items()}
    row |= {name: given[name] for name in ("title", *jsonl.TEXTS) if name in given}
    return jsonl.load_row(path, row)


def _number(cell: str) -> str | int | float:
    """The cell as a number if it is one, for use in filters; `007` is not."""
    for kind in (int, float):
        with suppress(ValueError):
            if str(kind(cell)) == cell:
                return kind(cell)
    return cell
