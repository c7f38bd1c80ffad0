"""PPTX: extracts the text of slides, charts, notes and comments with python-pptx."""

import io
from collections.abc import Iterable, Iterator
from typing import Any
from zipfile import ZipFile

from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    as_document,
    choose_title,
    describe,
    dublin_core,
    note_unread,
    readable,
)
from mcp_server_qdrant.ingest.formats.office import note_embedded, read_captions, settle

BESIDE = ("chart", "chartEx", "diagramData", "comments")  # other parts of a slide with texts


def read(path: str, data: bytes) -> Contents:
    """The slides in order, each as a section."""
    from pptx.package import Package

    # Unlike `Presentation`, this opens shows and templates too.
    deck = Package.open(io.BytesIO(data)).main_document_part.presentation
    text, marks, broken = "", list[Mark](), 0
    for number, slide in enumerate(deck.slides, 1):
        settle(slide.element)
        beside, damaged = _beside(slide)
        broken += damaged
        parts = [*_texts(slide.shapes), *beside]
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            parts.append(notes.text)
        heading = slide.shapes.title
        name = " ".join(heading.text_frame.text.split()) if heading is not None else ""
        marks.append(Mark(len(text), 1, readable(f"slide {number}: {name}".rstrip(": "))))
        text += "".join(f"{readable(one).strip()}\n\n" for one in parts if one.strip())
    archive = ZipFile(io.BytesIO(data))
    about = dublin_core(archive, "docProps/core.xml")
    given = about.get("title", "")
    title, _ = choose_title(path, (), "" if given == "PowerPoint Presentation" else given)
    left_out = note_unread(broken, "damaged part") + note_embedded(archive, "ppt/slides/_rels/")
    return as_document(Loaded(text, title, marks=tuple(marks)), about, left_out)


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    """The texts of shapes, also within groups, and the rows of tables."""
    for shape in shapes:
        yield describe(next(shape.element.iter("{*}cNvPr")).get("descr", ""))
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            rows = ([" ".join(cell.text.split()) for cell in row.cells] for row in shape.table.rows)
            yield "\n".join(" | ".join(cells) for cells in rows)


def _beside(slide: Any) -> tuple[list[str], int]:
    """The text of the charts, SmartArt and comments of a slide, and the number of damaged parts."""
    links = [link for link in slide.part.rels.values() if not link.is_external]
    wanted = (link for link in links if link.reltype.rpartition("/")[2] in BESIDE)
    return read_captions(link.target_part.blob for link in wanted)
