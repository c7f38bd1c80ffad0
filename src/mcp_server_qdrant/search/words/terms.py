"""Query -> BM25 terms weighed over all searched collections.

Qdrant applies a collection's own idf, the embedded engine one of all that are searched in a vector
space: a *group* shares an idf. A probe per new term and group reads that idf off;
the query then carries weights idf(t) / idf_c(t), so that the engine itself returns BM25 under the
global idf. df_c(t) = (N_c + 1) / exp(idf_c(t)) - 0.5 inverts Qdrant's
idf_c(t) = ln((N_c - df + 0.5) / (df + 0.5) + 1) = ln((N_c + 1) / (df + 0.5)).
"""

import asyncio
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from mcp_server_qdrant.core.bm25 import NO_MARKERS, Markers
from mcp_server_qdrant.core.datatypes import Correction, Sparse, Target
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.qdrant.engine import Corpus
from mcp_server_qdrant.qdrant.read.query import Queries

CACHE_SECONDS = 600.0
ABSENT_SECONDS = 5.0
CACHE_TERMS = 20_000  # of a group
CACHE_GROUPS = 4096
DRIFT = 0.1
PROBE_SECONDS = 2.0
GRAM = 4

NEVER = 0.0, 0.0
Tokens = Callable[[str], Collection[int]]
Reader = Callable[[str], Tokens]

_WORD = re.compile(r"\w+")


class Group(NamedTuple):
    """Collections with one idf: all that are searched of a space, or one without a space."""

    space: str | None
    vector: str
    names: frozenset[str]


Local = dict[Group, dict[int, float]]  # its own idf of the terms that it has


@dataclass(frozen=True, slots=True)
class Terms:
    """The query as BM25 sees it, weighed over all searched collections.

    `idf` maps token id -> ln((N + 1) / (df + 0.5)) over the collections together; `sparse` maps
    collection -> the query vector that makes the engine return BM25 under that idf. `failures` maps
    a collection whose own idf could not be read to the reason. `ceiling` is the sum of weights that
    a document can earn at most, where that is not the sum of `idf`. `languages` are those of the
    texts there, besides English.
    """

    query: str
    idf: Mapping[int, float]
    sparse: Mapping[str, Sparse]
    unknown: frozenset[int] = frozenset()
    failures: Mapping[str, str] = field(default_factory=dict)
    ceiling: float | None = None
    corrections: tuple[Correction, ...] = ()
    languages: tuple[str, ...] = ()


class Words:
    """The words of a query, to be found in texts, as they are or spelled nearly so.

    `reader(text)` is the tokeniser for the language of that text. In a sentence each word counts
    its idf, once. Of a word that is not there the share of its letters counts, squared, in
    stretches of four: it may be inflected, or part of a compound, in a language not stemmed.
    """

    def __init__(self, terms: Terms, reader: Reader) -> None:
        self.reader = reader
        tokens = reader(terms.query)
        # The weight of each term: its idf, or 1 where no collection has an idf.
        self.weights = terms.idf or dict.fromkeys(tokens(terms.query), 1.0)
        self._ceiling = terms.ceiling
        self._idf = terms.idf
        self._near: list[tuple[frozenset[int], float, list[str]]] = []
        for word in dict.fromkeys(_WORD.findall(terms.query.lower())):
            known = frozenset(tokens(word)) & terms.idf.keys()
            if known:
                idf = sum(map(terms.idf.__getitem__, known))
                self._near.append((known, idf, _grams(word)))
        self._total = (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling) or 1.0

    def tokens(self, text: str) -> Collection[int]:
        """The BM25 terms of a text."""
        return self.reader(text)(text)

    def part(self, found: Collection[int]) -> float:
        """The part of the query, by weight, that these terms are; in [0, 1].

        A text need hold only one of the terms that languages make of a word: then the whole is the
        ceiling, not the sum of the weights.
        """
        return share(found, self.weights, self._ceiling)

    def share(self, text: str, tokens: Tokens) -> float:
        """The share of the query that a sentence has, in [0, 1]; `tokens` gives its terms."""
        plain = " " + " ".join(_WORD.findall(text.lower()))
        there = self._idf.keys() & tokens(text)
        gain = sum(map(self._idf.__getitem__, there))
        for known, idf, grams in self._near:
            if known.isdisjoint(there):
                gain += idf * (sum(gram in plain for gram in grams) / len(grams)) ** 2
        return min(gain / self._total, 1.0)


def share(
    found: Collection[int], weights: Mapping[int, float], ceiling: float | None = None
) -> float:
    """The share of the sum of the weights, or of the ceiling, that these terms have."""
    total = sum(weights.values()) if ceiling is None else ceiling
    held = sum(value for term, value in weights.items() if term in found)
    return min(held / total, 1.0) if total else 0.0


@dataclass(slots=True)
class _Known:
    """The idf of terms in a group of so many documents, 0 of absent ones; each until when."""

    documents: int
    expires: float
    terms: dict[int, tuple[float, float]]


@dataclass(eq=False)
class TermWeights:
    """Weighs the terms of queries by the idf that the collections have of them.

    `words` gives the terms of each word of a query, for texts of those languages too. `markers` are
    terms by which a collection shows its languages. `compounds` are terms of a query that stand for
    several of its words: not all vectors have them, and they count where some do.
    What is known of a collection lasts until something changes there: a text must be found by its
    words as soon as it is stored, and weighs as before once it is brought back. Other processes
    write too, so that a term is absent is remembered for seconds only; a language's marker like an
    idf.
    """

    words: Callable[[str, Collection[str]], Sequence[tuple[int, ...]]]
    queries: Queries
    markers: Markers = NO_MARKERS
    compounds: Callable[[str], Collection[int]] = lambda _: ()
    clock: Callable[[], float] = time.monotonic
    _known: dict[Group, _Known] = field(default_factory=dict)  # the one used last stands last

    async def weighed(self, query: str, targets: Sequence[Target]) -> Terms:
        """The terms of `query` with their idf over all `targets`, and each target's own query."""
        searched = [target for target in targets if target.sparse]
        words = self.words(query, ())
        if not words or not searched:
            return Terms(query=query, idf={}, sparse={})
        weighing = groups_of(searched)
        asked = [*chain(*words), *self.markers.foreign]
        local, failures = await self._idf(weighing, asked)
        if languages := await self._languages(weighing, local):
            words = await asyncio.to_thread(self.words, query, languages)
            local, failures = await self._idf(weighing, [*chain(*words)])
        absent = _missing(self.compounds(query), local)
        words = [word for word in words if word[0] not in absent]
        idf = global_idf(words, [(weighing[group], own) for group, own in local.items()])
        unknown = _missing([*chain(*words)], local)
        sparse = dict.fromkeys(
            (t.collection for t in searched if t.sparse and not t.sparse.idf),
            query_vector(idf, None),
        )
        for group, own in local.items():
            sparse |= dict.fromkeys(group.names, query_vector(idf, own))
        return Terms(
            query=query,
            idf=idf,
            sparse={name: vector for name, vector in sparse.items() if vector},
            unknown=frozenset(t for word in words if unknown.issuperset(word) for t in word),
            failures=failures,
            ceiling=sum(idf[word[0]] for word in words) if len(idf) > len(words) else None,
            languages=languages,
        )

    async def _languages(self, groups: Mapping[Group, int], local: Local) -> tuple[str, ...]:
        """The languages of the texts there, where not all of them are English."""
        foreign, languages = self.markers
        marked = {
            group: groups[group]
            for group, own in local.items()
            if any(term in own for term in foreign)
        }
        known, _ = await self._idf(marked, [*languages])
        return tuple(n for t, n in languages.items() if any(t in idf for idf in known.values()))

    async def _idf(
        self, groups: Mapping[Group, int], tokens: Sequence[int]
    ) -> tuple[Local, dict[str, str]]:
        """The idf that each group has of these terms, and by collection why it is not known."""
        now = self.clock()
        known = {group: self._fresh(group, documents) for group, documents in groups.items()}
        asked: dict[Group, Corpus] = {}
        for group, one in known.items():
            if terms := [term for term in tokens if one.terms.get(term, NEVER)[1] <= now]:
                asked[group] = Corpus(tuple(group.names), group.vector, tuple(terms))
        failures: dict[str, str] = {}
        answers = await self.queries.probe([*asked.values()], PROBE_SECONDS)
        for (group, corpus), answer in zip(asked.items(), answers, strict=True):
            if isinstance(answer, QdrantMcpError):
                failures |= dict.fromkeys(corpus.collections, str(answer))
                del known[group]
                continue
            fresh = known[group]
            for term in corpus.terms:
                lasts = term in answer or term in self.markers.languages
                until = fresh.expires if lasts else now + ABSENT_SECONDS
                fresh.terms[term] = answer.get(term, 0.0), until
        local = {
            group: {t: one.terms[t][0] for t in tokens if one.terms.get(t, NEVER)[0] > 0}
            for group, one in known.items()
        }
        return local, failures

    def forget(self, collection: str) -> None:
        """Something was stored or deleted there: terms may be new, gone, rarer or more frequent.

        A probe under way may have asked before that: its answer goes to what is forgotten.
        """
        for group in [group for group in self._known if collection in group.names]:
            del self._known[group]

    def _fresh(self, group: Group, documents: int) -> _Known:
        """What is known of a group, as long as it lasts."""
        known, now = self._known.pop(group, None), self.clock()
        drifted = known and abs(known.documents - documents) > DRIFT * known.documents
        if not known or known.expires <= now or drifted or len(known.terms) > CACHE_TERMS:
            known = _Known(documents, now + CACHE_SECONDS, {})
            if len(self._known) >= CACHE_GROUPS:
                del self._known[next(iter(self._known))]
        self._known[group] = known
        return known


def groups_of(targets: Iterable[Target]) -> dict[Group, int]:
    """The groups of targets with a sparse vector that share an idf, and their documents."""
    found: dict[tuple[str | None, str, str], list[Target]] = {}
    for target in targets:
        if target.sparse and target.sparse.idf:
            alone = target.collection if target.space is None else ""
            found.setdefault((target.space, target.sparse.vector, alone), []).append(target)
    return {
        Group(space, vector, frozenset(one.collection for one in some)): sum(
            one.documents for one in some
        )
        for (space, vector, _), some in found.items()
    }


def _missing(terms: Collection[int], local: Local) -> set[int]:
    """The terms that no group has."""
    return {term for term in terms if not any(known.get(term) for known in local.values())}


def global_idf(
    words: Sequence[Sequence[int]], collections: Sequence[tuple[int, Mapping[int, float]]]
) -> dict[int, float]:
    """idf(t) = ln((N + 1) / (df(t) + 0.5)) over all collections.

    `collections` holds (N_c, idf_c) pairs; N and df are their sums. The terms of a word, as several
    languages stem it, count as one: its df is the sum of theirs, and at most N.
    """
    total = sum(documents for documents, _ in collections)
    idf = {}
    for word in words:
        df = sum(
            document_frequency(n, local.get(term, 0.0)) for n, local in collections for term in word
        )
        idf.update(dict.fromkeys(word, math.log((total + 1) / (min(df, total) + 0.5))))
    return idf


def document_frequency(documents: int, idf: float) -> float:
    """The number of the `documents` that contain a term with this idf; 0 where it has none."""
    return max((documents + 1) / math.exp(idf) - 0.5, 0.0) if idf > 0 else 0.0


def query_vector(idf: Mapping[int, float], local: Mapping[int, float] | None) -> Sparse | None:
    """The sparse query that scores BM25 under `idf`, or None where no term is left.

    `local` is the idf that the engine will apply itself; None where it applies none.
    """
    if local is None:
        pairs = [(token, value) for token, value in idf.items() if value > 0]
    else:
        weighed = ((t, value, local.get(t, 0.0)) for t, value in idf.items())
        pairs = [(token, value / own) for token, value, own in weighed if own > 0]
    if not pairs:
        return None
    indices, values = zip(*pairs, strict=True)
    return Sparse(indices, values)


def _grams(word: str) -> list[str]:
    """All stretches of four characters of a word behind a space."""
    spaced = f" {word}"
    return [spaced[n : n + GRAM] for n in range(max(len(spaced) - GRAM, 0) + 1)]
