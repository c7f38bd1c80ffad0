"""Opening the engine that the settings name."""

import logging
import sqlite3
import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import cast
from urllib.parse import urlsplit

from mcp_server_qdrant.core.errors import ConfigError, EngineFailure, EngineUnavailable
from mcp_server_qdrant.core.lean import hidden
from mcp_server_qdrant.qdrant.engine import WholeEngine
from mcp_server_qdrant.qdrant.questions import SearchClient
from mcp_server_qdrant.qdrant.server.remote import RemoteClient

LOCAL = ":memory:"
INSECURE = (
    "QDRANT_API_KEY is sent over plain HTTP, where others can read it: use a QDRANT_URL that "
    "begins with https."
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

logger = logging.getLogger(__name__)


async def open_client(url: str, *, timeout: float, api_key: str | None = None) -> WholeEngine:
    """A client of the Qdrant server at a URL, or of an in-memory engine.

    `timeout`: seconds per request. It does not connect yet: calls raise an error while the server
    is unreachable. Raises ConfigError for a bad URL.
    """
    if url == LOCAL:
        for message in ("Payload indexes have no effect", "Local mode performs exact"):
            warnings.filterwarnings("ignore", message=message)
        with hidden("fastembed"):
            return cast("WholeEngine", SearchClient(location=LOCAL))
    if api_key and urlsplit(url).scheme == "http" and urlsplit(url).hostname not in _LOOPBACK:
        logger.warning(INSECURE)
    warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
    try:
        with hidden("fastembed"):
            # qdrant-client's points have the attributes of our `Point`.
            client = RemoteClient(
                url=url.rstrip("/"), timeout=timeout, api_key=api_key, check_compatibility=False
            )
            return cast("WholeEngine", client)
    except ValueError as error:
        raise ConfigError("QDRANT_URL is not a URL such as http://host:6333.") from error


def is_local_mode(folder: Path) -> bool:
    """True for a folder written by qdrant-client's local mode."""
    return (folder / "meta.json").is_file()


def open_local_mode(folder: Path) -> WholeEngine:
    """Open a folder of qdrant-client's local mode for writing, locked for this process.

    Raises EngineUnavailable if another process has it open, EngineFailure if it is damaged.
    """
    try:
        return cast("WholeEngine", SearchClient(path=str(folder)))
    except RuntimeError as error:  # its lock is taken
        raise EngineUnavailable(
            "The folder is in use by another process: end it, and try again."
        ) from error
    except (ValueError, LookupError, TypeError, OSError, sqlite3.Error, UnpicklingError) as error:
        raise EngineFailure("The folder of local mode cannot be read: it is damaged.") from error
