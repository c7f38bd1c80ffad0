"""Batches of queries over REST."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from pydantic_core import from_json, to_json
from qdrant_client import models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mcp_server_qdrant.qdrant.line.http import Http, Response
from mcp_server_qdrant.qdrant.line.points import Answer, Point
from mcp_server_qdrant.qdrant.memo import Memo


class RestLine:
    """The line to a server at `uri`, whose requests all carry these headers."""

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
        """The answers to the requests. Raises what qdrant-client would, TimeoutError, OSError."""
        asked = {"timeout": timeout}
        if consistency is not None:
            asked["consistency"] = getattr(consistency, "value", consistency)
        path = f"{self._path}/collections/{quote(collection, safe='')}/points/query/batch"
        async with asyncio.timeout(timeout):
            response = await self._http.post(f"{path}?{urlencode(asked)}", self.body(requests))
        if response.status not in (200, 201, 202):
            raise _refusal(response)
        try:
            found = from_json(response.content)["result"]
            pairs = zip(requests, found, strict=True)
            return [Answer([_point(raw) for raw in each["points"]]) for _, each in pairs]
        except (ValueError, LookupError, TypeError) as error:
            raise ResponseHandlingException(error) from error

    def body(self, requests: Sequence[models.QueryRequest]) -> bytes:
        """The requests as qdrant-client would write them; all ask for the nearest, or for none."""
        return b'{"searches":[%s]}' % b",".join(
            self._bytes.of((request,), self._json) for request in requests
        )

    def _json(self, request: models.QueryRequest) -> bytes:
        vector = request.query
        if vector is None:
            return _dumped(request)
        nearest = (
            self._bytes.of((vector,), to_json) if isinstance(vector, list) else _dumped(vector)
        )
        others = _dumped(request, exclude={"query"})[1:]
        comma = b"" if others == b"}" else b","
        return b'{"query":{"nearest":%s}%s%s' % (nearest, comma, others)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def proxied(uri: str) -> bool:
    """True where the environment names a proxy for this address: the line goes through none."""
    parts, proxies = urlsplit(uri), getproxies()
    return bool(proxies.keys() & {parts.scheme, "all"}) and not proxy_bypass(parts.hostname or "")


def _dumped(model: Any, **options: Any) -> bytes:
    text: str = model.model_dump_json(exclude_unset=True, exclude_none=True, **options)
    return text.encode()


def _point(raw: Mapping[str, Any]) -> Point:
    vectors = raw.get("vector")
    if isinstance(vectors, dict):
        vectors = {
            name: models.SparseVector.model_construct(**vector)
            if isinstance(vector, dict)
            else vector
            for name, vector in vectors.items()
        }
    return Point(raw["id"], raw["score"], raw.get("payload"), vectors)


def _refusal(response: Response) -> Exception:
    """The error that qdrant-client makes of an answer."""
    if response.status == 429 and (wait := response.headers.get("retry-after")):
        return ResourceExhaustedResponse("", wait)  # type: ignore[arg-type]
    return UnexpectedResponse(
        response.status, response.reason, response.content, httpx.Headers(response.headers)
    )
