"""Replaces words that no searched collection has by the most similar word of their vocabularies.

Not corrected are: words that a probe found; words that are one token of the embedding model, since
a small collection lacks most words of its language ("broken" is no misspelling of "broke"); words
of fewer than 5 letters, not in the Latin alphabet, or with capitals inside; names and paths, with
a digit, an underscore, a dot or a slash; queries in a language that the collections do not have. A
transposition is one edit. Similarity, 1 - edits / length of the longer word, must be at least 0.75.
Measured: docs/ranking.md.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from rapidfuzz import process
from rapidfuzz.distance import OSA

from mcp_server_qdrant.core.bm25 import ENGLISH
from mcp_server_qdrant.core.context import MOMENT, seconds_left, within
from mcp_server_qdrant.core.datatypes import Correction, Target
from mcp_server_qdrant.search.words.lexicon import LATIN, Lexicon, Vocabulary, lowered
from mcp_server_qdrant.search.words.terms import Terms

SHORTEST = 5
CORRECTED_WORDS = 8
SIMILAR = 0.75
MOST_EDITS = 2
SLICE = 2_000  # words compared at once; takes about 2 ms with the GIL held

_OPEN = r"[\"'(\[\u2018\u201c\u00ab\u00a1\u00bf]*"
_CLOSE = r"[\"')\]\u2019\u201d\u00bb.,;:!?\u2026]*"
_PROSE = re.compile(
    rf"(?<!\S){_OPEN}([{LATIN}]+(?:[-\u2013\u2014][{LATIN}]+)?)(?:['\u2019]s)?{_CLOSE}(?!\S)"
)
_PART = re.compile(rf"[{LATIN}]+")


@dataclass(eq=False)
class Speller:
    """Corrects queries.

    `tokens(text)` gives BM25 terms. `common(words)` gives the words that are common in their
    language. `language(text)` gives the name of the text's language if it is certain.
    """

    tokens: Callable[[str], Collection[int]]
    lexicon: Lexicon
    common: Callable[[Sequence[str]], Awaitable[Collection[str]]] | None = None
    language: Callable[[str], str | None] = lambda _: None

    async def correct(
        self, terms: Terms, targets: Sequence[Target], seconds: float = math.inf
    ) -> tuple[str, tuple[Correction, ...]]:
        """The corrected query and the corrections, within `seconds`.

        A collection that was not probed and has no vocabulary yet may have any word: then nothing
        is corrected.
        """
        wrong = [
            (start, word)
            for start, word in prose(terms.query)
            if len(word) >= SHORTEST and self._unknown(word, terms.unknown)
        ]
        if wrong and self.common is not None:
            common = await self.common([word for _, word in wrong])
            wrong = [(start, word) for start, word in wrong if word not in common]
        wrong = wrong[:CORRECTED_WORDS]
        if not wrong:
            return terms.query, ()
        known = await self.lexicon.vocabularies(targets)
        if any(unprobed(target, terms) and target.collection not in known for target in targets):
            return terms.query, ()
        with within(seconds):
            return await asyncio.to_thread(self._corrected, terms, wrong, [*known.values()])

    def _corrected(
        self, terms: Terms, wrong: Sequence[tuple[int, str]], vocabularies: Sequence[Vocabulary]
    ) -> tuple[str, tuple[Correction, ...]]:
        """The corrected query, unless it was correct in a language that the collections lack.

        A misspelled English word may look foreign; after correction it does not.
        """
        language = self.language(terms.query)
        foreign = language not in (None, ENGLISH)
        query, corrections = corrected(terms.query, wrong, vocabularies, slips=foreign)
        if corrections and foreign:
            known = {ENGLISH, language} if language in terms.languages else {ENGLISH}
            if self.language(query) not in known:
                return terms.query, ()
        return query, corrections

    def _unknown(self, word: str, unknown: Collection[int]) -> bool:
        tokens = self.tokens(word) if unknown else ()
        return bool(tokens) and all(token in unknown for token in tokens)


def prose(query: str) -> list[tuple[int, str]]:
    """The plain words of a query, as (offset, word).

    A compound of two words counts as two; longer compounds are names.
    """
    return [
        (found.start(1) + part.start(), part.group())
        for found in _PROSE.finditer(query)
        for part in _PART.finditer(found.group(1))
        if part.group()[1:].islower()
    ]


def unprobed(target: Target, terms: Terms) -> bool:
    """True if the collection is searched but its terms were not probed."""
    if target.dense is None and target.sparse is None:
        return False
    probed = target.sparse is not None and target.sparse.idf
    return not probed or target.collection in terms.failures


def corrected(
    query: str,
    wrong: Sequence[tuple[int, str]],
    vocabularies: Sequence[Vocabulary],
    *,
    slips: bool = False,
) -> tuple[str, tuple[Correction, ...]]:
    """The query with each (start, word) replaced by its nearest, unless a vocabulary has it.

    `slips`: only if the words differ by a typo inside them, because in languages with many prefixes
    and endings a difference there makes another word.
    """
    corrections = []
    for start, word in reversed(wrong):
        small = lowered(word)
        if any(small in vocabulary for vocabulary in vocabularies):
            continue
        near = nearest(small, vocabularies)
        if near is None or (slips and not is_slip(small, near)):
            continue
        to = near.capitalize() if word[0].isupper() else near
        query = f"{query[:start]}{to}{query[start + len(word) :]}"
        corrections.append(Correction(word, to))
    return query, tuple(reversed(corrections))


def is_slip(word: str, near: str) -> bool:
    """True if the words differ by one edit or transposition, not in the first or last two letters.

    "speichert" is no slip of "speicher", nor "abstellen" of "erstellen".
    """
    if OSA.distance(word, near, score_cutoff=1) > 1:
        return False
    return word[0] == near[0] and word[-2:] == near[-2:]


def nearest(word: str, vocabularies: Sequence[Vocabulary]) -> str | None:
    """The word nearest to `word`, at most two edits away; None if there is none or time runs out.

    Ordered by edits, then by total frequency in the vocabularies, then by name. Excluded are the
    word itself, dissimilar words, and words that differ by a prefix or ending of two or more
    letters: "associated" is not a misspelling of "unassociated".
    """
    edits: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for vocabulary in vocabularies:
        words = list(vocabulary)
        for first in range(0, len(words), SLICE):
            if seconds_left() == MOMENT:
                return None
            some = words[first : first + SLICE]
            found = process.extract_iter(word, some, scorer=OSA.distance, score_cutoff=MOST_EDITS)
            for other, distance, _ in found:
                edits[other] = distance
                counts[other] += vocabulary[other]
    similar = (one for one in edits if _similar(word, one, edits[one]))
    return min(similar, key=lambda one: (edits[one], -counts[one], one), default=None)


def _similar(word: str, other: str, edits: int) -> bool:
    similarity = 1 - edits / max(len(word), len(other))
    derived = abs(len(word) - len(other)) > 1 and (word in other or other in word)
    return SIMILAR <= similarity < 1 and not derived
