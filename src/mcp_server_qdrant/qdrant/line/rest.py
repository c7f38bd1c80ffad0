"""Batches of queries, and the look-ups of collections, over REST."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from pydantic_core import from_json, to_json
from qdrant_client import models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mcp_server_qdrant.qdrant.line.http import Http, Response
from mcp_server_qdrant.qdrant.line.points import Answer, Point, apart
from mcp_server_qdrant.qdrant.memo import Memo

T = TypeVar("T")


class RestLine:
    """The line to a server at `uri`, whose requests all carry these headers.

    All calls raise what qdrant-client does, TimeoutError, OSError.
    """

    def __init__(self, uri: str, headers: Mapping[str, str]) -> None:
        self._path = urlsplit(uri).path.rstrip("/")
        self._http = Http(uri, headers)
        self._bytes: Memo[bytes] = Memo()

    async def query_batch(
        self,
        collection: str,
        requests: Sequence[models.QueryRequest],
        timeout: int,
        consistency: Any = None,
    ) -> list[Answer]:
        """The answers to the requests."""
        target = self._target(collection, "/points/query/batch", timeout, consistency)

        def answers(found: Any) -> list[Answer]:
            return [Answer(_points(each)) for _, each in zip(requests, found, strict=True)]

        return await self._result(target, self.body(requests), timeout, answers)

    async def get_collection(self, collection_name: str, timeout: float) -> models.CollectionInfo:
        """The parameters of a collection."""
        target = f"{self._path}/collections/{quote(collection_name, safe='')}"
        return await self._result(target, None, timeout, models.CollectionInfo.model_validate)

    async def count(
        self,
        collection_name: str,
        count_filter: models.Filter | None = None,
        *,
        exact: bool = True,
        timeout: int,
        consistency: Any = None,
    ) -> models.CountResult:
        """The number of points that match."""
        target = self._target(collection_name, "/points/count", timeout, consistency)
        body = _dumped(models.CountRequest(filter=count_filter, exact=exact))
        return await self._result(target, body, timeout, models.CountResult.model_validate)

    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
        *,
        exact: bool = False,
        timeout: int,
        consistency: Any = None,
    ) -> models.FacetResponse:
        """The most frequent values of a payload key."""
        target = self._target(collection_name, "/facet", timeout, consistency)
        asked = models.FacetRequest(key=key, limit=limit, filter=facet_filter, exact=exact)
        answer = models.FacetResponse.model_validate
        return await self._result(target, _dumped(asked), timeout, answer)

    async def _result(
        self, target: str, body: bytes | None, seconds: float, read: Callable[[Any], T]
    ) -> T:
        response = await self._http.ask(target, body, seconds)
        if response.status not in (200, 201, 202):
            raise _refusal(response)
        try:
            return read(from_json(response.content)["result"])
        except (ValueError, LookupError, TypeError) as error:
            raise ResponseHandlingException(error) from error

    def _target(self, collection: str, call: str, timeout: int, consistency: Any) -> str:
        agreeing = getattr(consistency, "value", consistency)
        return _target(self._path, collection, call, timeout, agreeing)

    def body(self, requests: Sequence[models.QueryRequest]) -> bytes:
        """The requests as qdrant-client would write them, without its models' cost for vectors."""
        return b'{"searches":[%s]}' % b",".join([self._json(request) for request in requests])

    def _json(self, request: models.QueryRequest) -> bytes:
        query, others = apart(request)
        match query:
            case list():
                nearest = self._bytes.of((query,), to_json)
            case models.SparseVector():
                nearest = to_json(query.__dict__)
            case models.Document():
                nearest = _dumped(query)
            case _:
                return _dumped(request)
        told = self._bytes.of(others, lambda *_: _dumped(request, exclude={"query"}))
        comma = b"" if told == b"{}" else b","
        return b'{"query":{"nearest":%s}%s%s' % (nearest, comma, told[1:])

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def proxied(uri: str) -> bool:
    """True where the environment names a proxy for this address: the line goes through none."""
    parts, proxies = urlsplit(uri), getproxies()
    return bool(proxies.keys() & {parts.scheme, "all"}) and not proxy_bypass(parts.hostname or "")


@lru_cache(4096)
def _target(
    path: str, collection: str, call: str, timeout: int, consistency: int | str | None
) -> str:
    asked = {"timeout": timeout} | ({} if consistency is None else {"consistency": consistency})
    name = quote(collection, safe="")
    return f"{path}/collections/{name}{call}?{urlencode(asked)}"


def _dumped(model: Any, **options: Any) -> bytes:
    text: str = model.model_dump_json(
        exclude_unset=True, exclude_none=True, by_alias=True, **options
    )
    return text.encode()


def _points(found: Mapping[str, Any]) -> list[Point]:
    return [
        Point(
            raw["id"],
            math.nan if (score := raw["score"]) is None else score,  # JSON knows no nan, no inf
            raw.get("payload"),
            vector and _vectors(vector),
        )
        for raw in found["points"]
        for vector in [raw.get("vector")]
    ]


def _vectors(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    return {
        name: models.SparseVector.model_construct(**vector) if isinstance(vector, dict) else vector
        for name, vector in raw.items()
    }


def _refusal(response: Response) -> Exception:
    """The error that qdrant-client makes of an answer."""
    headers = httpx.Headers(response.headers)
    if response.status == 429 and (wait := headers.get("retry-after")):
        return ResourceExhaustedResponse("", wait)
    return UnexpectedResponse(response.status, response.reason, response.content, headers)
