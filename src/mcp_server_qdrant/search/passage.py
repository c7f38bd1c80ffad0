"""The sentences of a text that answer the query."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from mcp_server_qdrant.core.datatypes import Terms
from mcp_server_qdrant.search.sentences import sentences

WHOLE = 300  # characters: so short a text is shown as it is
SHORT = 200  # where no sentence is better than another
LONGEST = 20_000
GRAM = 4
GAP = " … "

# A sentence is chosen with odds of exp(7 * its share of the query + 3 * how much less relevant its
# part is), and sentences are taken, the best first, until the odds are four in five that the answer
# is among them: one where the words decide, several where they do not. Fitted on XQuAD in English,
# German and Spanish (benchmarks/excerpts.py); vectors of the sentences added nothing to it.
WORDS, RELEVANCE = 7.0, 3.0
NAMED = 0.5  # what words of the query count in the name of a sentence's section
ENOUGH = 0.8

_WORD = re.compile(r"\w+")

Tokens = Callable[[str], Collection[int]]


class Part(NamedTuple):
    """A part of a text that was found; `start` is its place in the whole, where that is known.

    `sections` are the places in it where they begin, with their names.
    """

    text: str
    relevance: float = 0.0
    start: int | None = None
    sections: tuple[tuple[int, str], ...] = ()


class Excerpt(NamedTuple):
    """What is shown of a text, and the section of its best sentence."""

    text: str
    section: str | None


class Words:
    """The words of a query, to be found in sentences, as they are or spelled nearly so.

    Each counts its idf, once. Of a word that is not there the share of its letters counts, squared,
    in stretches of four: it may be inflected, or part of a compound, in a language not stemmed.
    """

    def __init__(self, terms: Terms, reader: Callable[[str], Tokens]) -> None:
        self.reader, self._idf = reader, terms.idf
        tokens = reader(terms.query)
        self._near: list[tuple[frozenset[int], float, list[str]]] = []
        for word in dict.fromkeys(_WORD.findall(terms.query.lower())):
            known = frozenset(tokens(word)) & terms.idf.keys()
            if known:
                idf = sum(map(terms.idf.__getitem__, known))
                self._near.append((known, idf, _grams(word)))
        self._total = (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling) or 1.0

    def share(self, text: str, tokens: Tokens) -> float:
        """The share of the query that a sentence has, in [0, 1]; `tokens` gives its terms."""
        plain = " " + " ".join(_WORD.findall(text.lower()))
        there = self._idf.keys() & tokens(text)
        gain = sum(map(self._idf.__getitem__, there))
        for known, idf, grams in self._near:
            if known.isdisjoint(there):
                gain += idf * (sum(gram in plain for gram in grams) / len(grams)) ** 2
        return min(gain / self._total, 1.0)


class _Stretch(NamedTuple):
    """Parts that follow on one another, as one text, and where each begins in it."""

    text: str
    start: int | None
    parts: tuple[tuple[int, Part], ...]

    def relevance(self, place: int) -> float:
        """The relevance of the best part that has this place."""
        return max(part.relevance for start, part in self.parts if start <= place)

    def section(self, place: int) -> str | None:
        """The section around this place."""
        begun = [(start + at, name) for start, part in self.parts for at, name in part.sections]
        return max((one for one in begun if one[0] <= place), default=(0, ""))[1] or None


class _Unit(NamedTuple):
    """A sentence of a stretch, its white space folded; `lead` is the place of its lead.

    `heading` is the length of the headings that it begins with.
    """

    stretch: int
    text: str
    odds: float
    section: str | None
    heading: int = 0
    lead: int | None = None


def passage(parts: Sequence[Part], words: Words, room: int, enough: float = ENOUGH) -> Excerpt:
    """The sentences of a text's found parts that answer best, in at most `room` characters or so.

    A short text that has room is given whole, and where no word of the query occurs, its beginning.
    Gaps and cut ends are marked with an ellipsis, white space is folded.
    """
    stretches = _joined(parts)
    if len(stretches) == 1 and len(_folded(stretches[0].text)) <= min(room, WHOLE):
        return _whole(stretches[0])
    units = _units(stretches, words)
    if not units:  # rules and fences alone
        return Excerpt(_cut(_folded(stretches[0].text), 0, SHORT), stretches[0].section(0))
    if len(units) > 1 and all(unit.odds == units[0].odds for unit in units):
        room = min(room, SHORT)
    chosen = sorted(_chosen(units, room, enough))
    section = max((units[place] for place in chosen), key=lambda unit: unit.odds).section
    for place in chosen:  # what is shown above the excerpt is not repeated in it
        if (unit := units[place]).section == section is not None:
            units[place] = unit._replace(text=unit.text[unit.heading :])
    return Excerpt(_shown(units, chosen, words, room), section)


def _whole(stretch: _Stretch) -> Excerpt:
    """A short text, without the headings above it that are shown as its section."""
    below = next((one.body for one in sentences(stretch.text, LONGEST)), 0)
    section = stretch.section(below)
    return Excerpt(_folded(stretch.text[below if section else 0 :]), section)


def _joined(parts: Sequence[Part]) -> list[_Stretch]:
    """The parts in the order of the text; those that overlap or touch become one stretch."""
    placed = sorted((part for part in parts if part.start is not None), key=lambda p: p.start or 0)
    found: list[_Stretch] = []
    for part in placed or parts[:1]:
        last = found[-1] if found else None
        reached = -1 if last is None else (last.start or 0) + len(last.text)
        if last is None or part.start is None or part.start > reached:
            found.append(_Stretch(part.text, part.start, ((0, part),)))
        else:
            place = part.start - (last.start or 0)
            text = last.text + part.text[reached - part.start :]
            found[-1] = _Stretch(text, last.start, (*last.parts, (place, part)))
    return found


def _units(stretches: Sequence[_Stretch], words: Words) -> list[_Unit]:
    best = max(part.relevance for stretch in stretches for _, part in stretch.parts)
    units: list[_Unit] = []
    for number, stretch in enumerate(stretches):
        first, tokens = len(units), words.reader(stretch.text)
        named: dict[str | None, float] = {None: 0.0}
        for start, end, body, lead in sentences(stretch.text, LONGEST):
            text, section = _folded(stretch.text[start:end]), stretch.section(body)
            if section not in named:
                named[section] = words.share(section or "", tokens)
            share = words.share(text, tokens) + NAMED * named[section]
            gain = WORDS * share + RELEVANCE * (stretch.relevance(start) - best)
            heading = len(text) - len(_folded(stretch.text[body:end]))
            above = None if lead is None else first + lead
            units.append(_Unit(number, text, math.exp(gain), section, heading, above))
    return units


def _chosen(units: Sequence[_Unit], room: int, enough: float) -> set[int]:
    """The places of the best sentences that have room, until they are enough."""
    left = enough * sum(unit.odds for unit in units)
    chosen: set[int] = set()
    for place in sorted(range(len(units)), key=lambda n: (-units[n].odds, n)):
        if left <= 0:
            break
        several = {place}
        while (lead := units[min(several)].lead) is not None:
            several.add(lead)
        several -= chosen
        for some in (several, {place} - chosen):
            size = sum(len(units[n].text) + len(GAP) for n in some)
            if size <= room or not chosen:
                chosen |= some
                room -= size
                break
        left -= units[place].odds if place in chosen else 0.0
    return chosen


def _shown(units: Sequence[_Unit], chosen: Sequence[int], words: Words, room: int) -> str:
    """The chosen sentences as one line."""
    shown = units[chosen[0]].text if chosen else ""
    for before, after in pairwise(chosen):
        follows = after == before + 1 and units[before].stretch == units[after].stretch
        shown += (" " if follows else GAP) + units[after].text
    if len(chosen) == 1 and len(shown) > room:
        return _around(shown, words, room)
    start, end = chosen[0], chosen[-1]
    cut = end + 1 < len(units)
    return ("…" if start else "") + shown + ("…" if cut else "")


def _around(sentence: str, words: Words, room: int) -> str:
    """The stretch of a long sentence that has the most of the query."""
    step = max(room // 4, 1)
    tokens = words.reader(sentence)

    def gain(start: int) -> tuple[float, int]:
        return words.share(sentence[start : start + room], tokens), -start

    best = max(range(0, len(sentence) - room + step, step), key=gain)
    return _cut(sentence, min(best, len(sentence) - room), room)


def _cut(text: str, start: int, length: int) -> str:
    """text[start:start + length], ends moved to word boundaries near by, and marked."""
    end, reach = min(len(text), start + length), length // 4
    if start:
        start = max(start, text.find(" ", start, start + reach) + 1)
    if end < len(text):
        end = max(text.rfind(" ", end - reach, end), 0) or end
    marks = "…" if start else "", "…" if end < len(text) else ""
    return text[start:end].strip().join(marks)


def _folded(text: str) -> str:
    return " ".join(text.split())


def _grams(word: str) -> list[str]:
    """All stretches of four characters of a word behind a space."""
    spaced = f" {word}"
    return [spaced[n : n + GRAM] for n in range(max(len(spaced) - GRAM, 0) + 1)]
