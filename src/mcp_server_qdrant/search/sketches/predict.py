"""The best relevance that a text of a collection is expected to have, by its sketch.

Where the words of each text are known, they are weighed as the engine does. Elsewhere the document
frequencies of the query's words tell the mean and the deviation of what they earn: relevance is
taken to be normally distributed around each centre, as scores are in Taily (Aly, Hiemstra and
Demeester, SIGIR 2013).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mcp_server_qdrant.core.bm25 import K1, document_frequency
from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.models import Dense, Inferred
from mcp_server_qdrant.search.query import Query
from mcp_server_qdrant.search.sketches.sketch import Sketch, cosines
from mcp_server_qdrant.search.words.postings import NOWHERE

TOGETHER = 0.5  # correlation of the legs
USUAL = 1.3  # BM25's term frequency part of a word that a text has
NEARER = 2  # deviations of the cosine by which a text with a rare word of the query exceeds others

Floats = npt.NDArray[np.floating]


def vector_of(target: Target, query: Query) -> Dense | None:
    """The query's vector for the target."""
    return query.vectors.dense.get(target.dense.model) if target.dense else None


def predicted(targets: Sequence[Target], sketches: Sequence[Sketch], query: Query) -> list[float]:
    """The best relevance that a text of each target is expected to have."""
    starts = np.cumsum([0, *(len(sketch.shares) for sketch in sketches)]).tolist()
    cosines = _cosines(targets, sketches, query)
    whole = _whole(query)
    shares = {term: idf / whole for term, idf in query.terms.idf.items()} if whole > 0 else {}
    found = []
    for target, sketch, first, last in zip(targets, sketches, starts, starts[1:], strict=False):
        alpha = _alpha(target, query)
        near = alpha * np.maximum(cosines[first:last], 0)
        spreads = alpha * sketch.spreads
        held = sketch.shares * sketch.points
        if sketch.postings is not None:
            scores = (1 - alpha) * np.minimum(sketch.postings.scores(shares), 1)
            found.append(_best(sketch, near, spreads, held, scores))
        else:
            words = ((1 - alpha) * value for value in _words(target, query, shares))
            found.append(_expected(near, spreads, held, *words))
    return found


def _expected(
    near: Floats, spreads: Floats, held: Floats, mean: float, deviation: float, rarest: float
) -> float:
    """The best relevance where only the frequencies of the words are known."""
    both = np.sqrt(spreads**2 + deviation**2 + 2 * TOGETHER * spreads * deviation)
    best = near + mean + both * np.sqrt(2 * np.log(held + 1))  # the greatest of n draws
    # Some text has the rarest word, and is nearer to the query than most.
    return float(np.maximum(best, near + NEARER * spreads + rarest).max())


def _best(sketch: Sketch, near: Floats, spreads: Floats, held: Floats, scores: Floats) -> float:
    """The best relevance where the words of each text are known: its group's cosine, and these."""
    own, nearest = near, 0.0
    if not sketch.exact:
        nearest = (near + spreads * np.sqrt(2 * np.log(np.maximum(held, 1)))).max()
        own = np.append(near + spreads, 0)[np.minimum(sketch.groups, len(near))]
    return float(max(nearest, scores[NOWHERE], (own + scores[: len(own)]).max()))


def _whole(query: Query) -> float:
    """The BM25 score that a text can reach at most."""
    terms = query.terms
    return (K1 + 1) * (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling)


def _alpha(target: Target, query: Query) -> float:
    """The share of meaning in the relevance there; all of it where no words are searched."""
    if vector_of(target, query) is None:
        return 0.0
    return query.alpha if target.sparse and query.terms.idf else 1.0


def _cosines(targets: Sequence[Target], sketches: Sequence[Sketch], query: Query) -> Floats:
    """The mean cosine of the query with each group of all sketches; 0 without a vector."""
    starts = np.cumsum([0, *(len(sketch.shares) for sketch in sketches)])
    found = np.zeros(starts[-1], np.float32)
    spaces: dict[str, list[int]] = {}
    for place, target in enumerate(targets):
        spaces.setdefault(target.dense.model if target.dense else "", []).append(place)
    for model, places in spaces.items():
        vector = query.vectors.dense.get(model)
        if vector is None or isinstance(vector, Inferred):
            continue
        alike = [p for p in places if sketches[p].centres.shape[1] == len(vector)]
        if alike:
            slots = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in alike])
            found[slots] = cosines([sketches[p] for p in alike], np.asarray(vector, np.float32))
    return found


def _words(target: Target, query: Query, shares: Mapping[int, float]) -> tuple[float, float, float]:
    """Mean and deviation of a text's share of the query's words there; that of the rarest word."""
    mean = variance = rarest = 0.0
    documents = max(target.documents, 1)
    for term, own in query.terms.local.get(target.collection, {}).items():
        having = min(document_frequency(documents, own) / documents, 1.0)
        worth = USUAL * shares.get(term, 0.0)
        mean += having * worth
        variance += having * (1 - having) * worth * worth
        rarest = max(rarest, worth)
    return mean, math.sqrt(variance), rarest
