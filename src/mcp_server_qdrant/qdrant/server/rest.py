"""The reads of a server over REST, without what qdrant-client's models cost.

An answer that is not what was asked for is an error, whatever a server sends.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import orjson
from pydantic_core import to_json
from qdrant_client import models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mcp_server_qdrant.core.bounded import MODELS, PARSED, weigh
from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.qdrant.memo import Memo
from mcp_server_qdrant.qdrant.server.connections import Http, Proxied, Response

T = TypeVar("T")
USUAL_LIMIT = 10  # points, where a request names none
_GREATEST = 2**64  # a number as an id is less
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


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
    """The line to a server at `uri`, whose requests all carry these headers.

    All calls raise what qdrant-client does, OSError and TooLarge. They have no end of their own;
    `timeout` tells the server how many seconds it has.
    """

    def __init__(self, uri: str, headers: Mapping[str, str]) -> None:
        self._path = urlsplit(uri).path.rstrip("/")
        self._http = (Proxied if _has_proxy(uri) else Http)(uri, headers)
        self._bytes: Memo[bytes] = Memo()

    async def query_batch_points(
        self,
        collection: str,
        requests: Sequence[models.QueryRequest],
        timeout: int,
    ) -> list[Answer]:
        """The answers to the requests."""
        target = _target(self._path, collection, "/points/query/batch", timeout)

        def answers(found: Any) -> list[Answer]:
            return [
                Answer(_points(one["points"], request.limit or USUAL_LIMIT))
                for request, one in zip(requests, found, strict=True)
            ]

        return await self._result(target, self.body(requests), answers, PARSED)

    async def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        limit: int = USUAL_LIMIT,
        order_by: Any = None,
        offset: PointId | None = None,
        *,
        with_payload: Any = True,
        with_vectors: Any = False,
        timeout: int,
    ) -> tuple[list[Point], PointId | None]:
        """A page of points, and where the next begins."""
        target = _target(self._path, collection_name, "/points/scroll", timeout)
        asked = models.ScrollRequest(
            filter=scroll_filter,
            limit=limit,
            order_by=order_by,
            offset=offset,
            with_payload=with_payload,
            with_vector=with_vectors,
        )

        def page(found: Any) -> tuple[list[Point], PointId | None]:
            points, following = found["points"], found.get("next_page_offset")
            offset = None if following is None else _id(following)
            return _points(points, limit, scored=False), offset

        return await self._result(target, _dumped(asked), page, PARSED)

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
        target = _target(self._path, collection_name, "/points", timeout)
        asked = models.PointRequest(
            ids=list(ids), with_payload=with_payload, with_vector=with_vectors
        )
        points = partial(_points, most=len(ids), scored=False)
        return await self._result(target, _dumped(asked), points, PARSED)

    async def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """The parameters of a collection."""
        target = f"{self._path}/collections/{quote(collection_name, safe='')}"
        return await self._result(target, None, _info)

    async def count(
        self,
        collection_name: str,
        count_filter: models.Filter | None = None,
        *,
        exact: bool = True,
        timeout: int,
    ) -> models.CountResult:
        """The number of points that match."""
        target = _target(self._path, collection_name, "/points/count", timeout)
        body = _dumped(models.CountRequest(filter=count_filter, exact=exact))
        return await self._result(target, body, _count)

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
        target = _target(self._path, collection_name, "/facet", timeout)
        asked = models.FacetRequest(key=key, limit=limit, filter=facet_filter, exact=exact)
        answer = models.FacetResponse.model_validate
        return await self._result(target, _dumped(asked), answer)

    async def _result(
        self,
        target: str,
        body: bytes | None,
        read: Callable[[Any], T],
        costs: Mapping[bytes, int] = MODELS,
    ) -> T:
        response = await self._http.ask(target, body)
        weigh([response.content], costs)
        if response.status not in (200, 201, 202):
            raise _refusal(response)
        try:
            return read(orjson.loads(response.content)["result"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ResponseHandlingException(error) from error

    def body(self, requests: Sequence[models.QueryRequest]) -> bytes:
        """The requests as qdrant-client would write them, without its models' cost for vectors."""
        return b'{"searches":[%s]}' % b",".join([self._json(request) for request in requests])

    def _json(self, request: models.QueryRequest | models.Prefetch) -> bytes:
        parts = dict(request.__dict__)  # all fields, in their order
        query, legs, others = parts.pop("query"), parts.pop("prefetch"), tuple(parts.values())
        told = self._bytes.of(others, lambda *_: _dumped(request, exclude={"query", "prefetch"}))
        fields = [told[1:-1]] if told != b"{}" else []
        if query is not None:
            fields.append(b'"query":%s' % self._query(query))
        if legs:
            fields.append(b'"prefetch":[%s]' % b",".join(map(self._json, legs)))
        return b"{%s}" % b",".join(fields)

    def _query(self, query: Any) -> bytes:
        match query:
            case list():
                return b'{"nearest":%s}' % self._bytes.of((query,), to_json)
            case models.SparseVector():
                return b'{"nearest":%s}' % to_json(query.__dict__)
            case models.Document():
                return b'{"nearest":%s}' % _dumped(query)
        return _dumped(query)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def _has_proxy(uri: str) -> bool:
    """True where the environment names a proxy for this address."""
    parts, proxies = urlsplit(uri), getproxies()
    return bool(proxies.keys() & {parts.scheme, "all"}) and not proxy_bypass(parts.hostname or "")


@lru_cache(4096)
def _target(path: str, collection: str, call: str, timeout: int) -> str:
    return f"{path}/collections/{quote(collection, safe='')}{call}?timeout={timeout}"


def _dumped(model: Any, **options: Any) -> bytes:
    text: str = model.model_dump_json(
        exclude_unset=True, exclude_none=True, by_alias=True, **options
    )
    return text.encode()


def _points(found: Any, most: int, *, scored: bool = True) -> list[Point]:
    """The points of an answer. Raises ValueError or the like where they are none."""
    if not isinstance(found, list) or len(found) > most:
        raise ValueError("these are not the points that were asked for")
    return [_point(raw, raw["score"] if scored else 0.0) for raw in found]


def _point(raw: Mapping[str, Any], score: Any) -> Point:
    if score is None:
        score = math.nan  # JSON knows no nan, no inf
    elif type(score) is not float and type(score) is not int:
        raise TypeError("a score is no number")
    payload, vector = raw.get("payload"), raw.get("vector")
    if payload is not None and type(payload) is not dict:
        raise TypeError("a payload is no object")
    return Point(_id(raw["id"]), score, payload, None if vector is None else _vectors(vector))


def _id(raw: Any) -> PointId:
    sound = 0 <= raw < _GREATEST if type(raw) is int else _UUID.fullmatch(raw)
    if not sound:
        raise ValueError("an id is neither a number nor a UUID")
    known: PointId = raw
    return known


def _vectors(raw: Any) -> Any:
    return {name: _vector(one) for name, one in raw.items()} if type(raw) is dict else _vector(raw)


def _vector(raw: Any) -> Any:
    """A vector of numbers, or several, or a sparse one."""
    if isinstance(raw, dict):
        sparse = models.SparseVector.model_validate(raw)
        if len(sparse.indices) != len(sparse.values):
            raise ValueError("a vector has not as many values as indices")
        return sparse
    for row in raw if raw and isinstance(raw[0], list) else [raw]:
        if not isinstance(row, list) or not all(map(math.isfinite, row)):
            raise ValueError("a vector does not consist of numbers")
    return raw


def _info(found: Any) -> models.CollectionInfo:
    info = models.CollectionInfo.model_validate(found)
    if (info.points_count or 0) < 0:
        raise ValueError("a number of points is negative")
    return info


def _count(found: Any) -> models.CountResult:
    counted = models.CountResult.model_validate(found)
    if counted.count < 0:
        raise ValueError("a number of points is negative")
    return counted


def _refusal(response: Response) -> Exception:
    """The error that qdrant-client makes of an answer."""
    headers = httpx.Headers(response.headers)
    if response.status == 429 and (wait := headers.get("retry-after")):
        return ResourceExhaustedResponse("", wait)
    return UnexpectedResponse(response.status, "", response.content, headers)
