"""What a query writes exactly: dates, versions, amounts, ticket numbers, paths, quoted phrases."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

LONGEST = 64  # characters of a compound
MOST = 200  # compounds of a text
PIECES, PHRASES = 16, 3  # of a query; with more of them it is a text that was pasted
WORDS = 16  # of a query; in a longer one quotation marks quote, and demand nothing

# Possessive, and only from the beginning of a word: a long run of letters is read once.
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]++(?:[-._/\\:,@#+~]++[^\W_]++)+")
_TELLING = re.compile(r"[\d_/\\@]|[^\W_]{2}\.[^\W_]{2}")  # "1.2", "a/b", "renew.sh"; not "e.g"
_TIME = re.compile(r"(?<=\d)[Tt](?=\d\d:)")
_SLASHES, _DASHES = re.compile(r"[/\\:,@#+]+"), re.compile(r"[-_~]+")
_VERSION = re.compile(r"^v(?=\d)")
_QUOTED = re.compile(
    '(?<!\\S)(?:"([^"]{2,})"|[\u201c\u201e]([^\u201c\u201d\u201e]{2,})[\u201c\u201d]'
    "|\u00ab([^\u00ab\u00bb]{2,})\u00bb)(?!\\w)"
)


def compounds(text: str) -> list[str]:
    """The distinct compounds of a text that tell something, in small letters, and those in them.

    `src/main.py` has itself and `main.py`, `2026-11-12T10:00` has `2026-11-12` and `10:00`; a
    version is the same with and without its v.
    """
    found: dict[str, None] = {}
    for match in _COMPOUND.finditer(_TIME.sub(" ", text.lower())):
        if len(found) >= MOST:
            break
        parts = _SLASHES.split(match.group())
        pieces = (match.group(), *parts, *chain(*map(_DASHES.split, parts)))
        found.update((_VERSION.sub("", piece), None) for piece in pieces if _tells(piece))
    return list(found)


def _tells(piece: str) -> bool:
    return (
        len(piece) <= LONGEST
        and _COMPOUND.fullmatch(piece) is not None
        and _TELLING.search(piece) is not None
    )


@dataclass(frozen=True)
class Exact:
    """The compounds of a query, whole, and its quoted phrases, which a text must have."""

    pieces: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()

    @classmethod
    def in_query(cls, query: str) -> "Exact":
        """Those of a query; of a quoted phrase the compounds do not count again."""
        phrases = tuple(dict.fromkeys(filter(None, map(_words, _quoted(query)))))
        if len(phrases) > PHRASES or len(query.split()) > WORDS:
            phrases = ()
        rest = _TIME.sub(" ", (_QUOTED.sub(" ", query) if phrases else query).lower())
        pieces = dict.fromkeys(
            _VERSION.sub("", piece) for piece in _COMPOUND.findall(rest) if _tells(piece)
        )
        return cls(tuple(pieces)[:PIECES], phrases)

    def __bool__(self) -> bool:
        return bool(self.pieces or self.phrases)

    def held(self, text: str) -> list[str]:
        """The compounds and phrases that the text has as they are written."""
        folded = _words(text)
        return [written for written, pattern in self._patterns.items() if pattern.search(folded)]

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        return {written: _pattern(written) for written in (*self.pieces, *self.phrases)}


def _pattern(written: str) -> re.Pattern[str]:
    """A text has `1.2` neither in 11.2 nor in 1.2.3, but in v1.2, and a date before its time."""
    before = r"(?<!\w)(?<!\d[.,])v?" if written[0].isdigit() else r"(?<!\w)"
    after = r"(?:(?!\w)(?![.,]\d)|(?=t\d\d:))" if written[-1].isdigit() else r"(?!\w)"
    before = before if written[0].isalnum() else ""
    after = after if written[-1].isalnum() else ""
    return re.compile(before + re.escape(written) + after)


def _quoted(query: str) -> Iterator[str]:
    for match in _QUOTED.finditer(query):
        yield next(filter(None, match.groups())).rstrip(".,;:!?")  # of the sentence around it


def _words(text: str) -> str:
    return " ".join(text.lower().split())
