"""Jupyter notebooks: one section per cell, below the Markdown headings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    choose_title,
    fault_notes,
    mapping,
    parse_json,
    readable,
)
from mcp_server_qdrant.ingest.formats.markdown import headings

CELL = 7  # level of a cell's section, below Markdown's six
OUTPUT = 2_000  # characters kept of an output


def read(path: str, text: str) -> Contents:
    """Text, code and outputs as Markdown. Raises UnusableFile."""
    notebook = parse_json(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise UnusableFile("is not a Jupyter notebook of version 4: it has no cells")
    about = mapping(notebook.get("metadata"))
    language = _join(mapping(about.get("language_info")).get("name")) or ""
    faults: list[tuple[str, int]] = []
    text, found, starts = "", list[Mark](), list[Mark]()
    for number, cell in enumerate(cells, 1):
        source = _join(mapping(cell).get("source"))
        if source is None:
            faults.append(("has no source", number))
        if not (source and source.strip()):
            continue
        within = list(headings(source)) if cell.get("cell_type") == "markdown" else []
        found += [replace(mark, start=len(text) + mark.start) for mark in within]
        if not within or within[0].start:
            starts.append(Mark(len(text), CELL, f"cell {number}"))
        if cell.get("cell_type") == "code":
            source = "\n\n".join([f"```{language}\n{source}\n```", *_outputs(cell)])
        text += f"{source}\n\n"
    title, sections = choose_title(path, found, (_join(about.get("title")) or "").strip())
    marks = tuple(sorted([*sections, *starts], key=lambda mark: mark.start))
    return Contents([Loaded(text, title, marks=marks)], fault_notes("cell", faults))


def _join(value: Any) -> str | None:
    """A string, which may be stored as a list of lines; None for anything else."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    return readable(value) if isinstance(value, str) else None


def _outputs(cell: Mapping[str, Any]) -> Iterator[str]:
    """The text outputs of a cell, without pictures and HTML."""
    outputs = cell.get("outputs")
    for output in map(mapping, outputs if isinstance(outputs, list) else ()):
        shown = _join(output.get("text") or mapping(output.get("data")).get("text/plain"))
        if output.get("output_type") == "error":
            shown = readable(f"{output.get('ename')}: {output.get('evalue')}")
        if shown and shown.strip():
            yield f"```\n{shown.strip()[:OUTPUT]}\n```"
