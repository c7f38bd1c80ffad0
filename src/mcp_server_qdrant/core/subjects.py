"""Tells whether two short texts are about the same subject, by their vectors and their words.

The thresholds were measured with all-MiniLM-L6-v2 on pairs of statements: docs/ranking.md.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from rapidfuzz.distance import LCSseq, Postfix, Prefix

ALIKE = 0.6  # least cosine of texts that share a word
BARELY = 0.5  # least cosine if they share half of the words, or the newer one tells of a change
ASKED = 0.65  # least cosine if both are about a query, whose words say less about them
# Some models give unrelated texts a cosine of 0.8. With so many candidates the lowest cosine shows
# it, if it is so high.
MANY, CROWDED = 10, 0.5
# "Our office is at Lindenweg 4", "Our office is at Hafenstrasse 22": the least number and share of
# equal words before and after the only difference. Their cosine may be below 0.5.
FRAME, FRAMED = 3, 0.65

_WORD = re.compile(r"\w+")
_END = re.compile(r"\b(?:no longer|any ?more|nicht mehr|n(?:e |')\w+ plus|ya no)\b", re.IGNORECASE)
_CHANGE = re.compile(
    r"\b(?:"
    # English
    r"now|no longer|any ?more|instead|these days|as of|since|used to|(?:took|takes?|taken) over"
    r"|(?:mov|migrat|chang|replac|renam|upgrad|downgrad|updat|rais|increas|reduc|decreas|postpon"
    r"|reschedul|relocat|cancell?|extend|shorten|lower|switch|bump|dropp)ed|replaces|became"
    r"|rewrote|rewritten|(?:goes|went) (?:up|down)"
    # German
    r"|jetzt|nun|inzwischen|mittlerweile|neuerdings|künftig|ab sofort|nicht mehr|seit(?:dem)?"
    r"|stattdessen|statt(?= \w)|umge\w+t|umgezogen|umbenannt|(?:ge)?wechselt|geändert|ersetzt"
    r"|erhöht|gesenkt|gekürzt|verlängert|verkürzt|verschoben|verlegt|aktualisiert"
    r"|übern(?:immt|ommen)"
    # French
    r"|maintenant|désormais|dorénavant|depuis|au lieu|n(?:e |')\w+ plus|réduite?s?"
    r"|(?:remplac|chang|renomm|augment|prolong|report|déplac|migr|déménag)ée?s?"
    # Spanish
    r"|ahora|ya no|en (?:vez|lugar) de|sustitu(?:ido|ida|yó)"
    r"|(?:cambi|reemplaz|renombr|actualiz|aument|aplaz|mud|migr)(?:ad[oa]|ó)s?"
    r")\b",
    re.IGNORECASE,
)


class Statement(NamedTuple):
    """A short text and its terms."""

    text: str
    terms: frozenset[int]

    @property
    def changed(self) -> bool:
        """True for words such as "moved", "no longer" or "jetzt"; four languages."""
        return bool(_CHANGE.search(self.text))


def unrelated_cosine(cosines: Iterable[float]) -> float:
    """The cosine that the model gives to unrelated texts; 0 if there are few candidates."""
    known = list(cosines)
    least = min(known, default=0.0) if len(known) >= MANY else 0.0
    return least if least >= CROWDED else 0.0


def above_unrelated(cosine: float, floor: float) -> float:
    """The cosine rescaled so that unrelated texts, with the cosine `floor`, have 0."""
    return (cosine - floor) / (1 - floor) if floor < 1 else 0.0


def same_subject(
    older: Statement,
    newer: Statement,
    cosine: float,
    asked: frozenset[int] | None = None,
    *,
    fits: bool = False,
) -> bool:
    """True if two texts with this cosine are about the same subject.

    `asked`: the terms of a query for which both were found; `fits`: the newer one has its meaning.
    """
    shared = older.terms & newer.terms
    others = shared - (asked or frozenset())
    if not shared or _same_but_for_a_passage(older.text, newer.text):
        return bool(shared)
    known = shared - others
    lacking = older.terms - newer.terms
    changed = newer.changed
    if changed and not others and _END.search(newer.text):
        # "The key does not fit any more" says nothing about the place of the key.
        changed = lacking <= (asked or frozenset())
    if asked is None:
        half = 2 * len(shared) >= min(len(older.terms), len(newer.terms))
        return cosine >= (BARELY if changed or half else ALIKE)
    if changed and len(known) > 1 and lacking.isdisjoint(asked):
        return True
    if changed and (others or len(newer.terms & asked) > 1 or fits):
        return cosine >= BARELY
    return cosine >= ASKED and bool(changed or others)


def _same_but_for_a_passage(first: str, second: str) -> bool:
    """True for the same words around one passage, shorter than they are.

    One word within it may be the same: "SQLite in memory", "Postgres in Docker".
    """
    one, two = (_WORD.findall(text.casefold()) for text in (first, second))
    around = Prefix.similarity(one, two) + Postfix.similarity(one, two)
    same = LCSseq.similarity(one, two)
    enough = same >= FRAMED * max(len(one), len(two))
    return one != two and around >= FRAME and enough and same <= around + 1
