"""Opening the engine that the settings name."""

import logging
import sqlite3
import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import cast
from urllib.parse import urlsplit

from mcp_server_qdrant.core.errors import ConfigError, EngineFailure, EngineUnavailable
from mcp_server_qdrant.core.lean import without
from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.engine import WholeEngine
from mcp_server_qdrant.qdrant.server.remote import RemoteClient, SearchClient

LOCAL = ":memory:"
INSECURE = (
    "QDRANT_API_KEY goes over plain http, where others on the way can read it; let QDRANT_URL "
    "begin with https."
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

logger = logging.getLogger(__name__)


async def open_client(
    *,
    url: str | None,
    api_key: str | None = None,
    local_path: Path,
    timeout: float,
    host: Link | None = None,
) -> WholeEngine:
    """The engine that the settings name; `timeout` in seconds bounds each request.

    `host` is the line to the embedded engine where there is one already.

    A server that cannot be reached is no error here: each call says so, and works once it is back.
    Raises EngineUnavailable when the embedded engine cannot be started, ConfigError on a bad URL.
    """
    if url is None:
        return await EdgeClient.open(local_path, timeout=timeout, link=host)
    if url == LOCAL:
        return _local_client()
    if api_key and urlsplit(url).scheme == "http" and urlsplit(url).hostname not in _LOOPBACK:
        logger.warning(INSECURE)
    warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
    try:
        with without("fastembed"):
            # Its points have the names of ours: `Point`.
            client = RemoteClient(
                url=url.rstrip("/"),
                timeout=timeout,
                api_key=api_key,
                check_compatibility=False,
            )
            return cast("WholeEngine", client)
    except ValueError as error:
        raise ConfigError("QDRANT_URL is not a URL such as http://host:6333.") from error


def is_local_mode(folder: Path) -> bool:
    """True for a folder that qdrant-client's local mode wrote."""
    return (folder / "meta.json").is_file()


def open_local_mode(folder: Path) -> WholeEngine:
    """A folder that qdrant-client's local mode wrote, to be written to, by this process alone.

    Raises EngineUnavailable where another process has it, EngineFailure where it is damaged.
    """
    try:
        return cast("WholeEngine", SearchClient(path=str(folder)))
    except RuntimeError as error:  # its lock is taken
        raise EngineUnavailable(
            "The folder is in use by another process: end it, and try again."
        ) from error
    except (ValueError, LookupError, TypeError, OSError, sqlite3.Error, UnpicklingError) as error:
        raise EngineFailure("The folder of local mode cannot be read: it is damaged.") from error


def _local_client() -> WholeEngine:
    """qdrant-client's local mode, which warns of each thing that it does more slowly."""
    for message in ("Payload indexes have no effect", "Local mode performs exact"):
        warnings.filterwarnings("ignore", message=message)
    with without("fastembed"):
        return cast("WholeEngine", SearchClient(location=LOCAL))
