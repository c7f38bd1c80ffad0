"""The reads of the embedded engine, with the arguments and results of qdrant-client."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import plain_id
from mcp_server_qdrant.qdrant.edge.collection import KEY, Entry, own_id, stored_id
from mcp_server_qdrant.qdrant.edge.embedded import Calls, in_turn
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.edge.question import Question
from mcp_server_qdrant.qdrant.edge.space import all_indexes, page, readable
from mcp_server_qdrant.qdrant.edge.store import Collection
from mcp_server_qdrant.qdrant.engine import Ask, Candidates, Corpus, Point, Shown
from mcp_server_qdrant.qdrant.legs import Described


class Reads(Calls):
    """The reads of one store."""

    @in_turn()
    async def get_collections(self, **_: Any) -> models.CollectionsResponse:
        """All names."""
        names = self._store.names()
        return models.CollectionsResponse(
            collections=[models.CollectionDescription(name=name) for name in names]
        )

    @in_turn()
    async def collection_exists(self, collection_name: str, **_: Any) -> bool:
        """True if there is such a collection."""
        return collection_name in self._store.names()

    @in_turn()
    async def get_collection(self, collection_name: str, **_: Any) -> models.CollectionInfo:
        """Parameters, metadata, the collection's own payload indexes, the exact point count."""
        found = self._store.get(collection_name)
        entry, engine = found.entry, found.space.engine
        points, damage = found.count(), found.damage()
        there = {field: types.index_type(one) for field, one in all_indexes(engine).items()}
        vectors: Any = entry.vectors
        info: Any = Described  # only some of a server's fields apply
        config: Any = models.CollectionConfig
        described: models.CollectionInfo = info.model_construct(
            status=models.CollectionStatus.RED if damage else models.CollectionStatus.GREEN,
            warnings=[models.CollectionWarning(message=damage)] if damage else None,
            space=entry.space,
            points_count=points,
            segments_count=engine.info().segments_count,
            payload_schema={
                field: models.PayloadIndexInfo(
                    data_type=there[field],
                    points=points,
                    params=declared if isinstance(declared, dict) else None,
                )
                for field, declared in entry.indexes.items()
                if there.get(field) == types.declared_type(declared)
            },
            config=config.model_construct(
                params=models.CollectionParams(
                    vectors=vectors[""] if list(vectors) == [""] else vectors,
                    sparse_vectors=entry.sparse_vectors or None,
                ),
                metadata=deepcopy(entry.metadata),
            ),
        )
        return described

    @in_turn()
    async def retrieve(
        self,
        collection_name: str,
        ids: Sequence[PointId],
        *,
        with_payload: Shown = True,
        with_vectors: Shown = False,
        **_: Any,
    ) -> list[Point]:
        """The points that exist, in the order of the ids."""
        found = self._store.get(collection_name)
        stored = [stored_id(found.entry, plain_id(point)) for point in ids]
        payload, vector = plain(with_payload), plain(with_vectors)
        records = readable(found.space.engine, stored, payload=payload, vector=vector)
        return _points(found.entry, records)

    @in_turn()
    async def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        *,
        limit: int = 10,
        order_by: models.OrderBy | None = None,
        offset: PointId | None = None,
        with_payload: Shown = True,
        with_vectors: Shown = False,
        **_: Any,
    ) -> tuple[list[Point], PointId | None]:
        """A page and the offset of the next one; no offset for an ordered scroll."""
        found = self._store.get(collection_name)
        if order_by is not None:
            _check_indexed(found, order_by.key)
        records, following = page(
            found.space.engine,
            payload=plain(with_payload),
            vector=plain(with_vectors),
            limit=limit,
            offset=None if offset is None else stored_id(found.entry, plain_id(offset)),
            filter=found.where(plain(scroll_filter)),
            order_by=None if order_by is None else types.to_order(plain(order_by)),
        )
        last = order_by is not None or following is None
        return _points(found.entry, records), None if last else own_id(found.entry, following.int)

    @in_turn()
    async def count(
        self, collection_name: str, count_filter: models.Filter | None = None, **_: Any
    ) -> models.CountResult:
        """The exact number of matching points; estimates count points twice after a crash."""
        found = self._store.get(collection_name)
        return models.CountResult(count=found.count(plain(count_filter)))

    @in_turn()
    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
        **_: Any,
    ) -> models.FacetResponse:
        """The most frequent values of an indexed field, with exact counts."""
        found = self._store.get(collection_name)
        _check_indexed(found, key)
        where = found.where(plain(facet_filter))
        request = edge.FacetRequest(key, limit=limit, exact=True, filter=where)
        hits = found.space.engine.facet(request).hits
        return models.FacetResponse(
            hits=[models.FacetValueHit(value=plain_id(hit.value), count=hit.count) for hit in hits]
        )

    # Questions of a search

    @in_turn()
    async def candidates(self, ask: Ask) -> Candidates:
        """The best points of these collections by RRF, with their exact scores."""
        scopes, failed = self._store.scopes(ask.collections)
        corpus = () if ask.corpus == ask.collections else ask.corpus
        corpora = {one.space: one for one in self._store.scopes(corpus)[0]}
        answer = Candidates([], {}, {**failed})
        for scope in scopes:
            question = Question(scope, ask.guard, corpora.get(scope.space))
            answer.points += question.candidates(ask)
            answer.damage |= scope.damage(numbers=ask.guard is None)
            await self._engine.pause()
        if len(scopes) > 1:
            answer.points.sort(key=lambda one: (-one.rrf, str(one.id)))
            del answer.points[ask.limit :]
        return answer

    @in_turn()
    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        """The engine's own IDF of terms over these collections of one space."""
        found: dict[int, float] = {}
        for scope in self._store.scopes(corpus.collections)[0]:
            question = Question(scope, corpus.guard)
            for term in corpus.terms:
                if idf := question.idf(corpus.vector, term):
                    found[term] = idf
                await self._engine.pause()
        return found


def _check_indexed(found: Collection, field: str) -> None:
    """Raise RequestError if the collection has no index for this field; its space may have one."""
    if field not in found.entry.indexes:
        raise RequestError(f"The collection {found.name!r} has no payload index for this.")


def _points(entry: Entry, records: Iterable[Any]) -> list[Point]:
    """The points of results with their own ids and payloads."""
    points: list[Point] = []
    for record in records:
        payload, vector = record.payload, from_vectors(record.vector)
        if payload is not None:
            payload.pop(KEY, None)
        points.append(Point(own_id(entry, record.id.int), 0.0, payload, vector))
    return points


def from_vectors(vector: Any) -> Any:
    """Vectors of a result in qdrant-client's form."""
    if isinstance(vector, dict):
        return {name: from_vectors(value) for name, value in vector.items()}
    if isinstance(vector, edge.SparseVector):
        return models.SparseVector(indices=vector.indices, values=vector.values)
    return vector
