"""Jupyter notebooks: one section per cell, below the Markdown headings."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats import html
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
DISPLAYED = re.compile(r"<IPython\.core\.display\.")  # the plain text of a displayed object


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
            outputs = [*_outputs(cell)]
            if any(len(one) > OUTPUT for one in outputs):
                faults.append((f"has an output that is cut after {OUTPUT:,} characters", number))
            printed = [f"```\n{one[:OUTPUT]}\n```" for one in outputs]
            source = "\n\n".join([f"```{language}\n{source}\n```", *printed])
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
    """The text outputs of a cell; HTML only if it is the only text."""
    outputs = cell.get("outputs")
    for output in map(mapping, outputs if isinstance(outputs, list) else ()):
        data = mapping(output.get("data"))
        plain = _join(output.get("text") or data.get("text/plain")) or ""
        rich = "" if plain and not DISPLAYED.match(plain) else _join(data.get("text/html")) or ""
        page = html.load_page("output", html.parse_page(rich)).text if rich else plain
        shown = _join(data.get("text/markdown")) or page
        if output.get("output_type") == "error":
            shown = readable(f"{output.get('ename')}: {output.get('evalue')}")
        if shown and shown.strip():
            yield shown.strip()
