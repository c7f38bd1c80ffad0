"""The reads of a server over REST, without what qdrant-client's models cost."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import orjson
from qdrant_client import models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.server.connections import Http

T = TypeVar("T")


@dataclass(slots=True)
class Point:
    """A point with the names that qdrant-client's models have; `vector` holds those asked for."""

    id: PointId
    score: float
    payload: Payload | None
    vector: Any


class Answer(NamedTuple):
    """The points of one query, best first."""

    points: list[Point]


class RestLine:
    """The line to a server at `uri`.

    All calls raise what qdrant-client does, OSError and TooLarge. They have no end of their own;
    `timeout` tells the server how many seconds it has.
    """

    def __init__(self, uri: str, api_key: str | None) -> None:
        self._path = urlsplit(uri).path.rstrip("/")
        self._http = Http(uri, {"api-key": api_key} if api_key else {})

    async def query_batch_points(
        self, collection_name: str, requests: Sequence[models.QueryRequest], *, timeout: int
    ) -> list[Answer]:
        """The answers to the requests."""
        target = self._target(collection_name, f"/points/query/batch?timeout={timeout}")

        def answers(found: Any) -> list[Answer]:
            return [
                Answer([_point(raw, raw["score"]) for raw in one["points"]])
                for _, one in zip(requests, found, strict=True)
            ]

        return await self._result(target, {"searches": requests}, answers)

    async def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        limit: int = 10,
        order_by: Any = None,
        offset: PointId | None = None,
        *,
        with_payload: Any = True,
        with_vectors: Any = False,
        timeout: int,
    ) -> tuple[list[Point], PointId | None]:
        """A page of points, and where the next begins."""
        asked = {
            "filter": scroll_filter,
            "limit": limit,
            "order_by": order_by,
            "offset": offset,
            "with_payload": with_payload,
            "with_vector": with_vectors,
        }

        def page(found: Any) -> tuple[list[Point], PointId | None]:
            return [_point(raw) for raw in found["points"]], found.get("next_page_offset")

        target = self._target(collection_name, f"/points/scroll?timeout={timeout}")
        return await self._result(target, asked, page)

    async def retrieve(
        self,
        collection_name: str,
        ids: Sequence[PointId],
        with_payload: Any = True,  # noqa: FBT002  as qdrant-client takes it
        *,
        with_vectors: Any = False,
        timeout: int,
    ) -> list[Point]:
        """Those of the points that there are."""
        asked = {"ids": list(ids), "with_payload": with_payload, "with_vector": with_vectors}

        def points(found: Any) -> list[Point]:
            return [_point(raw) for raw in found]

        target = self._target(collection_name, f"/points?timeout={timeout}")
        return await self._result(target, asked, points)

    async def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """The parameters of a collection."""
        read = models.CollectionInfo.model_validate
        return await self._result(self._target(collection_name), None, read)

    async def count(
        self,
        collection_name: str,
        count_filter: models.Filter | None = None,
        *,
        exact: bool = True,
        timeout: int,
    ) -> models.CountResult:
        """The number of points that match."""
        target = self._target(collection_name, f"/points/count?timeout={timeout}")
        asked = {"filter": count_filter, "exact": exact}
        return await self._result(target, asked, models.CountResult.model_validate)

    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
        *,
        exact: bool = False,
        timeout: int,
    ) -> models.FacetResponse:
        """The most frequent values of a payload key."""
        target = self._target(collection_name, f"/facet?timeout={timeout}")
        asked = {"key": key, "limit": limit, "filter": facet_filter, "exact": exact}
        return await self._result(target, asked, models.FacetResponse.model_validate)

    async def _result(
        self,
        target: str,
        asked: Mapping[str, Any] | None,
        read: Callable[[Any], T],
    ) -> T:
        """What `read` makes of the answer."""
        response = await self._http.ask(target, None if asked is None else dumped(asked))
        if response.status not in (200, 201, 202):
            raise UnexpectedResponse(response.status, "", response.content, httpx.Headers())
        try:
            return read(orjson.loads(response.content)["result"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ResponseHandlingException(error) from error

    def _target(self, collection: str, call: str = "") -> str:
        return f"{self._path}/collections/{quote(collection, safe='')}{call}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def dumped(asked: Mapping[str, Any]) -> bytes:
    """A request as JSON, qdrant-client's models in it without their unset fields.

    Raises RequestError where a caller's filter holds a number that no engine knows.
    """
    try:
        return orjson.dumps({k: v for k, v in asked.items() if v is not None}, default=_fields)
    except TypeError as error:
        raise RequestError(f"Qdrant does not understand this request: {error}.") from error


def _fields(model: Any) -> dict[str, Any]:
    """The fields of a model; `except_` is Qdrant's `except`."""
    return {k.rstrip("_"): v for k, v in model.__dict__.items() if v is not None}


def _point(raw: Mapping[str, Any], score: Any = 0.0) -> Point:
    """A point of an answer. Raises ValueError or the like where it is none."""
    point, payload, vector = raw["id"], raw.get("payload"), raw.get("vector")
    if score is None:
        score = math.nan  # JSON knows no nan, no inf
    fits = (isinstance(point, str | int), isinstance(score, float | int))
    if not all(fits) or not isinstance(payload, dict | None):
        raise ValueError("this is not a point")
    if isinstance(vector, dict):
        vector = {name: _vector(one) for name, one in vector.items()}
    return Point(point, score, payload, vector)


def _vector(raw: Any) -> Any:
    return models.SparseVector(**raw) if isinstance(raw, dict) else raw
