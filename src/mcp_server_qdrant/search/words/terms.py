"""Turns a query into BM25 terms, weighted over all searched collections.

A Qdrant server applies the idf of each collection; the embedded engine applies one idf to all
searched collections of a vector space. Collections with a common idf are a *group*. A probe per new
term and group reads the idf. The query then has the weights idf(t) / idf_c(t), so that the engine
itself returns BM25 under the global idf. df_c(t) = (N_c + 1) / exp(idf_c(t)) - 0.5 inverts Qdrant's
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
from mcp_server_qdrant.core.datatypes import Correction, Sparse, Target, Targets
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.forms import comparable
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
    """Collections with a common idf: the searched ones of a space, or a single one of a server."""

    space: str | None
    vector: str
    names: frozenset[str]


Local = dict[Group, dict[int, float]]  # the group's own idf of its terms


@dataclass(frozen=True, slots=True)
class Terms:
    """The BM25 terms of the query, weighted over all searched collections.

    `idf`: token id -> ln((N + 1) / (df + 0.5)) over all collections together. `sparse`: collection
    -> the query vector with which the engine returns BM25 under that idf. `unknown`: tokens that no
    collection has. `failures`: collection -> why its idf could not be read. `ceiling`: the highest
    sum of weights that a document can reach, if that is not the sum of `idf`. `languages`:
    languages of the texts, besides English.
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
    """Matches the words of a query against texts, exactly or by similar spelling.

    `reader(text)` is the tokeniser for the text's language. Each word in a sentence counts its idf
    once. A missing word counts by the squared share of its character 4-grams that are there: it may
    be inflected or part of a compound.
    """

    def __init__(self, terms: Terms, reader: Reader) -> None:
        self.reader = reader
        tokens = reader(terms.query)
        # The weight of each term: its idf, or 1 where no collection has an idf.
        self.weights = terms.idf or dict.fromkeys(tokens(terms.query), 1.0)
        self._ceiling = terms.ceiling
        self._idf = terms.idf
        self._near: list[tuple[frozenset[int], float, list[str]]] = []
        for word in dict.fromkeys(_WORD.findall(comparable(terms.query))):
            known = frozenset(tokens(word)) & terms.idf.keys()
            if known:
                idf = sum(map(terms.idf.__getitem__, known))
                self._near.append((known, idf, _grams(word)))
        self._total = (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling) or 1.0

    def tokens(self, text: str) -> Collection[int]:
        """The BM25 terms of a text."""
        return self.reader(text)(text)

    def part(self, found: Collection[int]) -> float:
        """The share of the query's weight that these terms have, in [0, 1].

        If several languages stem a word differently, one of its terms is enough; then the total is
        the ceiling and not the sum of the weights.
        """
        return share(found, self.weights, self._ceiling)

    def share(self, text: str, tokens: Tokens) -> float:
        """The share of the query that a sentence contains, in [0, 1]."""
        plain = " " + " ".join(_WORD.findall(comparable(text)))
        there = self._idf.keys() & tokens(text)
        gain = sum(map(self._idf.__getitem__, there))
        for known, idf, grams in self._near:
            if known.isdisjoint(there):
                gain += idf * (sum(gram in plain for gram in grams) / len(grams)) ** 2
        return min(gain / self._total, 1.0)


def share(
    found: Collection[int], weights: Mapping[int, float], ceiling: float | None = None
) -> float:
    """The weight of these terms as a share of all weights, or of the ceiling."""
    total = sum(weights.values()) if ceiling is None else ceiling
    held = sum(value for term, value in weights.items() if term in found)
    return min(held / total, 1.0) if total else 0.0


@dataclass(slots=True)
class _Known:
    """Cached idf of terms in a group, as (idf, expiry); absent terms have 0."""

    documents: int
    expires: float
    terms: dict[int, tuple[float, float]]


@dataclass(eq=False)
class TermWeights:
    """Weights the terms of queries by their idf in the searched collections.

    `words(query, languages)` gives the terms of each word, including their stems in these
    languages. `markers` are terms that reveal the languages of a collection. `wholes` maps compound
    terms of a query to their parts; not all stored vectors have both.
    Cached idfs are valid until the collection changes. Other processes may write too, so the
    absence of a term is cached for seconds only, except for language markers.
    """

    words: Callable[[str, Collection[str]], Sequence[tuple[int, ...]]]
    queries: Queries
    markers: Markers = NO_MARKERS
    wholes: Callable[[str], Mapping[int, Collection[int]]] = lambda _: {}
    clock: Callable[[], float] = time.monotonic
    _known: dict[Group, _Known] = field(default_factory=dict)  # in LRU order

    async def weighed(self, query: str, targets: Sequence[Target]) -> Terms:
        """The terms of `query` with their idf over all `targets`, and each target's own query."""
        searched = [some for some in Targets.from_sequence(targets).groups if some[0].sparse]
        words = self.words(query, ())
        if not words or not searched:
            return Terms(query=query, idf={}, sparse={})
        weighing = groups_of(searched)
        asked = [*chain(*words), *self.markers.foreign]
        local, failures = await self._idf(weighing, asked)
        if languages := await self._languages(weighing, local):
            words = await asyncio.to_thread(self.words, query, languages)
            local, failures = await self._idf(weighing, [*chain(*words)])
        wholes = self.wholes(query)
        absent = _missing(wholes, local)
        there = (parts for whole, parts in wholes.items() if whole not in absent)
        absent |= _missing([*chain.from_iterable(there)], local)
        words = [word for word in words if word[0] not in absent]
        idf = global_idf(words, [(weighing[group], own) for group, own in local.items()])
        # A compound and its parts together weigh as much as one word.
        double = {t for one, parts in wholes.items() if one in idf and parts for t in (one, *parts)}
        idf |= {term: idf[term] / 2 for term in double & idf.keys()}
        unknown = _missing([*chain(*words)], local)
        plain = (one for one in searched if one[0].sparse and not one[0].sparse.idf)
        names = (target.collection for target in chain.from_iterable(plain))
        sparse = dict.fromkeys(names, query_vector(idf, None))
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
        """The languages of the texts, if not all of them are English."""
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
        """The idf of these terms in each group, and the collections whose idf could not be read."""
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
        """Invalidate the cached idf of a collection after a write.

        A probe that is still running writes its result into the discarded entry.
        """
        for group in [group for group in self._known if collection in group.names]:
            del self._known[group]

    def _fresh(self, group: Group, documents: int) -> _Known:
        """The cache entry of a group; a new one if it is stale."""
        known, now = self._known.pop(group, None), self.clock()
        drifted = known and abs(known.documents - documents) > DRIFT * known.documents
        if not known or known.expires <= now or drifted or len(known.terms) > CACHE_TERMS:
            known = _Known(documents, now + CACHE_SECONDS, {})
            if len(self._known) >= CACHE_GROUPS:
                del self._known[next(iter(self._known))]
        self._known[group] = known
        return known


def groups_of(searched: Iterable[Sequence[Target]]) -> dict[Group, int]:
    """The groups with a common idf, and the number of their documents."""
    found: dict[tuple[str | None, str, str], list[Target]] = {}
    for first, *others in searched:
        if first.sparse and first.sparse.idf:
            alone = first.collection if first.space is None else ""
            key = first.space, first.sparse.vector, alone
            found.setdefault(key, []).extend((first, *others))
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

    `collections` has (N_c, idf_c) pairs; N and df are sums over them. The stems of one word in
    several languages count as one term: its df is the sum of theirs, at most N.
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
    """The number of documents that contain a term with this idf; 0 for idf 0."""
    return max((documents + 1) / math.exp(idf) - 0.5, 0.0) if idf > 0 else 0.0


def query_vector(idf: Mapping[int, float], local: Mapping[int, float] | None) -> Sparse | None:
    """The sparse query that scores BM25 under `idf`, or None if no term is left.

    `local` is the idf that the engine applies itself, or None if it applies none.
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
    """The character 4-grams of a word, with a space in front."""
    spaced = f" {word}"
    return [spaced[n : n + GRAM] for n in range(max(len(spaced) - GRAM, 0) + 1)]
