"""Splits a text into lines and sentences, the units of quotes, and estimates its tokens.

A line is one unit, because it may be code or a table row; only a long line is split into sentences.
A heading belongs to the sentence below it. Fences and table rules are left out.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

WRAPPED = 50  # characters; after a longer line, prose continues in the next one
CODE_LINE = 160  # characters of a line of code or of wrapped prose at most

SIGNS = "-=~^\"'`#*+.:_"  # characters that underline headings
# Heading underlines, table and page rules: most models count a token per character.
RULES = re.compile(rf"^[ \t]*[{SIGNS}|][{SIGNS}| \t]{{3,}}$", re.MULTILINE)

_PIECE = re.compile(r"\d+|[A-Za-z]+|[^\W\d_]+|[^\w\s]|_|\n")  # approximates tokens
_TOKEN = re.compile(r"\d{1,3}|[A-Za-z]{1,6}|[^\w\s]|_|\n")  # the same, cut to the length of tokens
_IDEOGRAPHS = "\u2e80"  # from here on, most characters are words
_LINE = re.compile(r"[^\n]*\n|[^\n]+$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s")
_ROW = re.compile(r"\s*\|")
_MARKS = re.compile(r"[\s=*_~+|:-]*$")  # rules of tables and pages, underlines of headings
_LINK = re.compile(r"\s*\[[^\]]+\]:\s+\S+\s*$")  # a link reference definition
_ITEM = re.compile(r"\s*(?:[-*+>•]|\d+[.)])\s|\d{4}-\d\d|\d\d:\d\d")
_CODE = re.compile(r"\s{4,}\S|\t")
# A stop ends a sentence only before white space ("renew.sh" and "0.18" are words), and not before a
# lowercase letter or after an initial, an ordinal ("3. Mai") or some abbreviations.
_STOP = re.compile(
    "[\u3002\uff01\uff1f]+\\s*|[.!?\u2026]+[\"'\u201d\u2019\u00bb)\\]]*\\s+(?![a-z\u00df-\u00f6\u00f8-\u00ff])"
)
_OPEN = re.compile(
    r"(?:^|[\s(.])(?:[^\W\d_]|\d{1,2}|Mrs?|Ms|Dr|Prof|St|N[or]|Inc|[JS]r|Sra|vs|ca|bzw|approx|Fig"
    r"|Vol)\.\s$"
)


class Sentence(NamedTuple):
    """A line or sentence with the headings above it; `body` is its own start."""

    start: int
    end: int
    body: int


def sentences(text: str, longest: int) -> list[Sentence]:
    """The lines and sentences among the first `longest` characters, in order."""
    found: list[Sentence] = []
    heading: int | None = None  # start of headings that belong to the next sentence
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
    """(start, end, kind) of each prose paragraph and of each other line.

    Kinds: prose, heading, row and code; rules and fences are left out.
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
    """The lines of a paragraph; long lines are split into sentences."""
    for line in _LINE.finditer(text, start, end):
        first, last = line.span()
        for match in _STOP.finditer(text, first, last) if last - first > CODE_LINE else ():
            stop = match.end()
            if stop < last and not _OPEN.search(text, max(first - 1, stop - 8, 0), stop):
                yield first, stop
                first = stop
        yield first, last


def tokens(text: str) -> int:
    """An estimate of a text's tokens for a language model, rarely too low."""
    if text.isascii():  # in half the time
        return len(_TOKEN.findall(text))
    return sum(-(-len(piece) // _letters_per_token(piece[0])) for piece in _PIECE.findall(text))


def _letters_per_token(first: str) -> int:
    """The letters per token in a word that begins with this character."""
    if first.isascii():
        return 6 if first.isalpha() else 3
    return 1 if first >= _IDEOGRAPHS else 3
