"""The questions of a search to the collections of one space, all of them at once.

The engine's own RRF over dense, sparse and tag prefetch; the exact scores of what it found; the
payloads; and whether further parts are of the present version of their text.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import qdrant_edge as edge

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import check_vectors
from mcp_server_qdrant.qdrant.edge.collection import KEY, Entry, confined, own_id, stored_id
from mcp_server_qdrant.qdrant.edge.space import guarded, readable
from mcp_server_qdrant.qdrant.edge.store import Collection, Store
from mcp_server_qdrant.qdrant.engine import Ask, Found, Leg
from mcp_server_qdrant.qdrant.payload import further_parts, judge
from mcp_server_qdrant.qdrant.questions import OVER, stored_value

_FIRST = ["doc.version", "doc.chunks"]

Plain = Mapping[str, Any]


class _Ranked(NamedTuple):
    """A candidate; `key` is its stored id. The engine makes ids and payloads anew when asked."""

    score: float
    point: PointId
    entry: Entry
    key: int
    payload: dict[str, Any]


class Question:
    """A question to collections of one space; `guard` is a filter on all that is read."""

    def __init__(
        self,
        store: Store,
        asked: Sequence[Collection],
        guard: Plain | None,
        corpus: Sequence[Collection] = (),
    ) -> None:
        """`corpus`: the collections whose document frequencies weigh the words; those asked."""
        self._space = asked[0].space
        self._engine = self._space.engine
        # Without a filter the engine counts deleted points as well.
        self._live = edge.Filter() if self._space.deleted else None
        self._entries = [one.entry for one in asked]
        self._by_id = {entry.id: entry for entry in self._entries}
        self._others = store.others(self._entries[0].space, self._entries)
        self._guard = guard
        self._scope = self._filter(None)
        self._weighed = self._scope
        if corpus:
            entries = [one.entry for one in corpus]
            others = store.others(entries[0].space, entries)
            self._weighed = types.to_filter(confined(entries, guard, others=others))

    def candidates(self, ask: Ask) -> list[Found]:
        """The best points by RRF over the legs, with their exact score on each scored leg."""
        filters: dict[int, edge.Filter | None] = {id(None): self._scope}
        for leg in ask.legs:
            if id(leg.where) not in filters:
                filters[id(leg.where)] = self._filter(leg.where)
        near = [self._near(leg) for leg in ask.legs]
        corpora = [self._corpus(leg.vector) for leg in ask.legs]
        fusion: Any = edge.Fusion.Rrf(ask.k)  # its stub lacks the base class
        prefetches = [
            edge.Prefetch(
                ask.limit,
                query=query,
                filter=filters[id(leg.where)],
                params=types.search_params(corpus=corpus),
            )
            for leg, query, corpus in zip(ask.legs, near, corpora, strict=True)
        ]

        def ranked(payload: Any) -> list[edge.ScoredPoint]:
            request = edge.QueryRequest(
                ask.limit + OVER,
                query=fusion,
                prefetches=prefetches,
                with_payload=payload,
                with_vector=False,
            )
            return self._engine.query(request)

        best = self._best(ranked, [*ask.fields, KEY] if ask.fields else True, ask.limit)
        exact = [
            self._scores(query, corpus, [one.key for one in best])
            for leg, query, corpus in zip(ask.legs, near, corpora, strict=True)
            if leg.scored
        ]
        found = [
            Found(
                one.entry.name,
                one.point,
                one.score,
                [leg.get(one.key) for leg in exact],
                one.payload,
            )
            for one in best
        ]
        self._mark(found)
        return found

    def _best(self, ranked: Callable[[Any], list[Any]], shown: Any, limit: int) -> list[_Ranked]:
        """The best points with their payloads, without those that the engine cannot read."""
        try:
            with guarded(""):
                points = [(one.score, one.id, one.payload) for one in ranked(shown)]
        except EngineFailure:
            scores = {one.id: one.score for one in ranked(False)}  # noqa: FBT003
            read = readable(self._engine, [*scores], payload=shown, vector=False)
            self._space.unreadable |= len(read) < len(scores)
            points = [(scores[one.id], one.id, one.payload) for one in read]
        made = []
        for score, key, payload in points:
            entry = self._by_id.get(payload.pop(KEY, ""))
            if entry is None:
                self._space.unreadable = True  # its payload is lost
            else:
                made.append(_Ranked(score, own_id(entry, key.int), entry, key.int, payload))
        return sorted(made, key=lambda one: (-one.score, str(one.point), one.entry.name))[:limit]

    def _scores(self, query: Any, corpus: Any, keys: Sequence[int]) -> dict[int, float]:
        """The exact scores of these points on a leg, by stored id; none of those that it lacks."""
        if not keys:
            return {}
        request = edge.QueryRequest(
            len(keys),
            query=query,
            filter=edge.Filter(must=[edge.HasIdCondition({f"{key:032x}" for key in keys})]),
            params=types.search_params(exact=True, corpus=corpus),
            with_payload=False,
            with_vector=False,
        )
        points: list[Any] = self._engine.query(request)
        return {one.id.int: one.score for one in points}

    def _mark(self, found: Sequence[Found]) -> None:
        """Tell of further parts whether they are of the present version of their text."""
        by_name, parts = {entry.name: entry for entry in self._entries}, further_parts(found)
        firsts = {
            stored_id(by_name[one.collection], head): (one.collection, head) for one, head in parts
        }
        read = readable(self._engine, [*firsts], payload=_FIRST, vector=False)
        judge(parts, {firsts[one.id.hex]: one.payload for one in read})

    def idf(self, vector: str, term: int) -> float:
        """The engine's own idf of a term of a sparse vector; 0 where no point has it.

        A query of one term with weight 1 scores idf(t) * stored value; the value comes with the
        vector.
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

    def _near(self, leg: Leg) -> Any:
        entry = self._entries[0]
        check_vectors(
            {leg.vector: leg.query},
            {"name": entry.name, "vectors": entry.vectors, "sparse_vectors": entry.sparse_vectors},
        )
        return edge.Query.Nearest(types.to_vector(leg.query), using=leg.vector or None)

    def _filter(self, where: Plain | None) -> edge.Filter | None:
        both = [one for one in (self._guard, where) if one is not None]
        plain = {"must": both} if both else None
        return types.to_filter(confined(self._entries, plain, others=self._others))

    def _corpus(self, vector: str) -> edge.Filter | None:
        """The points whose document frequencies weigh the words: other texts move no score."""
        declared = self._entries[0].sparse_vectors.get(vector, {})
        return self._weighed or self._live if declared.get("modifier") == "idf" else None
