"""HTML: what a reader sees of a page, as Markdown, by beautifulsoup4 and markdownify."""

import codecs
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, decode, readable, titled
from mcp_server_qdrant.ingest.formats.markdown import headings

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

UNSEEN = "script, style, template, noscript, svg, nav, iframe, select, button"
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
BLOCKS = ["div", "p", "pre", "table", "ul"]
CELLS = ["table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th"]
TEXT_ONLY = ["a", "b", "del", "em", "i", "img", "s", "strong", "sub", "sup", "video"]
ANCHORS = " ¶§#🔗"  # links to a heading, behind it
SPACES = re.compile(r"[ \t]+$", re.MULTILINE)


def read(path: str, data: bytes) -> Contents:
    """The text of a page; its title is that of its head, or its first heading."""
    text, notes = decode(data, declared(data))
    return Contents([loaded(path, parsed(text))], notes)


def declared(data: bytes) -> str | None:
    """The encoding that the page says it is in, where Python knows it."""
    from bs4.dammit import EncodingDetector

    name = EncodingDetector.find_declared_encoding(data, is_html=True)
    try:
        encoding = codecs.lookup(name or "").name
    except LookupError:
        return None
    # A page cannot be in UTF-16 where its declaration could be read as ASCII.
    return None if encoding.startswith(("utf-16", "utf-32")) else encoding


def parsed(page: str | bytes, kind: str = "lxml") -> "BeautifulSoup":
    """The elements of a page, or of XML; any tag soup has some."""
    import warnings

    from bs4 import BeautifulSoup

    with warnings.catch_warnings(action="ignore"):  # of a page that looks like something else
        return BeautifulSoup(page, kind)


def loaded(path: str, page: "BeautifulSoup", title: str = "") -> Loaded:
    """What is seen of a page, as Markdown, with its headings as marks."""
    from markdownify import MarkdownConverter

    for element in page.select(UNSEEN):
        element.decompose()
    given = title or (page.title.get_text() if page.title else "")
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
    title, sections = titled(path, marks, " ".join(readable(given).split()))
    return Loaded(text, title, marks=sections)
