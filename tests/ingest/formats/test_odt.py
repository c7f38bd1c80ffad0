"""ODT: texts of LibreOffice."""

from datetime import UTC, datetime

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused, zipped

SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "meta", "style")
)
META = f"""<office:document-meta {SPACES} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>
<dc:creator>Ada</dc:creator><dc:date>2026-01-02T03:04:05.6</dc:date></office:meta>
</office:document-meta>"""


def odt(body: str, **members: bytes) -> bytes:
    content = f"""<office:document-content {SPACES}><office:body><office:text>{body}</office:text>
</office:body></office:document-content>"""
    return zipped(**{"content.xml": content.encode(), "meta.xml": META.encode(), **members})


def test_it_becomes_text_with_headings_lists_and_tables():
    data = odt(
        '<text:p text:style-name="Title">Roses</text:p>'
        '<text:h text:outline-level="1">Pruning</text:h>'
        "<text:tracked-changes><text:p>taken out</text:p></text:tracked-changes>"
        "<text:p>In<text:s/>March<text:line-break/>or later.</text:p>"
        "<text:list><text:list-item><text:p>sharp shears</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>shears</text:p></table:table-cell>"
        "<table:table-cell><text:p>1</text:p></table:table-cell></table:table-row></table:table>"
    )
    (one,) = load("n/x.odt", data).texts

    assert one.text == (
        "# Roses\n\n## Pruning\n\nIn March\nor later.\n\n- sharp shears\n\n"
        "| shears | 1 |\n| --- | --- |"
    )
    assert [(mark.level, mark.name) for mark in one.marks] == [(1, ""), (2, "Pruning")]
    assert (one.title, one.metadata) == ("Roses", {"author": "Ada"})
    assert one.created_at == datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)


def test_comments_follow_their_paragraph_and_headers_and_footers_the_text():
    comment = (
        '<office:annotation><dc:creator xmlns:dc="http://purl.org/dc/elements/1.1/">Ada'
        "</dc:creator><text:p>thorny</text:p></office:annotation>"
    )
    styles = (
        f"<office:document-styles {SPACES}><style:header><text:p>garden</text:p></style:header>"
        "<style:footer><text:p>page</text:p></style:footer></office:document-styles>"
    )
    data = odt(f"<text:p>red {comment}roses</text:p>", **{"styles.xml": styles.encode()})

    lines = load("n/x.odt", data).texts[0].text.split("\n")
    assert [*filter(None, lines)] == ["red roses", "thorny", "garden", "page"]


def test_one_without_text_is_refused_with_the_reason():
    assert refused("n/x.odt", odt("")) == "has no text"


def test_charts_and_equations_follow_at_the_end():
    chart = (
        '<c xmlns:chart="urn:x"><chart:chart><chart:title>Harvest</chart:title></chart:chart></c>'
    )
    math = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>E</mi><mo>=</mo><mi>gull</mi></math>'
    )
    objects = {"Object 1/content.xml": chart.encode(), "Object 2/content.xml": math.encode()}
    (one,) = load("n/x.odt", odt("<text:p>Roses</text:p>", **objects)).texts

    assert one.text.split() == ["Roses", "Harvest", "E=gull"]
