"""HTML: what a reader sees of a page, with its headings, as Markdown."""

import codecs
import re
from html.parser import HTMLParser

from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    Patience,
    decode,
    titled,
)

UNSEEN = frozenset(
    {"script", "style", "template", "noscript", "svg", "nav", "iframe", "select", "button"}
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
# fmt: off
BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "main",
    "ol", "p", "section", "summary", "table", "tbody", "thead", "tfoot", "ul",
))
# fmt: on
LINES = frozenset({"br", "tr", "option"})
CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
HEAD = 2048
SECONDS = 30  # the parser's time grows with the square of what is never closed
ANCHORS = " ¶§#🔗"  # links to a heading, behind it
SPACE = re.compile(r"[ \t\r\n\f\v]+")


def declared(data: bytes) -> str | None:
    """The encoding that the page says it is in, where Python knows it."""
    found = CHARSET.search(data[:HEAD])
    if found is None:
        return None
    try:
        encoding = codecs.lookup(found[1].decode()).name
    except LookupError:
        return None
    # A page cannot be in UTF-16 where its declaration could be read as ASCII.
    return None if encoding.startswith(("utf-16", "utf-32")) else encoding


def read(path: str, data: bytes) -> Contents:
    """The text of a page; its title is that of its head, or its first heading."""
    page = _Page()
    page.feed(decode(data, declared(data)))
    page.close()
    title, marks = titled(path, page.marks, " ".join("".join(page.title).split()))
    return Contents([Loaded("".join(page.parts), title, marks=marks, markdown=True)])


class _Page(HTMLParser):
    """Collects the visible text; the parser takes any tag soup."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.marks: list[Mark] = []
        self.parts: list[str] = []
        self.title: list[str] = []
        self._length = 0
        self._in_time = Patience(SECONDS)
        self._unseen: str | None = None  # the outermost element that is not seen
        self._depth = 0  # of elements like it within each other
        self._preformatted = 0
        self._in_title = False
        self._heading: tuple[int, int, int] | None = None  # level, start, first part

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._in_time.check()
        if tag in UNSEEN:
            self._unseen = self._unseen or tag
            self._depth += tag == self._unseen
        elif tag == "title" and not self._unseen:
            self._in_title = True
        elif tag in HEADINGS:
            self._break("\n\n")
            self._heading = (HEADINGS[tag], self._length, len(self.parts))
            self._add("#" * HEADINGS[tag] + " ")
        elif tag == "pre":
            self._break("\n\n")
            self._preformatted += 1
        elif tag == "li":
            self._break("\n")
            self._add("- ")
        elif tag in ("td", "th"):
            self._add(" ")
        elif tag in BLOCKS or tag in LINES:
            self._break("\n\n" if tag in BLOCKS else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._unseen:
            self._depth -= 1
            self._unseen = tag if self._depth else None
        elif tag == "title":
            self._in_title = False
        elif tag in HEADINGS:
            self._end_heading()
            self._break("\n\n")
        elif tag == "pre" or tag in BLOCKS:
            self._preformatted = max(self._preformatted - (tag == "pre"), 0)
            self._break("\n\n")

    def handle_data(self, data: str) -> None:
        self._in_time.check()
        if self._in_title:
            self.title.append(data)
        elif self._unseen:
            return
        elif self._preformatted:
            self._add(data)
        else:
            folded = SPACE.sub(" ", data)
            at_start = not self.parts or self.parts[-1][-1:] in (" ", "\n")
            self._add(folded.lstrip(" ") if at_start else folded)

    def _end_heading(self) -> None:
        if self._heading is None:
            return
        level, start, first = self._heading
        self._heading = None
        line = "".join(self.parts[first + 1 :]).strip().partition("\n")[0]
        if name := " ".join(line.split()).strip(ANCHORS):
            self.marks.append(Mark(start, level, name))

    def _break(self, ends: str) -> None:
        """End what came before with these line ends, and no more of them."""
        if self.parts:
            last = self.parts[-1]
            have = len(last) - len(last.rstrip("\n"))
            if have < len(ends) and not (have and len(self.parts) > 1 and ends == "\n"):
                self._add(ends[have:])

    def _add(self, text: str) -> None:
        if text and not self._unseen:
            self.parts.append(text)
            self._length += len(text)
