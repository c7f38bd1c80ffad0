"""The same passage is shown once.

Two passages are the same where one run of words makes up nine tenths of both together, with nothing
inside it that differs but capital initials, white space, punctuation and Markdown: one word, one
digit or one sign more or less, and they are two. Text before or after the run, such as a heading,
has only words of letters, none of which can turn the meaning ("not", "deprecated"); titles agree in
their numbers. A measure of shared shingles would call two long texts the same that differ in one
host name.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from mcp_server_qdrant.core.datatypes import Document, Hit

SAME = 0.9
NEAR = 50  # hits above that one is compared with, where it is not equal to one
PROBE = 24  # characters from within a text, which every copy of it holds
LONGEST = 20_000  # characters; longer texts are the same only if they are equal

MARKUP = re.compile(r"^[ \t]*(?:[#>*+•|-]+[ \t]+)+", re.MULTILINE)
QUOTES = "\"'`*«»„“”\u201a\u2018\u2019"
BEFORE, AFTER = f"{QUOTES}([{{¿¡", f"{QUOTES})]}}.,;:!…"
SIGNS = (string.punctuation + string.whitespace).encode()
UNSPACED = "\u2e80"  # from here on scripts have no spaces, and a negation is no word
# fmt: off
TURNING = frozenset((
    "no", "not", "non", "nor", "never", "none", "neither", "cannot", "without", "except", "unless",
    "only", "false", "wrong", "old", "outdated", "obsolete", "deprecated", "superseded", "draft",
    "cancelled", "canceled", "rejected", "formerly", "previously", "example",
    "nicht", "kein", "keine", "keinen", "nie", "ohne", "veraltet", "entwurf", "alt",
    "ne", "pas", "jamais", "sans", "sauf", "nunca", "jamás", "sin", "salvo", "mai", "senza",
    "não", "sem", "niet", "geen", "nooit", "zonder", "inte", "ej", "aldrig", "utan", "ikke",
    "не", "нет", "без",
))
# fmt: on

Reader = Callable[[Hit], Document]


class _Passage:
    """The text of a hit, prepared for the comparison."""

    def __init__(self, document: Document) -> None:
        self.title = document.title or ""
        self.text = "" if document.textless else document.text
        # Without signs and capitals, a character for a byte: quick to make and to search.
        begin = self.text[:LONGEST]
        bare = begin.encode("ascii", "ignore").translate(None, SIGNS)
        if len(bare) < PROBE:  # not written in Latin letters
            bare = begin.encode(errors="replace").translate(None, SIGNS)
        self.bare = bare.lower().decode("latin-1")
        spare = max(len(self.bare) - PROBE, 0)
        starts = (spare // 2, spare // 4, spare * 3 // 4)
        self.probes = [self.bare[start : start + PROBE] for start in starts]

    @cached_property
    def words(self) -> list[str]:
        """All words."""
        return words(self.text)


def fold(hits: Sequence[Hit], document: Reader, shown: int, gain: float = 1.0) -> list[Hit]:
    """The hits, of each passage the best, which names the places of the others (`also`).

    The order stays. Hits without a text are all kept. Those that no factor up to `gain` could lift
    among the best `shown` are not read.
    """
    kept: list[Hit] = []
    passages: list[_Passage] = []
    places: dict[str, int] = {}
    written = ""  # of all kept, so that one look is enough for most
    for number, hit in enumerate(hits):
        if len(kept) >= shown > 0 and hit.score * gain < kept[shown - 1].score:
            return [*kept, *hits[number:]]
        passage = _Passage(document(hit))
        known = passage.text in places or passage.probes[0] in written
        place = _place(passage, passages, places) if known and passage.text.strip() else None
        if place is None:
            places.setdefault(passage.text, len(kept))
            kept.append(hit)
            passages.append(passage)
            written += passage.bare
        else:
            also = (*kept[place].also, hit._replace(also=()), *hit.also)
            kept[place] = kept[place]._replace(also=also)
    return kept


def _place(
    passage: _Passage, passages: Sequence[_Passage], places: Mapping[str, int]
) -> int | None:
    """The index of the same passage among those kept."""
    equal = places.get(passage.text)
    if equal is not None and _titled_alike(passage, passages[equal]):
        return equal
    first = max(len(passages) - NEAR, 0)
    middle, *others = passage.probes
    near = [n for n, kept in enumerate(passages[first:], first) if middle in kept.bare]
    for place in near:
        kept = passages[place]
        if all(probe in kept.bare for probe in others) and _same(passage, kept):
            return place
    return None


def _same(first: _Passage, second: _Passage) -> bool:
    if not _titled_alike(first, second):
        return False
    if first.text == second.text:
        return True
    longest = max(len(first.text), len(second.text))
    return longest <= LONGEST and overlap(first.words, second.words)


def _titled_alike(first: _Passage, second: _Passage) -> bool:
    titled = first.title and second.title
    return not titled or _marks(first.title) == _marks(second.title)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """True where one run of words makes up SAME of both together, and the others are harmless."""
    spare = int((1 - SAME) * (len(one) + len(other)) / SAME)
    for shift in range(-spare, spare + 1):  # where other begins in one, or one in other
        ahead, behind = max(shift, 0), max(-shift, 0)
        length = min(len(one) - ahead, len(other) - behind)
        if length <= 0 or length < SAME * (len(one) + len(other) - length):
            continue
        if one[ahead] != other[behind]:  # spares most of the slices
            continue
        if one[ahead : ahead + length] != other[behind : behind + length]:
            continue
        around = (*one[:ahead], *one[ahead + length :], *other[:behind], *other[behind + length :])
        return all(map(_harmless, around))
    return False


def _harmless(word: str) -> bool:
    return word.isalpha() and word < UNSPACED and word.casefold() not in TURNING


def words(text: str) -> list[str]:
    """The words of a text without the differences that copies may have.

    Signs inside a word and before a number stay, as does the case of all but ordinary words: "-5",
    "10.0.0.1", "C++", "MB" and "userID" are words of their own.
    """
    unmarked = MARKUP.sub("", unicodedata.normalize("NFC", text))
    bare = (word.lstrip(BEFORE).rstrip(AFTER) for word in unmarked.split())
    return [
        word.lower() if word[1:].islower() and word.isalpha() else word for word in bare if word
    ]


def _marks(title: str) -> list[str]:
    """The words of a title that are not letters only: they tell similar titles apart."""
    return [word for word in words(title) if not word.isalpha()]
