"""What is shown of a part: one quote, and its section.

A part that has room is quoted whole, without the headings that are shown above it. Of a longer one
the run of sentences, list items or code lines is quoted that has the most of the query's words; the
sentence after a match counts too, since it often says what the match leads to. Only white space
differs from the text: lines of a paragraph are joined.
"""

import re
from collections.abc import Callable, Collection, Sequence

from mcp_server_qdrant.core.datatypes import Document, Passage
from mcp_server_qdrant.core.sentences import SIGNS, Sentence, blocks, sentences
from mcp_server_qdrant.search.words.terms import Words

LONGEST = 20_000  # characters of a part that are looked at
GRAM = 4
AFTER = 0.5  # what the words of a sentence count for the one after it
SHORT = 200  # characters of a part in which no word of the query is found

_WORD = re.compile(r"\w+")
_ATTRIBUTES = re.compile(r"\s*\{:[^{}]*\}")  # of a heading in Markdown
_INDENT = re.compile(r"[ \t]*")

Tokens = Callable[[str], Collection[int]]
Reader = Callable[[str], Tokens]
Sections = Sequence[tuple[int, str]]


def gist(document: Document, words: Words, length: int) -> str:
    """Title and text of a part; of a long text the `length` characters nearest the query."""
    text = document.text
    if len(text) > length:
        text, _ = quote(text, (), words, length)
    return f"{document.title}\n{text}" if document.title else text


def passage(document: Document, words: Words, room: int) -> Passage:
    """What is shown of a part, in at most `room` characters."""
    sections = ((0, document.section or ""), *document.sections)
    text, section = quote(document.text, sections, words, room, document.title)
    return Passage(text, document, section)


def quote(
    text: str, sections: Sections, words: Words, room: int, title: str | None = None
) -> tuple[str, str | None]:
    """A stretch of a part in at most `room` characters, and the headings above it.

    `sections` begin at places in the part.

    A first heading that is the `title` is left out, as it stands above the quote.
    """
    text = text[:LONGEST]
    units = sentences(text, LONGEST)
    if not units:  # rules and fences alone
        return _cut(folded(text), room), _section(sections, 0)
    first, last, shares = 0, len(units) - 1, list[float]()
    starts = [start for start, _ in sections if start > units[0].body]
    if starts:  # from the section on that has the sentence with the most of the query
        shares = _shares(text, units, words)
        best = units[max(range(len(units)), key=shares.__getitem__)].body
        begin = max((start for start in starts if start <= best), default=0)
        first = next(number for number, one in enumerate(units) if one.body >= begin)
    whole = text[units[first].body :]
    if len(whole) > room and len(folded(whole)) > room:
        shares = shares or _shares(text, units, words)
        first, last = _window(units, shares, first, room)
    section = _section(sections, units[first].body)
    start, body = units[first].start, units[first].body
    if section:
        start = _below(text, body, section)
    elif title and text[start:body].strip("#= \n") == title:
        start = body
    shown = folded(text[start : units[last].end if last + 1 < len(units) else len(text)])
    return _around(shown, words, room) if len(shown) > room else shown, section


def _shares(text: str, units: Sequence[Sentence], words: Words) -> list[float]:
    """The share of the query that each sentence has."""
    tokens = words.reader(text)
    return [words.share(text[one.body : one.end], tokens) for one in units]


def _window(
    units: Sequence[Sentence], shares: Sequence[float], begin: int, room: int
) -> tuple[int, int]:
    """The first and the last sentence of the run, from `begin` on, with the most of the query."""
    if not any(shares[begin:]):
        room = min(room, SHORT)
    best, found = -1.0, (begin, begin)
    for first in range(begin, len(units)):
        last, gain = first, shares[first]
        while last + 1 < len(units) and units[last + 1].end - units[first].body <= room:
            last += 1
            gain += shares[last] + AFTER * shares[last - 1]
        if gain > best + 1e-9:
            best, found = gain, (first, last)
    return found


def _section(sections: Sections, place: int) -> str | None:
    """The section around this place."""
    name = max((one for one in sections if one[0] <= place), default=(0, ""))[1]
    return _ATTRIBUTES.sub("", name) or None


def _below(text: str, start: int, section: str) -> int:
    """Where a text goes on below the underlined heading that is shown as its section."""
    name, rule, rest = [*text[start:].split("\n", 2), "", ""][:3]
    underlined = rule.strip() and not rule.strip(f"{SIGNS} ") and rest.strip()
    if underlined and section.endswith(name.strip()):
        return len(text) - len(rest)
    return start


def _around(sentence: str, words: Words, room: int) -> str:
    """The stretch of a long sentence that has the most of the query, cut between words."""
    step = max(room // 4, 1)
    tokens = words.reader(sentence)

    def gain(start: int) -> tuple[float, int]:
        return words.share(sentence[start : start + room], tokens), -start

    start = max(range(0, max(len(sentence) - room, 0) + step, step), key=gain)
    start = min(start, max(len(sentence) - room, 0))
    if start:
        start = sentence.find(" ", start) + 1 or start
    return _cut(sentence[start:], room)


def _cut(text: str, room: int) -> str:
    """The beginning of a text that has room, cut between words where it has any."""
    if len(text) <= room:
        return text
    return text[: max(text.rfind(" ", 0, room), text.rfind("\n", 0, room), 0) or room].rstrip()


def folded(text: str) -> str:
    """A text with its paragraphs each on a line; code, rows and items keep their lines."""
    lines: list[str] = []
    margin: int | None = None
    at = 0
    for start, end, kind in [*blocks(text), (len(text), len(text), "end")]:
        lines += map(str.strip, text[at:start].splitlines())  # rules and fences
        one, at = text[start:end], end
        if kind != "code":
            lines.append(" ".join(one.split()))
            continue
        indent = len(_INDENT.match(one)[0])  # type: ignore[index]
        margin = indent if margin is None else min(margin, indent)
        lines.append(one.rstrip()[margin:])
    return "\n".join(filter(None, lines))
