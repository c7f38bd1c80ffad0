"""Which of many collections are asked, and in which order.

The best relevance of a collection is predicted. The best ones are asked first. Their true best
relevance tells how far predictions are off here, and so how many of the others are still
expected to reach the page; these are asked in waves, until hardly one is. Where vectors tell
nothing of a collection, predictions are far off, and nearly all are asked.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mcp_server_qdrant.core.datatypes import Hit, Target
from mcp_server_qdrant.core.models import Inferred
from mcp_server_qdrant.search.query import Query
from mcp_server_qdrant.search.sketches.predict import predicted, vector_of

FIRST = 32
WAVE = 16  # at least, where as many could
EXPECTED = 0.3  # collections that could still reach the page, where asking ends
LEAST_ERROR, LEAST_EXACT = 0.01, 0.0005


@dataclass(frozen=True, slots=True)
class Waves:
    """The targets of a search: those asked first, and the others, the best predictions first.

    Predictions for the `exact` collections know each of their texts.
    """

    first: Sequence[Target]
    others: Sequence[Target]
    predicted: Mapping[str, float] = field(default_factory=dict)
    exact: Collection[str] = ()

    def following(self, hits: Sequence[Hit], page: float, read: float) -> "Waves":
        """The next wave, which is empty where the others are not expected to have better texts.

        `hits` are the candidates of all that were asked, best first; `page` is the least relevance
        there, `read` the least that is worth reading. This counts for collections that are known
        exactly; of the others it would be expected of too many.
        """
        best = dict.fromkeys(self.predicted.keys() - {t.collection for t in self.others}, 0.0)
        for hit in hits:
            if hit.relevance > best.get(hit.collection, math.inf):
                best[hit.collection] = hit.relevance
        errors: dict[bool, list[float]] = {True: [], False: []}
        for name, relevance in best.items():
            errors[name in self.exact].append(relevance - self.predicted[name])
        limits = {}
        for exact, cut, least in ((True, read, LEAST_EXACT), (False, page, LEAST_ERROR)):
            seen = np.array(errors[exact] or [*errors[True], *errors[False]])
            limits[exact] = cut - float(seen.mean()), max(float(seen.std()), least) * math.sqrt(2)
        chances = []
        for target in self.others:
            limit, error = limits[target.collection in self.exact]
            chances.append(math.erfc((limit - self.predicted[target.collection]) / error) / 2)
        behind = np.cumsum(chances[::-1])[::-1]  # the expected number from each of them on
        needed = int(np.count_nonzero(behind >= EXPECTED))
        half = needed // 2 if needed <= len(self.others) // 2 else needed  # most: all at once
        size = max(half, min(needed, WAVE))
        return replace(self, first=self.others[:size], others=self.others[size:])


def waves(query: Query) -> Waves:
    """The order in which the targets are asked. Those of which nothing is known come first.

    So do those that the request names, that the operator prefers, or with a tag of the query.
    """
    sketches = query.sketches
    named = {*(query.request.collections or ()), *query.rules.order, *query.plan.tags}
    known = {
        target.collection: sketches[target.collection]
        for target in query.targets
        if target.collection in sketches
        and target.collection not in named
        and not isinstance(vector_of(target, query), Inferred)
        and (target.sparse is None or target.sparse.idf)
    }
    asked = [target for target in query.targets if target.collection not in known]
    # A phrase may be anywhere, and so may the texts that a filter leaves.
    narrowed = query.exact.phrases or query.plan.condition is not None or query.plan.period
    if narrowed or len(known) <= FIRST:
        return Waves(query.targets, ())
    likely = [target for target in query.targets if target.collection in known]
    values = predicted(likely, [known[target.collection] for target in likely], query)
    best = {target.collection: value for target, value in zip(likely, values, strict=True)}
    likely.sort(key=lambda target: -best[target.collection])
    exact = frozenset(name for name in best if known[name].exact)
    return Waves([*asked, *likely[:FIRST]], likely[FIRST:], best, exact)
