"""The terms of a small collection: which of its points have each, and how much it weighs there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcp_server_qdrant.core.bm25 import engine_idf
from mcp_server_qdrant.core.maps import Weighed

STEPS = 255  # of the largest weight
MOST = 256  # places of points
NOWHERE = MOST - 1  # the place of those that have none


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The `terms` of a collection of `documents`, sorted, and their postings one after the other.

    Those of term i are from `starts[i]` to `starts[i + 1]`: the `places` of its points, and what it
    weighs in each, in `weights` of one `step`.
    """

    documents: int
    terms: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.uint32]
    places: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.uint8]
    step: float

    @classmethod
    def of(cls, points: Iterable[Weighed]) -> "Postings":
        """The postings of these points, of which at most 255 have a place."""
        held = [point for point in points if point.terms]
        owners = np.array([NOWHERE if p.place is None else p.place for p in held], np.uint8)
        each = np.concatenate([np.empty(0), *(point.terms for point in held)]).astype(np.uint32)
        values = np.concatenate([np.empty(0), *(point.weights for point in held)]).clip(min=0)
        order = np.argsort(each, kind="stable")
        terms, starts = np.unique(each[order], return_index=True)
        step = float(values.max(initial=0.0)) / STEPS or 1.0
        return cls(
            len(held),
            terms,
            np.append(starts, len(each)).astype(np.uint32),
            np.repeat(owners, [len(point.terms) for point in held])[order],
            np.rint(values[order] / step).astype(np.uint8),
            step,
        )

    def idf(self, wanted: Sequence[int]) -> dict[int, float]:
        """The engine's idf of those terms that the collection has."""
        return {
            term: engine_idf(self.documents, last - first)
            for term, first, last in self._spans(wanted)
        }

    def scores(self, query: Mapping[int, float]) -> npt.NDArray[np.float32]:
        """The sum of the products with a query of term -> weight, by place."""
        found = np.zeros(MOST, np.float32)
        for term, first, last in self._spans([*query]):
            found[self.places[first:last]] += query[term] * self.step * self.weights[first:last]
        return found

    def _spans(self, wanted: Sequence[int]) -> list[tuple[int, int, int]]:
        """The terms that are here, with the first of their postings and the one after the last."""
        if not len(self.terms):
            return []
        asked = np.array(wanted, np.uint32)
        places = self.terms.searchsorted(asked)
        places[places == len(self.terms)] = 0
        (there,) = (self.terms[places] == asked).nonzero()
        found = places[there]
        firsts, lasts = self.starts[found].tolist(), self.starts[found + 1].tolist()
        terms = [wanted[place] for place in there.tolist()]
        return list(zip(terms, firsts, lasts, strict=True))
