"""DOCX: text, headings, lists and tables."""

import io
from datetime import UTC, datetime

from docx import Document
from docx.oxml import parse_xml

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused


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
        "# Roses\n\n## Pruning\n\nIn March.\n\n- sharp shears\n\n### How\n\n"
        "| tools | |\n| --- | --- |\n| shears | 1 |"
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


def test_one_without_text_is_refused_with_the_reason():
    assert refused("n/x.docx", made()) == "has no text"


WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
CONTROL = (
    f"<w:sdt {WORD}><w:sdtContent><w:p><w:r><w:t>in a form</w:t></w:r></w:p></w:sdtContent></w:sdt>"
)
CHANGE = f"""<w:p {WORD}><w:ins><w:r><w:t>put in</w:t></w:r></w:ins>
<w:del><w:r><w:delText>taken out</w:delText></w:r></w:del></w:p>"""


def test_forms_and_tracked_changes_are_read_as_they_are_seen():
    document = Document()
    for part in (CONTROL, CHANGE):
        document.element.body.insert(0, parse_xml(part))
    out = io.BytesIO()
    document.save(out)

    assert load("n/x.docx", out.getvalue()).texts[0].text.split("\n\n") == ["put in", "in a form"]
