"""Documents of Office, PDF and e-books: no word is lost that a person sees, or a note says so."""

import pytest

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import zipped
from tests.made_documents import (
    DRAWN,
    EMBEDDED,
    FOOTNOTES,
    PARTS,
    form,
    related,
    rezipped,
    slides,
    word,
)

RELS = "word/_rels/document.xml.rels"
EDGES = ["commented here", "Comment: acomment", "aheader", "afooter"]
SEEN = {  # kind of paragraph -> what is seen of it
    "drawn": ["drawnbox"],
    "vml": ["vmlbox"],
    "both": ["beside", "bothbox", "secondbox"],
    "nested": ["outer", "inner"],
    "equation": ["where x=y^2+k_i(1+a)/(b)√(c) holds"],
    "line": ["E=m"],
    "field": ["simplefield"],
    "ruby": ["漢字"],
    "inserted": ["putin"],
    "moved": ["tothere"],
    "tag": ["smarttagcustomxml"],
    "isolated": ["righttoleft"],
    "picture": ["agull"],
    "old": ["oldgull"],
    "link": ["tonowhere"],
}


@pytest.mark.parametrize("kind", PARTS)
def test_each_kind_of_paragraph_of_word_is_read_as_it_is_seen(kind):
    contents = load("n/x.docx", word(kind))
    paragraphs = contents.texts[0].text.split("\n\n")

    assert paragraphs[0] == "## Harbour"
    assert sorted(paragraphs[1:]) == sorted([*SEEN[kind], *EDGES])
    assert contents.notes == []


def test_other_parts_of_word_are_read_and_embedded_files_named():
    sign = '<w:r><w:footnoteReference w:id="1"/></w:r>'
    data = related(word(sign), RELS, FOOTNOTES, *DRAWN, *EMBEDDED)
    contents = load("n/x.docx", data)
    text = contents.texts[0].text
    seen = ("charttitle", "aseries", "acategory", "smartart", "afootnote infootnote")

    assert [one for one in seen if one not in text] == []
    assert "4711" not in text
    assert contents.notes == ["2 embedded files were not read"]


def test_a_damaged_part_that_is_not_needed_is_named():
    torn = word("ruby").replace(b"word/footer1.xml", b"word/footer1.xm_", 1)
    for path, data, read in (
        ("n/x.docx", rezipped(word("ruby"), {"word/footer1.xml": "<w:ftr"}), "aheader"),
        ("n/x.docx", torn, "aheader"),
        ("n/x.pptx", rezipped(slides(), {"ppt/diagrams/data1.xml": "<dgm"}), "charttitle"),
    ):
        contents = load(path, data)
        assert read in contents.texts[0].text
        assert contents.notes[0] == "1 damaged part was not read"


def test_slides_have_their_charts_smartart_equations_and_comments():
    contents = load("n/x.pptx", slides())

    assert contents.texts[0].text.split() == [
        *("Harbour", "leftcell", "|", "rightcell", "area", "x=y^2+k_i(1+a)/(b)√(c)", "newershape"),
        *("charttitle", "aseries", "acategory", "othercategory", "smartart", "acomment"),
        "speakernote",
    ]
    assert contents.notes == ["1 embedded file was not read"]


def test_a_pdf_has_the_values_of_its_form_and_its_notes():
    contents = load("n/x.pdf", form())

    assert contents.texts[0].text.split("\n")[:-2] == [
        *("visible", "owner: Ada Lovelace", "port: Genoa", "ports: Genoa, Pisa", "insured: Yes"),
        *("stickynote", "highlightnote", "freetext"),
    ]
    assert contents.notes == ["1 attached file was not read"]


def test_a_form_alone_is_a_text_and_one_in_xfa_is_named():
    assert "Lovelace" in load("n/x.pdf", form(page="")).texts[0].text
    assert load("n/x.pdf", form(xfa=True)).notes[0] == "1 XFA form was not read"


XHTML = "application/xhtml+xml"
LINKS = {  # what a link is -> the link, the file's name in the archive, its media type
    "plain": ("text/one.xhtml", "OPS/text/one.xhtml", XHTML),
    "with a fragment": ("text/one.xhtml#start", "OPS/text/one.xhtml", XHTML),
    "from the top": ("/OPS/text/one.xhtml", "OPS/text/one.xhtml", XHTML),
    "from the top by mistake": ("OPS/text/one.xhtml", "OPS/text/one.xhtml", XHTML),
    "above": ("../text/one.xhtml", "text/one.xhtml", XHTML),
    "above the top": ("../../text/one.xhtml", "text/one.xhtml", XHTML),
    "quoted": ("a%20b%C3%BC.xhtml", "OPS/a bü.xhtml", XHTML),
    "a name with a sign of quoting": ("a%20b.xhtml", "OPS/a%20b.xhtml", XHTML),
    "not quoted": ("a b#c.xhtml", "OPS/a b#c.xhtml", XHTML),
    "of other case": ("Text/One.XHTML", "OPS/text/one.xhtml", XHTML),
    "decomposed": ("bu\u0308.xhtml", "OPS/b\u00fc.xhtml", XHTML),
    "composed": ("b%C3%BC.xhtml", "OPS/bu\u0308.xhtml", XHTML),
    "with backslashes": ("text\\one.xhtml", "OPS/text/one.xhtml", XHTML),
    "of an old type": ("one.htm", "OPS/one.htm", "text/x-oeb1-document"),
    "of HTML": ("one.html", "OPS/one.html", "text/html"),
    "of type XML": ("one.xml", "OPS/one.xml", "application/xml"),
    "of a wrong type": ("one.xhtml", "OPS/one.xhtml", "text/plain"),
    "of a type in capitals": ("one", "OPS/one", "Application/XHTML+XML; charset=utf-8"),
}


def book(link: str, name: str, kind: str, package: str = "OPS/book.opf", more: str = "") -> bytes:
    container = f'<container><rootfiles><rootfile full-path="{package}"/></rootfiles></container>'
    opf = (
        f'<package><manifest><item id="a" href="{link}" media-type="{kind}"/>{more}</manifest>'
        '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
    )
    page = "<html><body><p>harbour</p></body></html>"
    members = {"META-INF/container.xml": container, "OPS/book.opf": opf, name: page}
    return zipped(**{name: text.encode() for name, text in members.items()})


@pytest.mark.parametrize(("link", "name", "kind"), LINKS.values(), ids=LINKS)
def test_a_chapter_is_found_however_it_is_linked(link, name, kind):
    contents = load("n/x.epub", book(link, name, kind))

    assert [one.text for one in contents.texts] == ["harbour\n\n"]
    assert contents.notes == []


@pytest.mark.parametrize(
    ("second", "notes"), [("one.xhtml#end", []), ("gone.xhtml", ["chapter 2 cannot be read"])]
)
def test_a_chapter_of_several_entries_is_read_once_and_one_that_is_not_there_named(second, notes):
    more = f'<item id="b" href="{second}" media-type="application/xhtml+xml"/>'
    contents = load("n/x.epub", book("one.xhtml#start", "OPS/one.xhtml", XHTML, more=more))

    assert [one.text for one in contents.texts] == ["harbour\n\n"]
    assert contents.notes == notes


def test_of_chapters_that_differ_in_case_the_exact_one_is_read_and_the_package_is_found_likewise():
    data = book("One.xhtml", "OPS/One.xhtml", XHTML, package="/ops/Book.opf")
    other = rezipped(data, {"OPS/one.xhtml": "<p>other</p>"})

    assert load("n/x.epub", other).texts[0].text == "harbour\n\n"
