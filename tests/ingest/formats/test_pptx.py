"""PPTX: slides and their notes."""

import io
from datetime import UTC, datetime

from pptx import Presentation

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused


def made(*slides: tuple[str, str, str], title: str = "") -> bytes:
    deck = Presentation()
    for heading, body, notes in slides:
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = heading
        slide.placeholders[1].text = body
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    if slides:
        slide.shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9).text_frame.text = "grouped"
        table = slide.shapes.add_table(1, 2, 0, 0, 9, 9).table
        table.cell(0, 0).text, table.cell(0, 1).text = "shears", "1"
    about = deck.core_properties
    about.title, about.author, about.modified = title, "Ada", datetime(2026, 1, 2, 3, 4)
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def test_each_slide_is_a_section_with_its_notes():
    data = made(("Roses", "red", ""), ("", "In March.", "say it slowly"), title="Garden")
    (one,) = load("n/x.pptx", data).texts

    assert one.text == "Roses\n\nred\n\nIn March.\n\ngrouped\n\nshears | 1\n\nsay it slowly\n\n"
    assert [mark.name for mark in one.marks] == ["slide 1: Roses", "slide 2"]
    assert one.text[one.marks[1].start :].startswith("In March.")
    assert (one.title, one.metadata) == ("Garden", {"author": "Ada"})
    assert one.created_at == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def test_without_a_title_the_name_is_it():
    titles = [
        load("n/a/x.pptx", made(("Roses", "red", ""), title=one)).texts[0].title
        for one in ("", "PowerPoint Presentation")
    ]

    assert titles == ["a/x", "a/x"]


def test_one_without_text_is_refused_with_the_reason():
    assert refused("n/x.pptx", made()) == "has no text"
