"""Tells whether two short texts are about the same subject, by their vectors and their words.

The thresholds were measured with all-MiniLM-L6-v2 on pairs of statements: docs/ranking.md.
"""

import re
from collections.abc import Collection, Iterable

ALIKE = 0.6  # least cosine of texts that share a word
BARELY = 0.5  # least cosine if they share half of the words, or the newer one tells of a change
# Some models give unrelated texts a cosine of 0.8. A lowest cosine of CROWDED or more, among at
# least MANY candidates, shows that.
MANY, CROWDED = 10, 0.5
# "Our office is at Lindenweg 4", "Our office is at Hafenstrasse 22": the least number and share of
# equal words before and after the only difference. Their cosine may be below 0.5.
FRAME, FRAMED = 3, 0.65

_WORD = re.compile(r"\w+")
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


def tells_of_change(text: str) -> bool:
    """True if a text has words such as "moved", "no longer" or "jetzt"; four languages."""
    return bool(_CHANGE.search(text))


def differ_in_one_passage(first: str, second: str) -> bool:
    """True if two texts say the same but for one passage, shorter than the words around it."""
    one, two = (_WORD.findall(text.casefold()) for text in (first, second))
    if one == two:
        return False
    shortest, longest = sorted((len(one), len(two)))
    before = next((n for n in range(shortest) if one[n] != two[n]), shortest)
    left = shortest - before
    after = next((n for n in range(left) if one[-1 - n] != two[-1 - n]), left)
    return before + after >= max(FRAME, FRAMED * longest)


def unrelated_cosine(cosines: Iterable[float]) -> float:
    """The cosine that the model gives to unrelated texts; 0 if there are few candidates."""
    known = list(cosines)
    least = min(known, default=0.0) if len(known) >= MANY else 0.0
    return least if least >= CROWDED else 0.0


def above_unrelated(cosine: float, floor: float) -> float:
    """The cosine rescaled so that unrelated texts, with the cosine `floor`, have 0."""
    return (cosine - floor) / (1 - floor) if floor < 1 else 0.0


def same_subject(
    cosine: float, first: Collection[int], second: Collection[int], *, change: bool
) -> bool:
    """True if texts with this cosine and these terms are about the same subject.

    `change`: the newer one tells of a change.
    """
    shared, least = len({*first} & {*second}), min(len({*first}), len({*second}))
    if not shared:
        return False
    return cosine >= (BARELY if change or 2 * shared >= least else ALIKE)
