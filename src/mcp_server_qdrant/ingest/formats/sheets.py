"""Spreadsheets: reads each sheet like CSV, with python-calamine."""

import io
from dataclasses import replace
from datetime import date
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats import csv
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded


def read(path: str, data: bytes) -> Contents:
    """One text per row of each sheet. A sheet that is not a table is left out with a note."""
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    texts, notes = dict[str | None, Loaded](), list[str]()
    for name in book.sheet_names:
        try:
            rows = [[*map(_show, row)] for row in book.get_sheet_by_name(name).iter_rows()]
            sheet = csv.table(f"{path}#{name}", iter(rows))
        except UnusableFile as error:
            notes.append(f"sheet {name!r} {error}")
            continue
        if not sheet.texts and not sheet.notes and any(map(any, rows)):
            notes.append(f"sheet {name!r} has no row below its first")
        notes += [f"sheet {name!r}: {note}" for note in sheet.notes]
        if any(text.id in texts for text in sheet.texts):
            notes.append(f"sheet {name!r} has ids of earlier sheets: those rows are left out")
        for text in sheet.texts:
            metadata = {**(text.metadata or {}), "sheet": name}
            texts.setdefault(text.id, replace(text, metadata=metadata))
    return Contents([*texts.values()], notes)


def _show(cell: Any) -> str:
    """A cell as in CSV: whole numbers without a fraction, dates in ISO 8601."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return cell.isoformat() if isinstance(cell, date) else str(cell)
