"""Exact tokens in a query: dates, versions, amounts, ticket numbers, paths, quoted phrases."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from mcp_server_qdrant.core.forms import LETTER, SPACED, comparable, normalized, spaced

LONGEST = 64  # characters of a compound
MOST = 200  # compounds of a text
PIECES, PHRASES = 16, 3  # at most in a query; a query with more is a pasted text
WORDS = 16  # of a query; in a longer one, quotation marks do not demand a phrase

# Possessive and anchored at a word's start, so that long runs of letters take linear time.
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]++(?:[-._/\\:,@#+~]++[^\W_]++)+")
_SPECIFIC = re.compile(r"[\d_/\\@]|[^\W_]{2}\.[^\W_]{2}")  # "1.2", "a/b", "renew.sh"; not "e.g"
_TIME = re.compile(r"(?<=\d)[Tt](?=\d\d:)")
_SLASHES, _DASHES = re.compile(r"[/\\:,@#+]+"), re.compile(r"[-_~]+")
_VERSION = re.compile(r"^v(?=\d)")
# Names such as "c++", "c#" and ".net", but not calls such as ".then(".
_SHARP = re.compile(rf"(?<!{LETTER}){LETTER}{{1,20}}+(?:\+\+(?![^\W\d]|[+#])|#(?![\w#]))")
_DOTTED = re.compile(r"\.(?<![^\s(\"']\.)[a-z]\w++(?![\w(])")
_QUOTED = re.compile(
    f'(?<!{SPACED})(?<![^\\s\\w])(?:"([^"]{{2,}})"'
    "|[\u201c\u201e]([^\u201c\u201d\u201e]{2,})[\u201c\u201d]"
    f"|\u00ab([^\u00ab\u00bb]{{2,}})\u00bb|\u300c([^\u300c\u300d]{{2,}})\u300d)(?!{SPACED})"
)
_UNIT = re.compile(r"(?<=\d)(?:\\ )?(?=[^\W\d_])")  # 40kg and 40 kg


def compounds(text: str) -> list[str]:
    """The distinct specific compounds of a text in lowercase, including nested ones.

    `src/main.py` has itself and `main.py`, `2026-11-12T10:00` has `2026-11-12` and `10:00`; a
    version is the same with and without its v. Next to a script without spaces a compound is
    returned twice: with and without the characters of that script.
    """
    text = _TIME.sub(" ", comparable(text))
    alone = spaced(text)
    found: dict[str, None] = {}
    for match in chain(
        _COMPOUND.finditer(text), _COMPOUND.finditer(alone if alone != text else "")
    ):
        if len(found) >= MOST:
            break
        parts = _SLASHES.split(match.group())
        pieces = (match.group(), *parts, *chain(*map(_DASHES.split, parts)))
        found.update((_VERSION.sub("", piece), None) for piece in pieces if _is_specific(piece))
    return list(found | dict.fromkeys(_signed(text)[:MOST]))


def _signed(text: str) -> list[str]:
    sharp = _SHARP.findall(text) if "++" in text or "#" in text else []
    return sharp + _DOTTED.findall(text)


def _is_specific(piece: str) -> bool:
    return (
        len(piece) <= LONGEST
        and _COMPOUND.fullmatch(piece) is not None
        and _SPECIFIC.search(piece) is not None
    )


@dataclass(frozen=True)
class Exact:
    """The compounds of a query, and its quoted phrases, which a text must contain if `required`."""

    pieces: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    required: bool = True

    @classmethod
    def in_query(cls, query: str) -> "Exact":
        """The compounds and phrases of a query, without compounds inside quoted phrases."""
        query = normalized(query)
        phrases = tuple(dict.fromkeys(filter(None, map(_words, _quoted(query)))))
        if len(phrases) > PHRASES or len(query.split()) > WORDS:
            phrases = ()
        rest = _TIME.sub(" ", comparable(_QUOTED.sub(" ", query) if phrases else query))
        pieces = dict.fromkeys(
            _VERSION.sub("", piece)
            for whole in _COMPOUND.findall(rest)
            for piece in [*filter(_is_specific, _COMPOUND.findall(spaced(whole)))] or [whole]
            if _is_specific(piece)
        )
        signed = dict.fromkeys(_signed(rest))
        return cls(tuple(pieces | signed)[:PIECES], phrases)

    def __bool__(self) -> bool:
        return bool(self.pieces or self.phrases)

    def found_in(self, text: str) -> list[str]:
        """The compounds and phrases that occur in the text literally."""
        folded = _words(text)
        return [written for written, pattern in self._patterns.items() if pattern.search(folded)]

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        return {written: _pattern(written) for written in (*self.pieces, *self.phrases)}


def _pattern(written: str) -> re.Pattern[str]:
    """A pattern: `1.2` is in v1.2, but not in 11.2 or 1.2.3; a time may follow a date."""
    before, after = word_boundaries(written)
    if written[0].isdigit():
        before += r"(?<!\d[.,])v?"
    if written[-1].isdigit():
        after = rf"(?:{after}(?![.,]\d)|(?=t\d\d:))"
    return re.compile(before + _UNIT.sub(" ?", re.escape(written)) + after)


def word_boundaries(written: str) -> tuple[str, str]:
    """Patterns for the start and the end of a word; empty for scripts without spaces.

    C does not end within C++ or C#.
    """
    first, last = (re.match(SPACED, sign) for sign in (written[0], written[-1]))
    return f"(?<!{SPACED})" * bool(first), rf"(?!{SPACED}|\+\+|#(?!\w))" * bool(last)


def _quoted(query: str) -> Iterator[str]:
    for match in _QUOTED.finditer(query):
        yield next(filter(None, match.groups())).rstrip(".,;:!?")  # punctuation of the sentence


def _words(text: str) -> str:
    return " ".join(comparable(text).split())
