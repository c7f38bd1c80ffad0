"""Names clusters of texts by phrases that distinguish each from all others.

The score of a phrase: its number of texts in the cluster, times the logarithm of its frequency
there relative to all texts (a term of the Kullback-Leibler divergence).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mcp_server_qdrant.core.bm25 import ENGLISH, NEUTRAL
from mcp_server_qdrant.core.forms import PAIRED
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.language import detect, stop_words

PHRASES = 8  # per cluster
WORDS = 3  # longest phrase
CHARACTERS = range(2, 5)  # lengths of a phrase in a script without spaces
FEWEST, SHARE = 3, 0.1  # texts of a cluster that have the phrase: number and share
# Share of a cluster's texts in minority languages, and in each language of its name.
MOST, LARGE = 0.8, 0.3
TITLE = 2.0  # weight of a phrase in a title
CLEARLY = 2.0  # frequency relative to any other cluster
SPOKEN = 0.003  # smallest share of a language whose stop words are used
ALIKE = 5  # first letters that forms of a word share

LANGUAGE = " texts"  # follows the name of a language
CODE = {"def", "self", "none", "null", "str", "int", "bool", "return", "import", "elif"}

WORD = re.compile(r"[^\W\d_]{3,30}")
BREAK = re.compile(r"[^\w\s'\u2019-]+|\n|[\d_]+")  # ends a phrase
# URLs, ids such as log-26-a, field names before values, file extensions.
FOREIGN = re.compile(
    r"\w+://\S+|%\w+|\b[^\W\d_]+-\d+[-_]\w\S*"
    r"|^[^\W\d][\w -]{0,30}:(?=\s)|\b[A-Z]{6,}(?= [A-Z][a-z])|(?<=\w)\.[a-z]\w{1,3}\b",
    re.MULTILINE,
)
# Chinese and Japanese function words, which end a phrase.
PARTICLES = re.compile(
    "他们|她们|它们|我们|你们|因为|所以|但是|可能|可以|没有|包括|这些|那些|一些|一个|许多|以及|部分"
    "|[的了是在和與与為为有于之不也就以及其这這那上到被對对由而等并將将從从个個年月日のはをにがとでも]"
)


class Phrases:
    """The phrases of texts, counted once, to name the clusters of several clusterings.

    The first line of a text is its title, the rest its beginning.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        self._texts = texts
        spoken = [detect(text) for text in texts]
        telling, foreign = _telling(spoken), _foreign(spoken)
        counter = CountVectorizer(analyzer=lambda one: {*_phrases(one[0], telling), one[1]})
        held = counter.fit_transform(zip(texts, foreign, strict=True))
        everywhere = np.asarray(held.sum(axis=0))[0]
        everyday = stop_words(spoken)
        alone = [everyday.issuperset(one.split()) for one in counter.get_feature_names_out()]
        frequent = (everywhere >= FEWEST) & ~np.array(alone, bool)
        titles, own = _parted(texts)
        self._words = counter.get_feature_names_out()[frequent]
        self._held = held[:, frequent]
        self._own = counter.transform(zip(own, foreign, strict=True))[:, frequent]
        self._titled = counter.transform((title, "") for title in titles)[:, frequent]
        self._everywhere = everywhere[frequent] / len(texts)
        self._spoken = np.isin(self._words, foreign)
        self._length = np.sqrt([_length(phrase) for phrase in self._words])

    def names(self, clusters: NDArray[np.int64]) -> list[list[str]]:
        """The distinctive phrases of each cluster, best first; may be empty. Cluster -1 is none."""
        inside = (clusters == np.arange(-1, clusters.max() + 1)[:, None]).astype(np.float32)
        sizes = np.maximum(inside.sum(axis=1, keepdims=True), 1)
        share, own = inside @ self._held / sizes, inside @ self._own
        best, second = -np.sort(-np.vstack([share, 0 * share[:1]]), axis=0)[:2]
        elsewhere = np.where(share == best, second, best)
        enough = (own >= FEWEST) & (own >= np.where(self._spoken, LARGE, SHARE) * sizes)
        enough &= ~self._spoken | (own @ self._spoken[:, None] >= MOST * sizes)
        tells = enough & (own >= CLEARLY * elsewhere * sizes)
        # If one of its languages is distinctive, all its languages are in the name.
        tells |= enough & self._spoken & (tells & self._spoken).any(axis=1, keepdims=True)
        lift = np.log1p(share / self._everywhere)
        score = tells * (own + (TITLE - 1) * (inside @ self._titled)) * lift * self._length
        made = []
        for number, scores in enumerate(score[1:]):
            ranked = np.argsort(-scores, kind="stable")[: int((scores > 0).sum())]
            text = "\n".join(self._texts[at] for at in np.flatnonzero(clusters == number).tolist())
            made.append([_written(one, text) for one in _distinct(self._words[ranked])])
        return made


def called(phrases: Sequence[str]) -> str:
    """The name of a cluster: its best phrase, or its languages.

    A single word is joined with the next phrase, or replaced by it if that contains the word.
    """
    if phrases and phrases[0].endswith(LANGUAGE):
        return ", ".join(one for one in phrases if one.endswith(LANGUAGE))
    if len(phrases) < 2 or not WORD.fullmatch(phrases[0]) or PAIRED.match(phrases[0]):
        return ", ".join(phrases[:1])
    first, second = phrases[:2]
    return second if first.lower() in second.lower().split() else f"{first}, {second}"


def _parted(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The titles and the texts; a title repeated by other parts of a document counts once."""
    seen = set[str]()
    titles, bodies = [], []
    for text in texts:
        title, line, body = text.partition("\n")
        known = not line or title in seen
        titles.append("" if known else title)
        bodies.append(body if known and line else text)
        seen.add(title)
    return titles, bodies


def _phrases(text: str, telling: Callable[[str], bool]) -> Iterator[str]:
    text = FOREIGN.sub("\n", text)
    for part in BREAK.split(PAIRED.sub("\n", text.lower())):
        run: list[str] = []
        for word in (one.strip("-'\u2019") for one in part.split()):
            run = [*run[1 - WORDS :], word] if telling(word) else []
            for start in range(len(run)):
                yield " ".join(run[start:])
    for written in () if text.isascii() else PAIRED.findall(text):
        for run_on in PARTICLES.split(written):
            for size in CHARACTERS:
                for at in range(len(run_on) - size + 1):
                    yield run_on[at : at + size]


def _length(phrase: str) -> float:
    return len(phrase) / 2 if PAIRED.match(phrase) else phrase.count(" ") + 1


def _distinct(phrases: Sequence[str]) -> list[str]:
    """The first phrases, at most half of whose words occur in earlier ones."""
    known, kept = set[str](), list[str]()
    for phrase in phrases:
        parts = [*phrase] if PAIRED.match(phrase) else [word[:ALIKE] for word in phrase.split()]
        alike = [
            any(one.startswith(part) or part.startswith(one) for one in known) for part in parts
        ]
        if 2 * sum(alike) <= len(parts):
            kept.append(phrase)
            known.update(parts)
        if len(kept) == PHRASES:
            break
    return kept


def _written(phrase: str, text: str) -> str:
    """The most frequent spelling of a phrase."""
    found = re.findall(rf"\b{re.escape(phrase)}\b", text, re.IGNORECASE)
    return Counter(found).most_common(1)[0][0] if found else phrase


def _foreign(spoken: Sequence[str | None]) -> list[str]:
    """A phrase for each text's language; "" if that is the most frequent one or unknown."""
    known = Counter(one for one in spoken if one not in (None, NEUTRAL))
    others = [language for language, _ in known.most_common()[1:]]
    return [f"{one.title()}{LANGUAGE}" if one and one in others else "" for one in spoken]


def _telling(spoken: Sequence[str | None]) -> Callable[[str], bool]:
    """A test for words that are not stop words in any language of the texts."""
    found = Counter(language or ENGLISH for language in spoken)
    encoders = [Bm25Encoder(name) for name, count in found.items() if count >= SPOKEN * len(spoken)]

    @cache
    def telling(word: str) -> bool:
        is_word = bool(WORD.match(word)) and word not in CODE
        return is_word and all(one.tokens(word) for one in encoders)

    return telling
