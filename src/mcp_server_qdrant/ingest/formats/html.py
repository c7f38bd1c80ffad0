"""HTML: converts the visible part of a page to Markdown with beautifulsoup4 and markdownify."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    choose_title,
    decode,
    describe,
    find_codec,
    readable,
)
from mcp_server_qdrant.ingest.formats.markdown import headings

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

TYPE = "text/html"
UNSEEN = "script, style, template, noscript, nav, iframe, select, button, rt, rp"
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
BLOCKS = ["div", "p", "pre", "table", "ul"]
# Blocks that markdownify takes for inline text, which joins the words of two.
MORE_BLOCKS = (
    "address, aside, center, details, dialog, dir, fieldset, figure, footer, form, header, hgroup, "
    "legend, main, menu, optgroup, search, summary, textarea"
)
CELLS = ["table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th"]
TEXT_ONLY = ["a", "b", "del", "em", "i", "img", "s", "strong", "sub", "sup", "video"]
ANCHORS = " ¶§#🔗"  # characters of a heading's link to itself
SPACES = re.compile(r"[ \t]+$", re.MULTILINE)


def read(path: str, data: bytes) -> Contents:
    """The text of a page, with the title of its head, or else of a heading."""
    text, notes = decode(data, find_encoding(data))
    return Contents([load_page(path, parse_page(text))], notes)


def find_encoding(data: bytes) -> str | None:
    """The declared encoding of a page, if Python knows it."""
    from bs4.dammit import EncodingDetector

    name = find_codec(EncodingDetector.find_declared_encoding(data, is_html=True) or "")
    # A page whose declaration is readable as ASCII cannot be UTF-16.
    return None if name and name.startswith(("utf-16", "utf-32")) else name


def parse_page(page: str | bytes, kind: str = "lxml") -> "BeautifulSoup":
    """The parsed page, or XML document; malformed input is accepted."""
    import warnings

    from bs4 import BeautifulSoup

    with warnings.catch_warnings(action="ignore"):  # about pages that look like another format
        return BeautifulSoup(page, kind)


def load_page(path: str, page: "BeautifulSoup", title: str = "") -> Loaded:
    """The visible part of a page as Markdown, with its headings as marks."""
    from markdownify import MarkdownConverter

    for element in page.select(UNSEEN):
        element.decompose()
    for drawing in page.select("svg"):
        said = [one.get_text(" ", strip=True) for one in drawing.select("text, foreignObject")]
        drawing.replace_with(f" {' '.join(said)} " if said else "")
    given = title or (page.title.get_text() if page.title else "")
    for image in page.find_all("img"):
        heading, words = image.find_parent(HEADINGS), describe(str(image.get("alt", "")))
        beside = heading is not None and heading.get_text(strip=True)
        image.replace_with(f" {words} " if words and not beside else "")
    for block in page.select(MORE_BLOCKS):
        if not block.find_parent(HEADINGS):
            block.name = "div"
    page.smooth()
    for heading in page.find_all(HEADINGS):
        heading.insert_after(*heading.find_all(BLOCKS, recursive=False))
    for table in page.find_all("table"):
        if table.find(["table", *HEADINGS]) or not table.select_one("td + td, th + td, th + th"):
            for element in (table, *table.find_all(CELLS)):
                element.name = "div"
    made = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        strip=TEXT_ONLY,
        table_infer_header=True,
        escape_asterisks=False,
        escape_underscores=False,
        wrap=True,
        wrap_width=None,
    ).convert_soup(page.body or page)
    text = readable(SPACES.sub("", made).strip())
    marks = [replace(mark, name=mark.name.strip(ANCHORS)) for mark in headings(text)]
    title, sections = choose_title(path, marks, " ".join(readable(given).split()))
    return Loaded(text, title, marks=sections)
