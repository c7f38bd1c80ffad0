"""A text's lines and sentences, which a quote is made of, and about how many tokens it is.

A line is one unit, since nothing tells for sure that it is not code or a row. Only a line that is
too long for that is split into sentences. A heading, a fence or the rule of a table alone says
nothing: a heading begins the sentence below it, and the others are left out.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

WRAPPED = 50  # characters: after so long a line, prose goes on in the next one
CODE_LINE = 160  # characters of a line of code or of wrapped prose at most

SIGNS = "-=~^\"'`#*+.:_"  # that underline headings
# Underlines of headings, rules of tables and pages: a token each sign to most models.
RULES = re.compile(rf"^[ \t]*[{SIGNS}|][{SIGNS}| \t]{{3,}}$", re.MULTILINE)

_PIECE = re.compile(r"\d+|[A-Za-z]+|[^\W\d_]+|[^\w\s]|_|\n")  # of tokens
_TOKEN = re.compile(r"\d{1,3}|[A-Za-z]{1,6}|[^\w\s]|_|\n")  # the same in pieces of their length
_IDEOGRAPHS = "\u2e80"  # from here on, most characters are words
_LINE = re.compile(r"[^\n]*\n|[^\n]+$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s")
_ROW = re.compile(r"\s*\|")
_MARKS = re.compile(r"[\s=*_~+|:-]*$")  # rules of tables and pages, underlines of headings
_LINK = re.compile(r"\s*\[[^\]]+\]:\s+\S+\s*$")  # where a link leads, below the text that has it
_ITEM = re.compile(r"\s*(?:[-*+>•]|\d+[.)])\s|\d{4}-\d\d|\d\d:\d\d")
_CODE = re.compile(r"\s{4,}\S|\t")
# A stop ends a sentence before white space only: "renew.sh" and "0.18" are words; nor does it
# before a small letter, or after an initial, an ordinal ("3. Mai") and some abbreviations.
_STOP = re.compile(
    "[\u3002\uff01\uff1f]+\\s*|[.!?\u2026]+[\"'\u201d\u2019\u00bb)\\]]*\\s+(?![a-z\u00df-\u00f6\u00f8-\u00ff])"
)
_OPEN = re.compile(
    r"(?:^|[\s(.])(?:[^\W\d_]|\d{1,2}|Mrs?|Ms|Dr|Prof|St|N[or]|Inc|[JS]r|Sra|vs|ca|bzw|approx|Fig"
    r"|Vol)\.\s$"
)


class Sentence(NamedTuple):
    """A line or a sentence, from its headings on; `body` is where it begins below them."""

    start: int
    end: int
    body: int


def sentences(text: str, longest: int) -> list[Sentence]:
    """The lines and sentences among the first `longest` characters, in order."""
    found: list[Sentence] = []
    heading: int | None = None  # where the headings begin that no sentence has yet
    for start, end, kind in blocks(text[:longest]):
        if kind == "heading":
            heading = start if heading is None else heading
            continue
        for first, last in _split(text, start, end) if kind == "prose" else [(start, end)]:
            found.append(Sentence(first if heading is None else heading, last, first))
            heading = None
    if heading is not None:  # nothing below it
        found.append(Sentence(heading, min(len(text), longest), heading))
    return found


def blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind of each paragraph of prose, and of each other line.

    Kinds are prose, heading, row and code; rules and fences are left out.
    """
    fenced, open_since, wrapped, indent = False, -1, False, 0
    for match in _LINE.finditer(text):
        start, end, line = match.start(), match.end(), match.group()
        kind = _kind(line, fenced=fenced)
        fenced ^= kind == "fence"
        margin = len(line) - len(line.lstrip())
        apart = _ITEM.match(line) or (margin != indent and _CODE.match(line))
        goes_on = kind == "prose" and wrapped and not apart
        if open_since >= 0 and not goes_on:
            yield open_since, start, "prose"
            open_since = -1
        if kind == "prose":
            open_since = start if open_since < 0 else open_since
        elif kind in ("heading", "row", "code"):
            yield start, end, kind
        wrapped, indent = kind == "prose" and len(line) > WRAPPED, margin
    if open_since >= 0:
        yield open_since, len(text), "prose"


def _kind(line: str, *, fenced: bool) -> str:
    if _FENCE.match(line):
        return "fence"
    if _MARKS.match(line) or _LINK.match(line):
        return "blank"
    if fenced:
        return "code"
    if _HEADING.match(line):
        return "heading"
    return "row" if _ROW.match(line) else "prose"


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The lines of a paragraph, and the sentences of a long line."""
    for line in _LINE.finditer(text, start, end):
        first, last = line.span()
        for match in _STOP.finditer(text, first, last) if last - first > CODE_LINE else ():
            stop = match.end()
            if stop < last and not _OPEN.search(text, max(first - 1, stop - 8, 0), stop):
                yield first, stop
                first = stop
        yield first, last


def tokens(text: str) -> int:
    """About how many tokens a language model reads it as; seldom fewer than it does."""
    if text.isascii():  # in half the time
        return len(_TOKEN.findall(text))
    return sum(-(-len(piece) // _letters(piece[0])) for piece in _PIECE.findall(text))


def _letters(first: str) -> int:
    """The letters of a token in a word that begins so."""
    if first.isascii():
        return 6 if first.isalpha() else 3
    return 1 if first >= _IDEOGRAPHS else 3
