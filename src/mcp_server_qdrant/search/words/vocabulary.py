"""The words of a collection's texts, and the search for those spelled almost like another.

Only words of prose in the Latin alphabet: nobody misspells what stands beside a digit or an
underscore, or inside a dotted name.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

SIMILAR = 0.75
MOST_EDITS = 2
MOST_WORDS = 50_000
CROWDED = 4 * MOST_WORDS

LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_WORD = re.compile(rf"(?<![\w.])[{LATIN}]{{4,30}}(?![\w]|\.\w)")


def words(text: str) -> set[str]:
    """The distinct words of a text, of 4 to 30 letters, in lower case."""
    return set(_WORD.findall(folded(text)))


def folded(text: str) -> str:
    """The text in lower case, its characters composed."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower()


def tally(counts: Counter[str], texts: Iterable[str]) -> None:
    """Add to each word the number of `texts` that hold it.

    Where the words become too many, those seen once are dropped.
    """
    for text in texts:
        counts.update(words(text))
    if len(counts) > CROWDED:
        for word in [word for word, count in counts.items() if count == 1]:
            del counts[word]


def most_edits(word: str) -> int:
    """The largest distance at which a word can still be similar: L / 3 where it has L letters.

    similarity = 1 - edits / length of the longer, which has at most L + edits letters.
    """
    return int(len(word) * (1 - SIMILAR) / SIMILAR)


def similarity(word: str, other: str) -> float:
    """Damerau-Levenshtein similarity in [0, 1]; 0 where it is below SIMILAR."""
    return DamerauLevenshtein.normalized_similarity(word, other, score_cutoff=SIMILAR)


class Variant(NamedTuple):
    """A word spelled almost like another; similarity in [0.75, 1)."""

    word: str
    similarity: float


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Words, and in how many of the sampled texts each occurs. About 20 bytes a word.

    `text` holds the words by line, `counts` their frequencies. `lengths` and `letters` (a bit per
    letter modulo 32) follow from `text` and rule out at once most words that are not near another.
    """

    text: str
    counts: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    letters: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> "Vocabulary":
        """The vocabulary of these words, or of the most frequent of them."""
        kept = list(counts)
        frequencies = np.fromiter(counts.values(), np.int32, len(counts))
        if len(kept) > MOST_WORDS:
            order = np.argsort(-frequencies, kind="stable")[:MOST_WORDS]
            kept, frequencies = [kept[place] for place in order], frequencies[order]
        return cls.read("\n".join(kept), frequencies)

    @classmethod
    def read(cls, text: str, counts: npt.NDArray[np.int32]) -> "Vocabulary":
        """The vocabulary of words by line. Raises ValueError where counts and words differ."""
        codes = np.frombuffer(f"{text}\n".encode("utf-32-le"), np.uint32)
        ends = np.flatnonzero(codes == ord("\n")).astype(np.int32) if text else np.empty(0, "i4")
        if counts.shape != ends.shape or counts.dtype != np.int32:
            raise ValueError("a vocabulary's words and counts differ")
        starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int32)[: len(ends)]
        bits = np.left_shift(np.uint32(1), codes & 31) * (codes != ord("\n"))
        letters = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits[:0]
        return cls(text, counts, starts, ends - starts, letters)

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, word: str) -> bool:
        return bool(word) and any(True for _ in self.within(word, 0))

    def within(self, word: str, edits: int) -> Iterator[tuple[str, int]]:
        """The words at most so many edits from `word`, with their frequencies.

        An edit changes the length by at most one and the set of letters by at most two: few words
        are left to be compared letter by letter.
        """
        own = np.uint32(0)
        for letter in word:
            own |= np.uint32(1 << (ord(letter) & 31))
        near = np.abs(self.lengths - len(word)) <= edits
        near &= np.bitwise_count(self.letters ^ own) <= 2 * edits
        places = np.flatnonzero(near).tolist()
        found = process.extract_iter(
            word,
            [self._word(place) for place in places],
            scorer=DamerauLevenshtein.distance,
            score_cutoff=edits,
        )
        for other, _, index in found:
            yield other, int(self.counts[places[index]])

    def frequent(self, most: int) -> dict[str, int]:
        """The `most` words that the most texts hold, with their number."""
        order = np.argsort(-self.counts, kind="stable")[:most].tolist()
        return {self._word(place): int(self.counts[place]) for place in order}

    def _word(self, place: int) -> str:
        start = int(self.starts[place])
        return self.text[start : start + int(self.lengths[place])]


def nearest(word: str, vocabularies: Iterable[Vocabulary], most: int) -> list[Variant]:
    """The `most` words nearest to `word` and at most two edits away, with their similarity.

    By edits, then by frequency in all vocabularies together, then by name. Left out are the word
    itself, words that are not similar, and words made of it by a prefix or ending of two letters
    or more: "associated" is no spelling of "unassociated".
    """
    searched, found = list(vocabularies), dict[str, Variant]()
    for edits in range(1, min(MOST_EDITS, most_edits(word)) + 1):
        counts: Counter[str] = Counter()
        for vocabulary in searched:
            counts.update(dict(vocabulary.within(word, edits)))
        for other, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            alike = similarity(word, other)
            if alike and other != word and not derived(word, other):
                found.setdefault(other, Variant(other, alike))
        if len(found) >= most:
            break
    return list(found.values())[:most]


def derived(word: str, other: str) -> bool:
    """True where one of the two is in the other, which is longer by two letters or more."""
    return abs(len(word) - len(other)) > 1 and (word in other or other in word)
