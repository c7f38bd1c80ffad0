"""The reads of a server over REST, without what qdrant-client's models cost.

Over connections that stay open, with answers of a bounded size; docs/server.md compares them with
aiohttp's and httpcore's.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httptools
import httpx
import orjson
from qdrant_client import models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mcp_server_qdrant.core.bounded import TooLarge
from mcp_server_qdrant.core.datatypes import Payload, PointId
from mcp_server_qdrant.core.errors import RequestError

LARGEST = 256_000_000  # bytes of an answer


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


class RestRead(NamedTuple):
    """A read: its path, what `read` makes of its result, and its arguments in their order.

    Each argument by qdrant-client's name, with the name that the server has for it and a default.
    """

    path: str
    read: Callable[[Any], Any]
    arguments: Mapping[str, tuple[str, Any]]


def _answers(found: Any) -> list[Answer]:
    return [Answer([_point(raw, raw["score"]) for raw in one["points"]]) for one in found]


def _page(found: Any) -> tuple[list[Point], PointId | None]:
    return _points(found["points"]), found.get("next_page_offset")


def _points(found: Any) -> list[Point]:
    return [_point(raw) for raw in found]


_SHOWN = {"with_payload": ("with_payload", True), "with_vectors": ("with_vector", False)}
CALLS = {
    "query_batch_points": RestRead("/points/query/batch", _answers, {"requests": ("searches", ())}),
    "scroll": RestRead(
        "/points/scroll",
        _page,
        {
            "scroll_filter": ("filter", None),
            "limit": ("limit", 10),
            "order_by": ("order_by", None),
            "offset": ("offset", None),
            **_SHOWN,
        },
    ),
    "retrieve": RestRead("/points", _points, {"ids": ("ids", ()), **_SHOWN}),
    "count": RestRead(
        "/points/count",
        models.CountResult.model_validate,
        {"count_filter": ("filter", None), "exact": ("exact", True)},
    ),
    "facet": RestRead(
        "/facet",
        models.FacetResponse.model_validate,
        {
            "key": ("key", ""),
            "facet_filter": ("filter", None),
            "limit": ("limit", 10),
            "exact": ("exact", False),
        },
    ),
    "get_collection": RestRead("", models.CollectionInfo.model_validate, {}),
}


class RestLine:
    """The line to a server at `uri`.

    All calls raise what qdrant-client does, OSError and TooLarge. They have no end of their own;
    `timeout` tells the server how many seconds it has.
    """

    def __init__(self, uri: str, api_key: str | None) -> None:
        self._path = urlsplit(uri).path.rstrip("/")
        self._http = Http(uri, {"api-key": api_key} if api_key else {})

    async def ask(
        self, name: str, collection_name: str, *given: Any, timeout: int = 0, **named: Any
    ) -> Any:
        """What qdrant-client's call of that name would answer."""
        call = CALLS[name]
        named |= dict(zip(call.arguments, given, strict=False))
        body = {sent: named.pop(ours, default) for ours, (sent, default) in call.arguments.items()}
        if named:
            raise TypeError(f"{name} is not asked with {', '.join(named)}")
        path = f"{self._path}/collections/{quote(collection_name, safe='')}{call.path}"
        if body:
            path += f"?timeout={timeout}"
        status, content = await self._http.ask(path, dumped(body) if body else None)
        if status not in (200, 201, 202):
            raise UnexpectedResponse(status, "", content, httpx.Headers())
        try:
            return _result(call, body, content)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ResponseHandlingException(error) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _result(call: RestRead, asked: Mapping[str, Any], content: bytes) -> Any:
    """The result in an answer. Raises ValueError or the like where it is none."""
    found = orjson.loads(content)["result"]
    if "searches" in asked and len(found) != len(asked["searches"]):
        raise ValueError("each search has its answer")
    return call.read(found)


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


class Http:
    """The connections to one server, each for one request at a time."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._address = parts.hostname or "", parts.port or (443 if self._secure else 80)
        named = {"host": parts.netloc, "content-type": "application/json", **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self._tls: Any = None
        self._idle: list[_Connection] = []

    async def ask(self, target: str, body: bytes | None) -> tuple[int, bytes]:
        """Status and content of the answer to a POST, or without a body to a GET.

        Raises OSError and TooLarge.
        """
        method = f"POST {target}" if body is not None else f"GET {target}"
        length = f"content-length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} HTTP/1.1\r\n{self._headers}{length}\r\n".encode()
        connection = self._free() or await self._opened()
        try:
            return await connection.send(head + (body or b""))
        finally:
            if connection.ready:  # also where nobody waits for the answer any more as it comes
                self._idle.append(connection)
            else:
                connection.abort()  # nobody must get the answer to this request

    def _free(self) -> "_Connection | None":
        """The connection used last of those that are free."""
        while self._idle:
            if (free := self._idle.pop()).ready:
                return free
        return None

    async def _opened(self) -> "_Connection":
        if self._secure and self._tls is None:
            self._tls = httpx.create_ssl_context()  # whom qdrant-client trusts
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(_Connection, *self._address, ssl=self._tls)
        return made

    def close(self) -> None:
        """Close the connections; one that is in use ends with its request."""
        while (free := self._free()) is not None:
            free.abort()


class _Connection(asyncio.Protocol):
    """A connection; asyncio sends without delay (TCP_NODELAY)."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: Any = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None  # of the request under way

    @property
    def ready(self) -> bool:
        """True where it can take a request."""
        return self._answer is None and not self._transport.is_closing()

    def abort(self) -> None:
        """End it at once, whatever is still to be sent."""
        self._transport.abort()

    def send(self, request: bytes) -> "asyncio.Future[tuple[int, bytes]]":
        """Send a request in one piece; its answer is to come."""
        self._answer = asyncio.get_running_loop().create_future()
        self._taken, self._content = 0, list[bytes]()
        self._transport.write(request)
        return self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the next piece of an answer."""
        if self._answer is None:
            self.abort()  # nobody asked for it
            return
        self._taken += len(data)
        if self._taken > LARGEST:
            self._fail(TooLarge())
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request that is under way."""
        self._fail(exc or ConnectionError("The connection was closed."))

    def on_body(self, body: bytes) -> None:
        """Take the next piece of the content."""
        self._content.append(body)

    def on_message_complete(self) -> None:
        """The answer is complete."""
        if not self._parser.should_keep_alive():
            self._transport.close()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result((self._parser.get_status_code(), b"".join(self._content)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.abort()
