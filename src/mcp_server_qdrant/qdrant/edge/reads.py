"""The reads of the engine, on plain data.

Each public method is an operation that clients can call. It takes and returns plain data; an
operation that a server has too uses the shapes of its REST interface.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import plain_id
from mcp_server_qdrant.qdrant.edge.collection import KEY, Entry, own_id, stored_id
from mcp_server_qdrant.qdrant.edge.question import Question
from mcp_server_qdrant.qdrant.edge.space import all_indexes, page, readable
from mcp_server_qdrant.qdrant.edge.store import Collection, Store
from mcp_server_qdrant.qdrant.engine import Answer, Ask, Corpus

Body = Mapping[str, Any]  # of a request or a result, as a server's REST interface has it


class Reads:
    """The reads of one store. `pause` lets other calls run between two spaces of a search."""

    def __init__(self, store: Store, pause: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._pause = pause

    async def collections(self) -> list[str]:
        """All names."""
        return self._store.names()

    async def info(self, name: str) -> dict[str, Any]:
        """The description, the exact point count, the segment count and the payload indexes."""
        found = self._store.get(name)
        entry, engine = found.entry, found.space.engine
        there = {field: types.index_type(one) for field, one in all_indexes(engine).items()}
        points = found.count()
        return {
            "name": name,
            "space": entry.space,
            "vectors": entry.vectors,
            "sparse_vectors": entry.sparse_vectors,
            "metadata": deepcopy(entry.metadata),
            "created_at": entry.created_at,
            "segments_count": engine.info().segments_count,
            "payload_schema": {
                field: {
                    "data_type": there[field],
                    "points": points,
                    "params": declared if isinstance(declared, dict) else None,
                }
                for field, declared in entry.indexes.items()
                if there.get(field) == types.declared_type(declared)
            },
            "points_count": points,
            "damage": found.damage(),
        }

    async def retrieve(self, name: str, asked: Body) -> list[Body]:
        """The points that exist, in the order of the ids."""
        found = self._store.get(name)
        ids = [stored_id(found.entry, point) for point in asked["ids"]]
        shown = {"payload": asked["with_payload"], "vector": asked["with_vector"]}
        return _points(found.entry, readable(found.space.engine, ids, **shown))

    async def scroll(self, name: str, asked: Body) -> Body:
        """A page and the offset of the next one; no offset for an ordered scroll."""
        found = self._store.get(name)
        order, offset = asked.get("order_by"), asked.get("offset")
        if order is not None:
            _check_indexed(found, order["key"])
        records, following = page(
            found.space.engine,
            payload=asked["with_payload"],
            vector=asked["with_vector"],
            limit=asked["limit"],
            offset=None if offset is None else stored_id(found.entry, offset),
            filter=found.where(asked.get("filter")),
            order_by=None if order is None else types.to_order(order),
        )
        going_on = None if order or following is None else own_id(found.entry, following.int)
        return {"points": _points(found.entry, records), "next_page_offset": going_on}

    async def count(self, name: str, asked: Body) -> Body:
        """The exact number of matching points; estimates count points twice after a crash."""
        return {"count": self._store.get(name).count(asked.get("filter"))}

    async def facet(self, name: str, asked: Body) -> Body:
        """The most frequent values of an indexed field."""
        found = self._store.get(name)
        _check_indexed(found, asked["key"])
        where = found.where(asked.get("filter"))
        request = edge.FacetRequest(asked["key"], limit=asked["limit"], exact=True, filter=where)
        hits = found.space.engine.facet(request).hits
        return {"hits": [{"value": plain_id(hit.value), "count": hit.count} for hit in hits]}

    # Questions of a search

    async def candidates(self, ask: Ask) -> Answer:
        """The best points of these collections by RRF, with their exact scores."""
        scopes, failed = self._store.scopes(ask.collections)
        corpus = () if ask.corpus == ask.collections else ask.corpus
        corpora = {one.space: one for one in self._store.scopes(corpus)[0]}
        answer = Answer([], {}, {**failed})
        for scope in scopes:
            question = Question(scope, ask.guard, corpora.get(scope.space))
            answer.points += question.candidates(ask)
            answer.damage |= scope.damage(numbers=ask.guard is None)
            await self._pause()
        if len(scopes) > 1:
            answer.points.sort(key=lambda one: (-one.rrf, str(one.id)))
            del answer.points[ask.limit :]
        return answer

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """The engine's own IDF of terms over these collections of one space."""
        found: dict[int, float] = {}
        for scope in self._store.scopes(corpus.collections)[0]:
            question = Question(scope, corpus.guard)
            for term in corpus.terms:
                if idf := question.idf(corpus.vector, term):
                    found[term] = idf
                await self._pause()
        return found


def _check_indexed(found: Collection, field: str) -> None:
    """Raise RequestError if the collection has no index for this field; its space may have one."""
    if field not in found.entry.indexes:
        raise RequestError(f"The collection {found.name!r} has no payload index for this.")


def _points(entry: Entry, records: Iterable[Any]) -> list[Body]:
    """The points of results with their own ids and payloads."""
    points: list[Body] = []
    for record in records:
        payload, vector = record.payload, types.from_vectors(record.vector)
        if payload is not None:
            payload.pop(KEY, None)
        points.append({"id": own_id(entry, record.id.int), "payload": payload, "vector": vector})
    return points
