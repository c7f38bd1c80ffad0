"""Translates qdrant-client's errors to ours; the only place that does."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from shlex import quote
from typing import Any

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from mcp_server_qdrant.core.bounded import TooLarge
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    KeyRefused,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
    unsure,
)

MAX_REASON = 200
UNREACHABLE = "Qdrant cannot be reached; check its address (QDRANT_URL) and that it is running."
UNREADABLE = "Qdrant's answer could not be read; is QDRANT_URL really a Qdrant server?"
FORBIDDEN = "Qdrant refused access: check QDRANT_API_KEY and its permissions."
OVERLOADED = "Qdrant is overloaded or starting; try again shortly."
NO_POINT = "No point with id"  # in Qdrant's refusal
LATE = "Qdrant did not answer in time; try again in a moment."
TOO_LARGE = "Qdrant's response is too large to read."
# Errors of a server and its transport; then those of local mode and of qdrant-client's models.
FOREIGN = (ApiException, QdrantException, OSError)
_LOCAL = (TooLarge, ValueError, KeyError, RecursionError, AssertionError)
_WRITES = frozenset({"upsert", "update_vectors", "delete", "set_payload", "delete_payload"})
_UNSURE = (408, 500, 502, 504)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, ConnectionRefusedError)

_NO_INDEX = re.compile(r"Index required but not found for \W*([^\s\"]+)\W* of .*?\[(\w+)")
_STATUS: dict[int, tuple[type[QdrantMcpError], str]] = {
    401: (KeyRefused, FORBIDDEN),
    403: (AccessRefused, FORBIDDEN),
    408: (EngineTimeout, LATE),
    429: (EngineUnavailable, OVERLOADED),
    502: (EngineUnavailable, OVERLOADED),
    503: (EngineUnavailable, OVERLOADED),
    504: (EngineTimeout, LATE),
    507: (EngineFailure, "Qdrant is out of disk space or memory."),
}


@contextmanager
def foreign_errors(collection: str | None = None, *, writing: bool = False) -> Iterator[None]:
    """Turn errors of qdrant-client, its transports and its local mode into ours.

    The error of a write says if the write may have happened.
    """
    try:
        yield
    except QdrantMcpError:
        raise
    except (*FOREIGN, *_LOCAL) as error:
        if isinstance(error, AssertionError) and "returned None" not in str(error):
            raise  # not raised by qdrant-client's check of a response
        ours = translate_error(error, collection)
        raise (unsure(ours) if writing and may_have_happened(error) else ours) from error


def translate_error(error: Exception, collection: str | None = None) -> QdrantMcpError:
    """Translate an error of qdrant-client, raised by a call for that collection."""
    match cause_of(error):
        case UnexpectedResponse() as answer:
            return _response_error(answer, collection)
        case ResourceExhaustedResponse():
            return EngineUnavailable(OVERLOADED)
        case TooLarge():
            return EngineFailure(TOO_LARGE)
        case httpx.TimeoutException() | TimeoutError():
            return EngineTimeout(LATE)
        case httpx.HTTPError() | OSError():
            return EngineUnavailable(UNREACHABLE)
    unreadable = ResponseHandlingException, json.JSONDecodeError, RecursionError, AssertionError
    if isinstance(error, unreadable):
        return EngineFailure(UNREADABLE)
    if collection is not None and "not found" in str(error) and collection in str(error):
        return UnknownCollection(collection)
    return EngineFailure(f"Qdrant could not do this: {_clean(str(error))}")


class TranslatedClient(AsyncQdrantClient):
    """qdrant-client's client, with all errors translated to ours."""

    async def _send(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method of that name."""
        return await getattr(AsyncQdrantClient, name)(self, *args, **kwargs)

    async def create_payload_indexes(self, collection: str, schemas: Mapping[str, Any]) -> None:
        """Index payload fields one by one: a server accepts one field per call."""
        for field, schema in schemas.items():
            await self.create_payload_index(collection, field, schema)


def _translating(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    of_collection = "collection_name" in inspect.signature(inner).parameters

    @wraps(inner)
    async def call(self: TranslatedClient, *args: Any, **kwargs: Any) -> Any:
        collection = args[0] if args else kwargs.get("collection_name")
        with foreign_errors(collection if of_collection else None, writing=name in _WRITES):
            return await self._send(name, *args, **kwargs)

    return call


for _name, _inner in inspect.getmembers(AsyncQdrantClient, inspect.iscoroutinefunction):
    if not _name.startswith("_") and _name != "close":
        setattr(TranslatedClient, _name, _translating(_name, _inner))


def may_have_happened(error: Exception) -> bool:
    """True if the write may have happened despite the error."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code in _UNSURE
    on_the_way = isinstance(error, ResponseHandlingException | OSError)
    return on_the_way and not isinstance(cause_of(error), _UNSENT)


def cause_of(error: Exception) -> Exception:
    """The transport's error."""
    return error.source if isinstance(error, ResponseHandlingException) else error


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status of the server's response, if any."""
    return error.status_code if isinstance(error, UnexpectedResponse) else None


def _response_error(error: UnexpectedResponse, collection: str | None) -> QdrantMcpError:
    status, reason = error.status_code, _reason(error)
    if missing := _NO_INDEX.search(reason):
        name, index = quote(collection or "COLLECTION"), quote(f"{missing[1]}:{missing[2]}")
        return RequestError(
            f"Qdrant is in strict mode and has no index of {missing[1]}: run mcp-server-qdrant "
            f"upgrade {name} --index {index}"
        )
    if status in (400, 409, 422) or (status == 404 and NO_POINT in reason):
        return RequestError(f"Qdrant refused the request{reason}")
    if status == 404 and collection is not None:
        return UnknownCollection(collection)
    if status in _STATUS:
        kind, text = _STATUS[status]
        return kind(text)
    return EngineFailure(f"Qdrant failed (HTTP {status}); its log says why.")


def _reason(error: UnexpectedResponse) -> str:
    """Qdrant's own reason; empty for the error page of a proxy."""
    try:
        return f": {_clean(str(json.loads(error.content)['status']['error']))}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return "."


def _clean(text: str) -> str:
    """The text on one short line."""
    return " ".join(text.split())[:MAX_REASON]
