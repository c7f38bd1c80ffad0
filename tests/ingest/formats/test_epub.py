"""EPUB: the chapters of a book."""

import io
import zipfile
from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.ingest.formats.load import BROKEN, load
from tests.ingest.formats.archives import refused, zipped
from tests.made_documents import rezipped

CONTAINER = b"""<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OPS/book.opf"/></rootfiles></container>"""
BOMB = b"""<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">%s]><package>&j;</package>""" % b"".join(
    b'<!ENTITY %c "%s">' % (now, b"&%c;" % before * 100)
    for before, now in zip(b"abcdefghi", b"bcdefghij", strict=True)
)


def book(*pages: bytes, about: str = "") -> bytes:
    items = "".join(
        f'<item id="i{n}" href="page%20{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in range(len(pages) + 1)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in reversed(range(len(pages))))
    package = f"""<package xmlns="http://www.idpf.org/2007/opf"
      xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>{about}</metadata>
      <manifest>{items}<item id="p" href="p.png" media-type="image/png"/></manifest>
      <spine>{spine}<itemref idref="p"/><itemref idref="gone"/></spine></package>"""
    named = {f"OPS/page {n}.xhtml": page for n, page in enumerate(pages)}
    members = {"META-INF/container.xml": CONTAINER, "OPS/book.opf": package.encode()}
    return zipped(**members, **named)


def test_chapters_follow_each_other_as_the_spine_says():
    about = "<dc:title>Roses</dc:title><dc:creator>Ada</dc:creator><dc:date>2026-01-02</dc:date>"
    data = book(b"<p>The end.</p>", b"<h1>Pruning</h1><p>In March.</p>", about=about)
    (one,) = load("n/x.epub", data).texts

    assert one.text == "# Pruning\n\nIn March.\n\nThe end.\n\n"
    assert [(mark.start, mark.name) for mark in one.marks] == [(0, "Pruning"), (22, "chapter 2")]
    assert (one.title, one.metadata) == ("Roses", {"author": "Ada"})
    assert one.created_at == datetime(2026, 1, 2, tzinfo=UTC)


def test_chapters_that_cannot_be_read_are_left_out_and_named():
    contents = load("n/x.epub", book(b"\x89PNG\0", b"gr\xc3", b"<p>kept</p>"))

    assert contents.texts[0].text == "kept\n\n"
    assert contents.notes == [
        "chapter 2 ends in the middle of a character: is it complete?",
        "chapter 3 is binary",
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (zipped(**{"META-INF/container.xml": b"<a/>"}), BROKEN),
        (zipped(**{"META-INF/container.xml": BOMB}), BROKEN),
        (book(), "has no text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(data, reason):
    assert refused("n/x.epub", data) == reason


def test_links_with_a_query_and_pages_of_svg_are_read():
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><text>gull</text></svg>'
    data = book(b"<p>kept</p>", drawing)
    package = zipfile.ZipFile(io.BytesIO(data)).read("OPS/book.opf").decode()
    package = package.replace('0.xhtml"', '0.xhtml?x=1"')
    (one,) = load("n/x.epub", rezipped(data, {"OPS/book.opf": package})).texts

    assert one.text.split() == ["gull", "kept"]
