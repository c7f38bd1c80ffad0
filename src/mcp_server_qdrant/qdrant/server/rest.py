"""Reads from a server over REST, without the cost of qdrant-client's models.

It keeps connections open and bounds the size of responses; docs/server.md compares its speed with
aiohttp and httpcore.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httptools
import httpx
import orjson
from qdrant_client import models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mcp_server_qdrant.core.bounded import Reading, TooLarge
from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.engine import Point

LARGEST = 256_000_000  # bytes of a response
CONNECTIONS = 100  # in parallel; a process may be limited to 256 open files


class QueryPoints(NamedTuple):
    """The points of one query, best first."""

    points: list[Point]


class PlainRead(NamedTuple):
    """A read: its URL path, the parser of its result, and its arguments in order.

    Arguments map qdrant-client's name to the server's name and a default.
    """

    path: str
    parse: Callable[[Any], Any]
    arguments: Mapping[str, tuple[str, Any]]

    def body(self, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The request body for a call with these arguments."""
        known = {**dict(zip(self.arguments, given, strict=False)), **named}
        body = {sent: known.pop(ours, default) for ours, (sent, default) in self.arguments.items()}
        if known:
            raise TypeError(f"There is no argument {', '.join(known)}")
        return body


def _queries(found: Any) -> list[QueryPoints]:
    return [QueryPoints([_point(raw, raw["score"]) for raw in one["points"]]) for one in found]


def _page(found: Any) -> tuple[list[Point], PointId | None]:
    return _points(found["points"]), found.get("next_page_offset")


def _points(found: Any) -> list[Point]:
    return [_point(raw) for raw in found]


_SHOWN = {"with_payload": ("with_payload", True), "with_vectors": ("with_vector", False)}
CALLS = {
    "query_batch_points": PlainRead(
        "/points/query/batch", _queries, {"requests": ("searches", ())}
    ),
    "scroll": PlainRead(
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
    "retrieve": PlainRead("/points", _points, {"ids": ("ids", ()), **_SHOWN}),
    "count": PlainRead(
        "/points/count",
        models.CountResult.model_validate,
        {"count_filter": ("filter", None), "exact": ("exact", True)},
    ),
    "facet": PlainRead(
        "/facet",
        models.FacetResponse.model_validate,
        {
            "key": ("key", ""),
            "facet_filter": ("filter", None),
            "limit": ("limit", 10),
            "exact": ("exact", False),
        },
    ),
    "get_collection": PlainRead("", models.CollectionInfo.model_validate, {}),
}


def _point(raw: Mapping[str, Any], score: Any = 0.0) -> Point:
    """Parse a point. Raises ValueError or the like if it is invalid."""
    point, payload, vector = raw["id"], raw.get("payload"), raw.get("vector")
    score = math.nan if score is None else score  # JSON has no NaN and no infinity
    fits = (isinstance(point, str | int), isinstance(score, float | int))
    if not all(fits) or not isinstance(payload, dict | None):
        raise ValueError("this is not a point")
    if isinstance(vector, dict):
        vector = {
            name: models.SparseVector(**one) if isinstance(one, dict) else one
            for name, one in vector.items()
        }
    return Point(point, score, payload, vector)


class RestClient:
    """The read calls of the server at `uri`.

    They raise the errors of qdrant-client, OSError and TooLarge. They have no timeout of their
    own; `timeout` is passed to the server, in seconds.
    """

    def __init__(self, uri: str, api_key: str | None) -> None:
        self._path = urlsplit(uri).path.rstrip("/")
        self._http = Http(uri, {"api-key": api_key} if api_key else {})

    async def call(
        self, name: str, collection_name: str, *given: Any, timeout: int = 0, **named: Any
    ) -> Any:
        """The result of qdrant-client's method of that name."""
        call = CALLS[name]
        body = call.body(given, named)
        path = f"{self._path}/collections/{quote(collection_name, safe='')}{call.path}"
        if body:
            path += f"?timeout={timeout}"
        status, content = await self._http.request(path, encode(body) if body else None)
        if status not in (200, 201, 202):
            raise UnexpectedResponse(status, "", content, httpx.Headers())
        try:
            result = orjson.loads(content)["result"]
            if "searches" in body and len(result) != len(body["searches"]):
                raise ResponseHandlingException(ValueError("a search without a result"))
            return call.parse(result)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ResponseHandlingException(error) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def encode(asked: Mapping[str, Any]) -> bytes:
    """A request as JSON; qdrant-client's models are written without unset fields.

    Raises RequestError if a caller's filter has a number that JSON cannot encode.
    """
    try:
        return orjson.dumps({k: v for k, v in asked.items() if v is not None}, default=_fields)
    except TypeError as error:
        raise RequestError(f"Qdrant does not understand this request: {error}.") from error


def _fields(model: Any) -> dict[str, Any]:
    """The fields of a model; `except_` is Qdrant's `except`."""
    return {k.rstrip("_"): v for k, v in model.__dict__.items() if v is not None}


class Http:
    """A connection pool to one server, with one request at a time per connection."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._address = parts.hostname or "", parts.port or (443 if self._secure else 80)
        named = {"host": parts.netloc, "content-type": "application/json", **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self._tls: Any = None
        self._gate = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[_Connection] = []

    async def request(self, target: str, body: bytes | None) -> tuple[int, bytes]:
        """POST the body, or GET without one; returns the status and the content.

        Raises OSError and TooLarge.
        """
        method = f"POST {target}" if body is not None else f"GET {target}"
        length = f"content-length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} HTTP/1.1\r\n{self._headers}{length}\r\n".encode()
        async with self._gate:
            connection = self._idle_connection() or await self._connect()
            try:
                return await connection.send(head + (body or b""))
            finally:
                connection.reading.end()
                if connection.ready:  # even if the caller has been cancelled
                    self._idle.append(connection)
                else:
                    connection.abort()  # its response must not reach another request

    def _idle_connection(self) -> "_Connection | None":
        """The most recently used idle connection, if any."""
        while self._idle:
            if (free := self._idle.pop()).ready:
                return free
        return None

    async def _connect(self) -> "_Connection":
        if self._secure and self._tls is None:
            self._tls = httpx.create_ssl_context()  # the same CAs as qdrant-client
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(_Connection, *self._address, ssl=self._tls)
        return made

    def close(self) -> None:
        """Close the connections; a busy one is closed after its request."""
        while (free := self._idle_connection()) is not None:
            free.abort()


class _Connection(asyncio.Protocol):
    """A connection; asyncio sets TCP_NODELAY."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: Any = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None  # for the pending request
        self.reading = Reading(LARGEST)

    @property
    def ready(self) -> bool:
        """True if it can take a request."""
        return self._answer is None and not self._transport.is_closing()

    def abort(self) -> None:
        """Close it at once, dropping unsent data."""
        self._transport.abort()

    def send(self, request: bytes) -> "asyncio.Future[tuple[int, bytes]]":
        """Send a request in one piece; returns a future of the response."""
        self._answer = asyncio.get_running_loop().create_future()
        self._content = list[bytes]()
        self._transport.write(request)
        return self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the next piece of a response."""
        if self._answer is None:
            self.abort()  # unsolicited data
            return
        try:
            self.reading.add(len(data))
            self._parser.feed_data(data)
        except TooLarge as error:
            self._fail(error)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request."""
        self._fail(exc or ConnectionError("The connection was closed."))

    def on_body(self, body: bytes) -> None:
        """Take the next piece of the body."""
        self._content.append(body)

    def on_message_complete(self) -> None:
        """Resolve the pending request."""
        if not self._parser.should_keep_alive():
            self._transport.close()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result((self._parser.get_status_code(), b"".join(self._content)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.abort()
