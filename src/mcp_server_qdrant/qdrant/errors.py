"""The one map of qdrant-client's errors to ours."""

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal

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
TOO_LARGE = "Qdrant sent a larger answer than is read at once."
FOREIGN = (ApiException, QdrantException, OSError)
_WRITES = frozenset({"upsert", "update_vectors", "delete", "set_payload", "delete_payload"})
_UNSURE = (408, 500, 502, 504)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, ConnectionRefusedError)

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

    One of a write says if the server may have done it all the same.
    """
    try:
        yield
    except QdrantMcpError:
        raise
    except ResourceExhaustedResponse as error:
        raise EngineUnavailable("Qdrant is over its request limit; try again shortly.") from error
    except UnexpectedResponse as error:
        doubt = writing and may_have_happened(error)
        ours = _answered(error, collection)
        raise (unsure(ours) if doubt else ours) from error
    except (ResponseHandlingException, OSError) as error:
        doubt = writing and may_have_happened(error)
        ours = _transport(error)
        raise (unsure(ours) if doubt else ours) from error
    except TooLarge as error:
        raise EngineFailure(TOO_LARGE) from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise EngineFailure(UNREADABLE) from error
    except AssertionError as error:
        if "returned None" not in str(error):
            raise
        raise EngineFailure(UNREADABLE) from error  # qdrant-client's check of an answer
    except (ValueError, KeyError, ApiException, QdrantException) as error:
        raise _refusal(str(error), collection) from error


class TranslatedClient(AsyncQdrantClient):
    """qdrant-client's client, all of whose calls raise our errors."""

    async def _send(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Do the call of that name."""
        return await getattr(AsyncQdrantClient, name)(self, *args, **kwargs)


def _translated(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    of_collection = "collection_name" in inspect.signature(inner).parameters

    @wraps(inner)
    async def call(self: TranslatedClient, *args: Any, **kwargs: Any) -> Any:
        collection = args[0] if args else kwargs.get("collection_name")
        with foreign_errors(collection if of_collection else None, writing=name in _WRITES):
            return await self._send(name, *args, **kwargs)

    return call


for _name, _inner in inspect.getmembers(AsyncQdrantClient, inspect.iscoroutinefunction):
    if not _name.startswith("_") and _name != "close":
        setattr(TranslatedClient, _name, _translated(_name, _inner))


def may_have_happened(error: Exception) -> bool:
    """True where the server may have done the write, though it did not say so."""
    if (status := status_of(error)) is not None:
        return status in _UNSURE
    return not isinstance(cause_of(error), _UNSENT)


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status that the server answered with."""
    return error.status_code if isinstance(error, UnexpectedResponse) else None


def kind_of(error: BaseException) -> Literal["timeout", "unreachable", "other"]:
    """The kind of a failure on the way to the server."""
    cause = cause_of(error)
    if isinstance(cause, httpx.TimeoutException | TimeoutError):
        return "timeout"
    return "unreachable" if isinstance(cause, httpx.HTTPError | OSError) else "other"


def cause_of(error: BaseException) -> BaseException:
    """What the transport raised."""
    return error.source if isinstance(error, ResponseHandlingException) else error


def _answered(error: UnexpectedResponse, collection: str | None) -> QdrantMcpError:
    status = error.status_code
    no_point = status == 404 and NO_POINT in _reason(error)
    if status in (400, 409, 422) or no_point:
        return RequestError(f"Qdrant refused the request{_reason(error)}")
    if status == 404 and collection is not None:
        return UnknownCollection(collection)
    if status in _STATUS:
        kind, text = _STATUS[status]
        return kind(text)
    return EngineFailure(f"Qdrant failed (HTTP {status}); its log says why.")


def _transport(error: Exception) -> QdrantMcpError:
    if isinstance(error, ResponseHandlingException) and isinstance(error.source, TooLarge):
        return EngineFailure(TOO_LARGE)
    match kind_of(error):
        case "timeout":
            return EngineTimeout(LATE)
        case "unreachable":
            return EngineUnavailable(UNREACHABLE)
    return EngineFailure(UNREADABLE)


def _refusal(text: str, collection: str | None) -> QdrantMcpError:
    if collection is not None and "not found" in text and collection in text:
        return UnknownCollection(collection)
    return EngineFailure(f"Qdrant could not do this: {_clean(text)}")


def _reason(error: UnexpectedResponse) -> str:
    """The reason that Qdrant gives; nothing of a page that a proxy answers with."""
    try:
        return f": {_clean(str(json.loads(error.content)['status']['error']))}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return "."


def _clean(text: str) -> str:
    """The text on one short line."""
    return " ".join(text.split())[:MAX_REASON]
