"""Which of many collections are asked, and in which order.

The best relevance of a collection is predicted from its sketch and from the document frequencies
of the query's words: relevance is taken to be normally distributed around each centre, as scores
are in Taily (Aly, Hiemstra and Demeester, SIGIR 2013). The best ones are asked first. Their true
best relevance tells how far predictions are off here, and so how many of the others are still
expected to reach the page; these are asked in waves, until hardly one is. Where vectors tell
nothing of a collection, predictions are far off, and nearly all are asked.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcp_server_qdrant.core.bm25 import K1
from mcp_server_qdrant.core.datatypes import Hit, Target
from mcp_server_qdrant.core.models import Inferred
from mcp_server_qdrant.search.query import Query
from mcp_server_qdrant.search.sketches.sketch import Sketch

FIRST = 32
WAVE = 16  # at least
EXPECTED = 0.3  # collections that could still reach the page, where asking ends
TOGETHER = 0.5  # correlation of the legs
USUAL = 1.3  # BM25's term frequency part of a word that a text has
NEARER = 2  # deviations of the cosine by which a text with a rare word of the query exceeds others
LEAST_ERROR = 0.01

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Waves:
    """The targets of a search: those asked first, and the others with their predictions."""

    first: Sequence[Target]
    others: Sequence[Target]
    predicted: Mapping[str, float]

    def following(self, hits: Sequence[Hit], limit: int) -> "Waves":
        """The next wave, which is empty where the others are not expected to reach the page.

        `hits` are the candidates of all that were asked, best first.
        """
        cut = hits[limit - 1].relevance if len(hits) >= limit else 0.0
        best = dict.fromkeys(self.predicted.keys() - {t.collection for t in self.others}, 0.0)
        for hit in hits:
            if hit.relevance > best.get(hit.collection, math.inf):
                best[hit.collection] = hit.relevance
        errors = np.array([best[name] - self.predicted[name] for name in best])
        bias, spread = float(errors.mean()), max(float(errors.std()), LEAST_ERROR)
        chances = [
            math.erfc((cut - self.predicted[t.collection] - bias) / (spread * math.sqrt(2))) / 2
            for t in self.others
        ]
        behind = np.cumsum(chances[::-1])[::-1]  # the expected number from each of them on
        needed = int(np.count_nonzero(behind >= EXPECTED))
        half = needed // 2 if needed <= len(self.others) // 2 else needed  # most: all at once
        size = max(half, WAVE) if needed else 0
        return Waves(self.others[:size], self.others[size:], self.predicted)


def waves(query: Query, sketches: Mapping[str, Sketch]) -> Waves:
    """The order in which the targets are asked. Those of which nothing is known come first.

    So do those that the request names, that the operator prefers, or with a tag of the query.
    """
    named = {*(query.request.collections or ()), *query.rules.order, *query.plan.tags}
    known = {
        target.collection: sketches[target.collection]
        for target in query.targets
        if target.collection in sketches
        and target.collection not in named
        and not isinstance(_vector(target, query), Inferred)
        and (target.sparse is None or target.sparse.idf)
    }
    asked = [target for target in query.targets if target.collection not in known]
    if query.exact.phrases or len(known) <= FIRST:  # a phrase may be anywhere
        return Waves(query.targets, (), {})
    likely = [target for target in query.targets if target.collection in known]
    values = _predicted(likely, [known[target.collection] for target in likely], query)
    predicted = {target.collection: value for target, value in zip(likely, values, strict=True)}
    likely.sort(key=lambda target: -predicted[target.collection])
    return Waves([*asked, *likely[:FIRST]], likely[FIRST:], predicted)


def _vector(target: Target, query: Query) -> object:
    return query.vectors.dense.get(target.dense.model) if target.dense else None


def _predicted(targets: Sequence[Target], sketches: Sequence[Sketch], query: Query) -> list[float]:
    """The best relevance that a text of each target is expected to have."""
    counts = np.array([len(sketch.shares) for sketch in sketches])
    words = np.array([_words(target, query) for target in targets])
    means, deviations, rarest = np.repeat(words, counts, axis=0).T
    alpha = query.alpha
    vectors = {
        model: np.asarray(vector, np.float32)
        for model, vector in query.vectors.dense.items()
        if not isinstance(vector, Inferred)
    }
    cosines = np.concatenate(
        [
            _cosines(target, sketch, vectors)
            for target, sketch in zip(targets, sketches, strict=True)
        ]
    )
    held = np.concatenate([sketch.shares * sketch.points for sketch in sketches])
    spreads = alpha * np.concatenate([sketch.spreads for sketch in sketches])
    deviations *= 1 - alpha
    deviation = np.sqrt(spreads**2 + deviations**2 + 2 * TOGETHER * spreads * deviations)
    reach = np.sqrt(2 * np.log(held + 1))  # the greatest of n draws, in deviations
    best = alpha * cosines + (1 - alpha) * means + deviation * reach
    # Some text has the rarest word, and is nearer to the query than most.
    best = np.maximum(best, alpha * cosines + NEARER * spreads + (1 - alpha) * rarest)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    found: list[float] = np.maximum.reduceat(best, starts).tolist()
    return found


def _cosines(target: Target, sketch: Sketch, vectors: Mapping[str, Floats]) -> Floats:
    """The mean cosine of the query with each group of the sketch; 0 without a vector."""
    vector = vectors.get(target.dense.model) if target.dense else None
    if vector is None or len(vector) != sketch.centres.shape[1]:
        return np.zeros(len(sketch.shares), np.float32)
    cosines: Floats = sketch.centres.astype(np.float32) @ vector
    return cosines


def _words(target: Target, query: Query) -> tuple[float, float, float]:
    """Mean and deviation of a text's share of the query's words there; that of the rarest word.

    A query weighs a term idf / idf_c, so that the collection's own idf_c and with it the share of
    its texts that have the term can be read off.
    """
    terms = query.terms
    vector = terms.sparse.get(target.collection)
    total = sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling
    if vector is None or total <= 0:
        return 0.0, 0.0, 0.0
    mean = variance = rarest = 0.0
    documents = max(target.documents, 1)
    for term, weight in zip(vector.indices, vector.values, strict=True):
        idf = terms.idf[term]
        frequency = (documents + 1) / math.exp(idf / weight) - 0.5
        having = min(max(frequency / documents, 0.0), 1.0)
        worth = USUAL / (K1 + 1) * idf / total
        mean += having * worth
        variance += having * (1 - having) * worth * worth
        rarest = max(rarest, worth)
    return mean, math.sqrt(variance), rarest
