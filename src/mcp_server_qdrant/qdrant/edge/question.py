"""The queries of a search over several collections of one space at once.

The engine fuses dense, sparse and tag prefetches by RRF. Further queries get the exact scores and
the payloads of the results, and whether further parts belong to the current version of their text.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import qdrant_edge as edge

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_vectors
from mcp_server_qdrant.qdrant.edge.collection import KEY, Entry, own_id, stored_id
from mcp_server_qdrant.qdrant.edge.space import readable
from mcp_server_qdrant.qdrant.edge.store import Scope
from mcp_server_qdrant.qdrant.engine import Ask, Found, Leg
from mcp_server_qdrant.qdrant.payload import further_parts, mark_current
from mcp_server_qdrant.qdrant.questions import OVER, stored_value

_FIRST = ["doc.version", "doc.chunks"]

Plain = Mapping[str, Any]


class _Ranked(NamedTuple):
    """A candidate; `id` is its stored id, and `key` the same as a number, for fast lookups.

    `own` is its own id if a single collection is searched, else None.
    """

    score: float
    key: int
    id: UUID
    own: PointId | None


class Question:
    """A search over collections of one space; `guard` is a filter on everything it reads."""

    def __init__(
        self,
        scope: Scope,
        guard: Plain | None,
        corpus: Scope | None = None,
    ) -> None:
        """`corpus`: the collections that the IDF is computed over; default: those searched."""
        self._asked = scope
        self._space = scope.space
        self._engine = self._space.engine
        # Without a filter the engine would count deleted points too.
        self._live = edge.Filter() if self._space.deleted else None
        self._guard = guard
        self._scope = self._filter(None)
        self._weighed = corpus.filter(guard) if corpus else self._scope

    def candidates(self, ask: Ask) -> list[Found]:
        """The best points by RRF over the legs, with their exact scores on the scored legs."""
        filters: dict[int, edge.Filter | None] = {id(None): self._scope}
        for leg in ask.legs:
            if id(leg.where) not in filters:
                filters[id(leg.where)] = self._filter(leg.where)
        near = [self._nearest_query(leg) for leg in ask.legs]
        corpora = [self._corpus(leg.vector) for leg in ask.legs]
        prefetches = [
            edge.Prefetch(
                ask.limit,
                query=query,
                filter=filters[id(leg.where)],
                params=types.search_params(corpus=corpus),
            )
            for leg, query, corpus in zip(ask.legs, near, corpora, strict=True)
        ]
        best = self._fuse(prefetches, ask)
        only = edge.Filter(must=[edge.HasIdCondition({one.id for one in best})])
        exact = [
            (leg, self._scores(query, corpus, only, len(best)) if best else {})
            for leg, query, corpus in zip(ask.legs, near, corpora, strict=True)
            if leg.scored
        ]
        if 0 < ask.keep_best < len(best):
            best = _by_worth(best, exact)[: ask.keep_best]
        found = [
            Found(entry.name, point, one.score, [leg.get(one.key) for _, leg in exact], payload)
            for one, entry, point, payload in self._read_payloads(best, ask.fields)
        ]
        found.sort(key=lambda one: (-one.rrf, str(one.id), one.collection))
        self._mark(found)
        return found

    def _fuse(self, prefetches: list[edge.Prefetch], ask: Ask) -> list[_Ranked]:
        """The best points by RRF, ties by id (by stored id for several collections)."""
        fusion: Any = edge.Fusion.Rrf(ask.k)  # its stub lacks the base class
        request = edge.QueryRequest(
            ask.limit + OVER,
            query=fusion,
            prefetches=prefetches,
            with_payload=False,
            with_vector=False,
        )
        points: list[Any] = self._engine.query(request)
        alone = self._asked.first if len(self._asked.entries) == 1 else None
        ranked = [
            _Ranked(one.score, key.int, key, own_id(alone, key.int) if alone else None)
            for one in points
            for key in (one.id,)
        ]
        ranked.sort(key=lambda one: (-one.score, str(one.own), one.key))
        return ranked[: ask.limit]

    def _read_payloads(
        self, ranked: Sequence[_Ranked], fields: Sequence[str]
    ) -> Iterator[tuple[_Ranked, Entry, PointId, dict[str, Any]]]:
        """The readable ones of these points, with collection, own id and payload."""
        shown, by_key = [*fields, KEY] if fields else True, {one.key: one for one in ranked}
        read = readable(self._engine, [one.id for one in ranked], payload=shown, vector=False)
        self._space.unreadable |= len(read) < len(ranked)
        for record in read:
            key, payload = record.id.int, record.payload or {}
            if entry := self._asked.entries.get(payload.pop(KEY, "")):
                one = by_key[key]
                yield one, entry, own_id(entry, key) if one.own is None else one.own, payload
            else:
                self._space.unreadable = True  # its payload is lost

    def _scores(self, query: Any, corpus: Any, only: edge.Filter, count: int) -> dict[int, float]:
        """The exact scores of these points on a leg; points without its vector are left out."""
        request = edge.QueryRequest(
            count,
            query=query,
            filter=only,
            params=types.search_params(exact=True, corpus=corpus),
            with_payload=False,
            with_vector=False,
        )
        points: list[Any] = self._engine.query(request)
        return {one.id.int: one.score for one in points}

    def _mark(self, found: Sequence[Found]) -> None:
        """Mark for further parts whether they belong to the current version of their text."""
        if not (parts := further_parts(found)):
            return
        by_name = {entry.name: entry for entry in self._asked.entries.values()}
        firsts = {
            stored_id(by_name[one.collection], head): (one.collection, head) for one, head in parts
        }
        read = readable(self._engine, [*firsts], payload=_FIRST, vector=False)
        mark_current(parts, {firsts[one.id.hex]: one.payload for one in read})

    def idf(self, vector: str, term: int) -> float:
        """The engine's own IDF of a term of a sparse vector; 0 if no point has the term.

        A query of one term with weight 1 scores idf(t) * stored value, and the vector has that
        value.
        """
        request = edge.QueryRequest(
            1,
            query=edge.Query.Nearest(edge.SparseVector([term], [1.0]), using=vector or None),
            filter=self._scope,
            params=types.search_params(corpus=self._corpus(vector)),
            with_payload=False,
            with_vector=[vector],
        )
        for point in self._engine.query(request):
            if (value := stored_value(point.vector, vector, term)) > 0:
                return point.score / value
        return 0.0

    def _nearest_query(self, leg: Leg) -> Any:
        entry = self._asked.first
        check_vectors(
            {leg.vector: leg.query},
            {"name": entry.name, "vectors": entry.vectors, "sparse_vectors": entry.sparse_vectors},
        )
        return edge.Query.Nearest(types.to_vector(leg.query), using=leg.vector or None)

    def _filter(self, where: Plain | None) -> edge.Filter | None:
        both = [one for one in (self._guard, where) if one is not None]
        return self._asked.filter({"must": both} if both else None)

    def _corpus(self, vector: str) -> edge.Filter | None:
        """The filter for the points that the IDF is computed over."""
        declared = self._asked.first.sparse_vectors.get(vector, {})
        return self._weighed or self._live if declared.get("modifier") == "idf" else None


def _by_worth(
    ranked: Sequence[_Ranked], exact: Sequence[tuple[Leg, Mapping[int, float]]]
) -> list[_Ranked]:
    """The candidates by their weighted sum of scores, best first."""
    worth = {one.key: 0.0 for one in ranked}
    for leg, scores in exact:
        share, most = leg.worth
        for key, score in scores.items():
            worth[key] += share * min(max(score / most, 0.0), 1.0)
    return sorted(ranked, key=lambda one: -worth[one.key])
