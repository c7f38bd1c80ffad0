"""PDF: the text of its pages."""

import io

import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from mcp_server_qdrant.ingest.formats.load import BROKEN, load
from mcp_server_qdrant.ingest.formats.pdf import read
from tests.ingest.formats.archives import refused


def pdf(*pages: str, title: str | None = None, password: str | None = None) -> bytes:
    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    for text in pages:
        page = writer.add_blank_page(200, 100)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 50 Td ({text}) Tj ET".encode())
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        page[NameObject("/Contents")] = writer._add_object(stream)
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_pages_follow_each_other_and_are_marked():
    (one,) = read("n/shed.pdf", pdf("The key", "hangs here", title="Shed")).texts

    assert one.title == "Shed"
    assert one.text.split() == ["The", "key", "hangs", "here"]
    assert [(mark.level, mark.name) for mark in one.marks] == [(0, "page 1"), (0, "page 2")]
    assert one.text[one.marks[1].start :].startswith("hangs")


def test_without_a_title_the_name_is_it():
    assert read("n/a/shed.pdf", pdf("The key")).texts[0].title == "shed"


def test_words_are_whole_again_that_were_divided():
    """A search for them would not find their halves."""
    data = pdf("har-) Tj 0 -14 Td (bour")

    assert load("n/x.pdf", data).texts[0].text.strip() == "harbour"


def test_it_is_told_by_how_it_begins_whatever_its_name():
    assert load("n/shed.txt", pdf("The key")).texts[0].text.strip() == "The key"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf("The key", password="s3cret"), BROKEN),
        (pdf(""), "has no text: its pages may be pictures"),
        (b"%PDF-1.7 and nothing", BROKEN),
    ],
)
def test_one_without_text_is_refused_with_the_reason(data, reason):
    assert refused("n/x.pdf", data) == reason
