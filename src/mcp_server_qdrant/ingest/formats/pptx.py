"""PPTX: the text of slides and their notes, by python-pptx."""

import io
from collections.abc import Iterable, Iterator
from typing import Any
from zipfile import ZipFile

from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    document,
    dublin_core,
    readable,
    titled,
)


def read(path: str, data: bytes) -> Contents:
    """The slides one after the other, each a section."""
    import pptx

    deck = pptx.Presentation(io.BytesIO(data))
    text, marks = "", list[Mark]()
    for number, slide in enumerate(deck.slides, 1):
        parts = [*_texts(slide.shapes)]
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            parts.append(notes.text)
        heading = slide.shapes.title
        name = " ".join(heading.text_frame.text.split()) if heading is not None else ""
        marks.append(Mark(len(text), 1, readable(f"slide {number}: {name}".rstrip(": "))))
        text += "".join(f"{readable(one).strip()}\n\n" for one in parts if one.strip())
    about = dublin_core(ZipFile(io.BytesIO(data)), "docProps/core.xml")
    given = about.get("title", "")
    title, _ = titled(path, (), "" if given == "PowerPoint Presentation" else given)
    return document(Loaded(text, title, marks=tuple(marks)), about)


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    """The texts of shapes, of those in groups too, and the rows of tables."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            rows = ([" ".join(cell.text.split()) for cell in row.cells] for row in shape.table.rows)
            yield "\n".join(" | ".join(cells) for cells in rows)
