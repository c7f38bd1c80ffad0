"""Open the engine, and turn its errors into ours: the one map of foreign errors."""

import json
import logging
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from urllib.parse import urlsplit

import grpc
from qdrant_client import AsyncQdrantClient
from qdrant_client.async_client_base import AsyncQdrantBase
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from mcp_server_qdrant.core.errors import (
    UNSURE,
    AccessRefused,
    ConfigError,
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    KeyRefused,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
    unsure,
)
from mcp_server_qdrant.core.lean import without
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.remote import Cluster, RemoteClient, kind_of

LOCAL = ":memory:"
MAX_REASON = 200
UNREACHABLE = "Qdrant cannot be reached; check QDRANT_URL and that it is running."
INSECURE = (
    "QDRANT_API_KEY goes over plain http, where others on the way can read it; let QDRANT_URL "
    "begin with https."
)
UNREADABLE = "Qdrant's answer could not be read; is QDRANT_URL really a Qdrant server?"
FORBIDDEN = "Qdrant refused access: check QDRANT_API_KEY and its permissions."
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

logger = logging.getLogger(__name__)


async def open_client(
    *,
    url: str | None,
    api_key: str | None = None,
    prefer_grpc: bool = False,
    local_path: Path,
    timeout: float,
    inference: Mapping[str, str] | None = None,
    cluster: Cluster | None = None,
) -> AsyncQdrantBase:
    """The engine that the settings name; `timeout` in seconds bounds each request.

    `inference` are the headers of a server that encodes texts itself, None where it does not.
    A server that cannot be reached is no error here: each call says so, and works once it is back.
    Raises EngineUnavailable when the embedded engine cannot be started, ConfigError on a bad URL.
    """
    if url is None:
        return await EdgeClient.open(local_path, timeout=timeout)
    if url == LOCAL:
        return _local_client()
    if api_key and urlsplit(url).scheme == "http" and urlsplit(url).hostname not in _LOOPBACK:
        logger.warning(INSECURE)
    warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
    try:
        with without("fastembed"):
            return RemoteClient(
                cluster or Cluster(timeout),
                url=url.rstrip("/"),
                api_key=api_key,
                prefer_grpc=prefer_grpc,
                timeout=max(1, round(timeout)),
                check_compatibility=False,
                cloud_inference=inference is not None,  # else qdrant-client would encode texts here
                headers=dict(inference or {}) or None,
            )
    except ValueError as error:
        raise ConfigError("QDRANT_URL is not a URL such as http://host:6333.") from error


def open_local_mode(folder: Path) -> AsyncQdrantBase:
    """A folder that qdrant-client's local mode wrote, to be written to, by this process alone.

    Raises EngineUnavailable where another process has it, EngineFailure where it is damaged.
    """
    try:
        return AsyncQdrantClient(path=str(folder))
    except RuntimeError as error:  # its lock is taken
        raise EngineUnavailable(
            "The folder is in use by another process: end it, and try again."
        ) from error
    except (ValueError, LookupError, TypeError, OSError, sqlite3.Error, UnpicklingError) as error:
        raise EngineFailure("The folder of local mode cannot be read: it is damaged.") from error


def _local_client() -> AsyncQdrantClient:
    """qdrant-client's local mode, which warns of each thing that it does more slowly."""
    for message in ("Payload indexes have no effect", "Local mode performs exact"):
        warnings.filterwarnings("ignore", message=message)
    with without("fastembed"):
        return AsyncQdrantClient(location=LOCAL)


@contextmanager
def foreign_errors(collection: str | None = None) -> Iterator[None]:
    """Errors of qdrant-client, its transports and its local mode leave here as ours."""
    try:
        yield
    except QdrantMcpError:
        raise
    except UnexpectedResponse as error:
        raise _doubted(_response(error, collection), error) from error
    except ResourceExhaustedResponse as error:
        raise EngineUnavailable("Qdrant is over its request limit; try again shortly.") from error
    except (ResponseHandlingException, OSError) as error:
        raise _doubted(_transport(error), error) from error
    except grpc.aio.AioRpcError as error:
        raise _doubted(_grpc(error, collection), error) from error
    except json.JSONDecodeError as error:
        raise EngineFailure(UNREADABLE) from error
    except AssertionError as error:
        if "returned None" not in str(error):
            raise
        raise EngineFailure(UNREADABLE) from error  # qdrant-client's check of an answer
    except (ValueError, KeyError, ApiException, QdrantException) as error:
        raise _refusal(str(error), collection) from error


def _doubted(ours: QdrantMcpError, error: Exception) -> QdrantMcpError:
    """Ours, saying so where the client noted that the write may have been done all the same."""
    return unsure(ours) if UNSURE in getattr(error, "__notes__", ()) else ours


def _response(error: UnexpectedResponse, collection: str | None) -> QdrantMcpError:
    reason = _reason(error.content.decode("utf-8", "replace"))
    match error.status_code:
        case 404 if collection is not None:
            return UnknownCollection(collection)
        case 400 | 422:
            return RequestError(f"Qdrant refused the request{reason}")
        case 401:
            return KeyRefused(FORBIDDEN)
        case 403:
            return AccessRefused(FORBIDDEN)
        case 408 | 504:
            return EngineTimeout("Qdrant did not answer in time.")
        case 429 | 502 | 503:
            return EngineUnavailable("Qdrant is overloaded or starting; try again shortly.")
        case 507:
            return EngineFailure("Qdrant is out of disk space or memory.")
    return EngineFailure(f"Qdrant failed (HTTP {error.status_code}); its log says why.")


def _transport(error: Exception) -> QdrantMcpError:
    match kind_of(error):
        case "timeout":
            return EngineTimeout("Qdrant did not answer in time.")
        case "unreachable":
            return EngineUnavailable(UNREACHABLE)
    return EngineFailure(UNREADABLE)


def _refusal(text: str, collection: str | None) -> QdrantMcpError:
    if collection is not None and "not found" in text and collection in text:
        return UnknownCollection(collection)
    return EngineFailure(f"Qdrant could not do this: {_clean(text)}")


def _grpc(error: grpc.aio.AioRpcError, collection: str | None) -> QdrantMcpError:
    reason = _clean(error.details() or "")
    match error.code():
        case grpc.StatusCode.NOT_FOUND if collection is not None:
            return UnknownCollection(collection)
        case grpc.StatusCode.INVALID_ARGUMENT:
            return RequestError(f"Qdrant refused the request: {reason}")
        case grpc.StatusCode.UNAUTHENTICATED:
            return KeyRefused(FORBIDDEN)
        case grpc.StatusCode.PERMISSION_DENIED:
            return AccessRefused(FORBIDDEN)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return EngineTimeout("Qdrant did not answer in time.")
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.RESOURCE_EXHAUSTED:
            return EngineUnavailable(UNREACHABLE)
    return EngineFailure(f"Qdrant failed ({error.code().name}); its log says why.")


def _reason(body: str) -> str:
    """What Qdrant's JSON says is wrong; nothing of a page that a proxy answers with."""
    try:
        said = json.loads(body)["status"]["error"]
    except (ValueError, LookupError, TypeError):
        return "."
    return f": {_clean(str(said))}"


def _clean(text: str) -> str:
    """One short line."""
    return " ".join(text.split())[:MAX_REASON]
