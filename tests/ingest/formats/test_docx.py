"""DOCX: text, headings, lists and tables."""

import io
import sys
from datetime import UTC, datetime

import pytest
from docx import Document

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import REFUSED, refused, zipped


def made(*paragraphs: tuple[str, str | None], title: str = "", rows: tuple = ()) -> bytes:
    document = Document()
    for text, style in paragraphs:
        document.add_paragraph(text, style)
    if rows:
        table = document.add_table(len(rows), len(rows[0]))
        for cell, text in zip(table._cells, [one for row in rows for one in row], strict=True):
            cell.text = text
        table.cell(0, 0).merge(table.cell(0, 1))
    about = document.core_properties
    about.title, about.author, about.modified = title, "Ada", datetime(2026, 1, 2, 3, 4)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_it_becomes_text_with_headings_lists_and_tables():
    data = made(
        ("Roses", "Title"),
        ("Pruning", "Heading 1"),
        ("In March.", None),
        ("sharp shears", "List Bullet"),
        ("How", "Heading 2"),
        rows=(("tools", ""), ("shears", "1")),
    )
    (one,) = load("n/x.docx", data).texts

    assert one.text == (
        "# Roses\n\n## Pruning\n\nIn March.\n\n- sharp shears\n\n### How\n\ntools\nshears | 1\n\n"
    )
    assert [(mark.level, mark.name) for mark in one.marks] == [(1, ""), (2, "Pruning"), (3, "How")]
    assert [one.text[mark.start] for mark in one.marks] == ["#"] * 3
    assert (one.title, one.metadata) == ("Roses", {"author": "Ada"})
    assert one.created_at == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def test_the_title_is_its_own_or_the_name_of_the_file():
    titles = [
        load("n/a/x.docx", made(("text", None), title=one)).texts[0].title for one in ("Roses", "")
    ]

    assert titles == ["Roses", "a/x"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *REFUSED,
        (zipped(a=b"text"), "is not a DOCX that can be read"),
        (made(), "has no text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(data, reason):
    assert refused("n/x.docx", data) == reason


def test_without_the_extra_the_line_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "docx", None)

    assert refused("n/x.docx", made(("text", None))) == (
        "needs the extra `files`: pip install 'qdrant-collections-mcp[files]'"
    )
