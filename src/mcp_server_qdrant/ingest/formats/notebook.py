"""Jupyter notebooks: a section per cell, below the headings of the text."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    fault_notes,
    parsed,
    readable,
    titled,
)
from mcp_server_qdrant.ingest.formats.markdown import headings

CELL = 7  # as deep as a cell lies: below the headings of Markdown
OUTPUT = 2_000  # characters of what a cell shows that are kept


def read(path: str, text: str) -> Contents:
    """Text, code and what the code wrote, as Markdown. Raises UnusableFile."""
    notebook = parsed(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise UnusableFile("is not a Jupyter notebook of version 4: it has no cells")
    about = _mapping(notebook.get("metadata"))
    language = _joined(_mapping(about.get("language_info")).get("name")) or ""
    faults: list[tuple[str, int]] = []
    text, found, starts = "", list[Mark](), list[Mark]()
    for number, cell in enumerate(cells, 1):
        source = _joined(_mapping(cell).get("source"))
        if source is None:
            faults.append(("has no source", number))
            continue
        if not source.strip():
            continue
        within = list(headings(source)) if cell.get("cell_type") == "markdown" else []
        found += [replace(mark, start=len(text) + mark.start) for mark in within]
        if not within or within[0].start:
            starts.append(Mark(len(text), CELL, f"cell {number}"))
        if cell.get("cell_type") == "code":
            source = "\n\n".join([f"```{language}\n{source}\n```", *_outputs(cell)])
        text += f"{source}\n\n"
    title, marks = titled(path, found, (_joined(about.get("title")) or "").strip())
    marks = tuple(sorted([*marks, *starts], key=lambda mark: mark.start))
    return Contents([Loaded(text, title, marks=marks)], fault_notes("cell", faults))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _joined(value: Any) -> str | None:
    """A text, which may be stored as a list of lines; None where it is neither."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    return readable(value) if isinstance(value, str) else None


def _outputs(cell: Mapping[str, Any]) -> Iterator[str]:
    """The text of what a cell wrote: no pictures, no HTML."""
    outputs = cell.get("outputs")
    for output in map(_mapping, outputs if isinstance(outputs, list) else ()):
        shown = _joined(output.get("text") or _mapping(output.get("data")).get("text/plain"))
        if output.get("output_type") == "error":
            shown = readable(f"{output.get('ename')}: {output.get('evalue')}")
        if shown and shown.strip():
            yield f"```\n{shown.strip()[:OUTPUT]}\n```"
