"""Spreadsheets: reads each sheet like CSV, with python-calamine."""

import io
import re
from dataclasses import replace
from datetime import date
from typing import Any
from zipfile import ZipFile, is_zipfile

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats import csv
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, note_unread
from mcp_server_qdrant.ingest.formats.office import parse_part, read_captions

# Parts of a workbook with texts beside the cells.
BESIDE = re.compile(
    r"xl/(?:comments|threadedComments|charts/chart|drawings/drawing|diagrams/data)\S*\.xml\Z"
)
ODF = re.compile(r"(?:Object \d+/)?content\.xml\Z")


def read(path: str, data: bytes) -> Contents:
    """One text per row of each sheet, and one of all comments, charts and text boxes."""
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    texts, notes = dict[str | None, Loaded](), list[str]()
    for name in book.sheet_names:
        try:
            with contained(lambda _: UnusableFile("cannot be read")):
                rows = [[*map(_show, row)] for row in book.get_sheet_by_name(name).iter_rows()]
                sheet = csv.table(f"{path}#{name}", iter(rows))
        except UnusableFile as error:
            notes.append(f"sheet {name!r} {error}")
            continue
        notes += [f"sheet {name!r}: {note}" for note in sheet.notes]
        for text in sheet.texts:
            # Sheets often number their rows alike.
            own = f"{path}#{name}#{text.id}" if text.id in texts else text.id
            metadata = {**(text.metadata or {}), "sheet": name}
            texts[own] = replace(text, id=own, metadata=metadata)
    beside, broken = _read_beside(data)
    found = [Loaded(beside, "", f"{path}#comments")] if beside else []
    return Contents([*texts.values(), *found], notes + note_unread(broken, "damaged part"))


def _read_beside(data: bytes) -> tuple[str, int]:
    """(texts beside the cells, number of damaged parts)."""
    if not is_zipfile(io.BytesIO(data)):
        return "", 0
    archive = ZipFile(io.BytesIO(data))
    found, broken = read_captions(map(archive.read, filter(BESIDE.match, archive.namelist())))
    for part in map(parse_part, map(archive.read, filter(ODF.match, archive.namelist()))):
        texts = () if part is None else part.iter("{*}annotation", "{*}title", "{*}subtitle")
        found += [" ".join(one.itertext()) for one in texts]
        broken += part is None
    return "\n".join(found), broken


def _show(cell: Any) -> str:
    """A cell as in CSV: whole numbers without a fraction, dates in ISO 8601."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return cell.isoformat() if isinstance(cell, date) else str(cell)
