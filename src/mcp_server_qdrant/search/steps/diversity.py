"""The same passage once, and unlike passages first where that is asked for.

Folding. Two passages are the same where one run of words makes up nine tenths of both together,
with nothing inside it that differs but capital initials, white space, punctuation and Markdown: one
word, one digit or one sign more or less, and they are two. What stands before or after the run, as
a heading does, is letters only and no word that can turn the meaning ("not", "deprecated"); titles
agree in their numbers. A measure of shared shingles would call two long texts the same that differ
in one host name.

Spreading (maximal marginal relevance, off at diversity d = 0). The next hit is always

    argmax (1 - d) * score / best score - d * max likeness to a hit chosen before

with likeness the share of words that two passages have in common (Jaccard). Source: Carbonell and
Goldstein, "The use of MMR, diversity-based reranking for reordering documents and producing
summaries", SIGIR 1998; lambda there is 1 - d.
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
SPREAD_POOL = 50
SPREAD_TEXT = 2_000

MARKUP = re.compile(r"^[ \t]*(?:[#>*+•|-]+[ \t]+)+", re.MULTILINE)
QUOTES = "\"'`*«»„“”\u201a\u2018\u2019"
BEFORE, AFTER = f"{QUOTES}([{{¿¡", f"{QUOTES})]}}.,;:!…"
WORD = re.compile(r"\w+")
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
    """A hit's text as folding looks at it."""

    def __init__(self, document: Document) -> None:
        self.title = document.title or ""
        self.text = "" if document.textless else document.text
        # Without signs and capitals, a character for a byte: quick to make and to look into.
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


def fold(hits: Sequence[Hit], document: Reader) -> list[Hit]:
    """The hits, each passage once by its best, which says where else it is (`also`).

    The order stays. Hits without a text are all kept.
    """
    kept: list[Hit] = []
    passages: list[_Passage] = []
    places: dict[str, int] = {}
    for hit in hits:
        passage = _Passage(document(hit))
        place = _place(passage, passages, places) if passage.text.strip() else None
        if place is None:
            places.setdefault(passage.text, len(kept))
            kept.append(hit)
            passages.append(passage)
        else:
            also = (*kept[place].also, (hit.collection, hit.id), *hit.also)
            kept[place] = kept[place]._replace(also=also)
    return kept


def _place(
    passage: _Passage, passages: Sequence[_Passage], places: Mapping[str, int]
) -> int | None:
    """Where the same passage is among those kept."""
    equal = places.get(passage.text)
    if equal is not None and _titled_alike(passage, passages[equal]):
        return equal
    first = max(len(passages) - NEAR, 0)
    middle, *others = passage.probes
    near = [n for n, one in enumerate(passages[first:], first) if middle in one.bare]
    for place in near:
        one = passages[place]
        if all(probe in one.bare for probe in others) and _same(passage, one):
            return place
    return None


def _same(one: _Passage, other: _Passage) -> bool:
    if not _titled_alike(one, other):
        return False
    if one.text == other.text:
        return True
    return max(len(one.text), len(other.text)) <= LONGEST and overlap(one.words, other.words)


def _titled_alike(one: _Passage, other: _Passage) -> bool:
    return not (one.title and other.title) or _marks(one.title) == _marks(other.title)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one run of words makes up SAME of both together, and what it leaves is harmless."""
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
        rest = (*one[:ahead], *one[ahead + length :], *other[:behind], *other[behind + length :])
        return all(map(_harmless, rest))
    return False


def _harmless(word: str) -> bool:
    return word.isalpha() and word < UNSPACED and word.casefold() not in TURNING


def words(text: str) -> list[str]:
    """The words of a text without what may differ between copies of it.

    Signs inside a word and before a number stay, and so does the case of what is no plain word:
    "-5", "10.0.0.1", "C++", "MB" and "userID" are each their own.
    """
    plain = MARKUP.sub("", unicodedata.normalize("NFC", text))
    bare = (word.lstrip(BEFORE).rstrip(AFTER) for word in plain.split())
    return [
        word.lower() if word[1:].islower() and word.isalpha() else word for word in bare if word
    ]


def _marks(title: str) -> list[str]:
    """What tells two titles apart that look alike: words that are not letters only."""
    return [word for word in words(title) if not word.isalpha()]


def spread(hits: Sequence[Hit], diversity: float, document: Reader) -> list[Hit]:
    """The hits by maximal marginal relevance; `diversity` 0 gives them back as they are.

    Scores stay. Of many hits the first SPREAD_POOL are spread, and none beyond those that a
    reranker has read where it has read some: their scores are on another scale.
    """
    read = sum(hit.reranked is not None for hit in hits) or len(hits)
    pool = list(hits[: min(read, SPREAD_POOL)])
    if diversity <= 0 or len(pool) < 2 or pool[0].score <= 0:
        return list(hits)
    best = max(hit.score for hit in pool)
    texts = (document(hit).text[:SPREAD_TEXT] for hit in pool)
    sets = [frozenset(WORD.findall(text.lower())) for text in texts]
    likeness = [0.0] * len(pool)
    left, order = list(range(len(pool))), []
    while left:
        first = max(left, key=lambda n: (_marginal(pool[n], best, likeness[n], diversity), -n))
        left.remove(first)
        order.append(first)
        for n in left:
            likeness[n] = max(likeness[n], jaccard(sets[n], sets[first]))
    return [*(pool[n] for n in order), *hits[len(pool) :]]


def _marginal(hit: Hit, best: float, likeness: float, diversity: float) -> float:
    return (1 - diversity) * hit.score / best - diversity * likeness


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of words that two sets have in common; 0 for two empty ones."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0
