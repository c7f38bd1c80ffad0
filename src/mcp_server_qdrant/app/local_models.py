"""From the settings to the engine, and to the hosts of models and engine.

Imports little, so that the hosts start while all else is imported.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mcp_server_qdrant import __version__
from mcp_server_qdrant.encoders.local.hosted import CALL_SECONDS, host_name, service
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.qdrant.edge import wire
from mcp_server_qdrant.settings.environment import Settings, model_environment
from mcp_server_qdrant.settings.values import revealed

if TYPE_CHECKING:
    from mcp_server_qdrant.qdrant.engine import WholeEngine


def open_host(settings: Settings) -> Link:
    """The connection to the host of local models, not used yet."""
    name = host_name(__version__, sys.executable, model_environment())
    return Link(service(settings.cache_path / "hosts", name), CALL_SECONDS)


def open_engine_host(settings: Settings) -> Link | None:
    """The connection to the host of the embedded engine, not used yet; None with a server."""
    if settings.qdrant_url is not None:
        return None
    return Link(wire.service(settings.local_path), settings.qdrant_timeout)


async def open_engine(
    settings: Settings, timeout: float, host: Link | None = None
) -> "WholeEngine":
    """The engine that the settings name, with what local mode left in its folder.

    `host` is the line to the embedded one where there is one already.
    Raises EngineUnavailable, ConfigError.
    """
    from mcp_server_qdrant.qdrant.client import is_local_mode, open_client

    client = await open_client(
        url=settings.qdrant_url,
        api_key=revealed(settings.qdrant_api_key),
        local_path=settings.local_path,
        timeout=timeout,
        host=host,
    )
    try:
        if settings.qdrant_url is None and is_local_mode(settings.local_path):
            from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
            from mcp_server_qdrant.ingest.collections.copying import import_local_mode
            from mcp_server_qdrant.qdrant.write.bulk import Bulk

            bulk = Bulk(client, settings.qdrant_content_fields)
            await import_local_mode(settings.local_path, bulk, Bm25Encoder(settings.bm25_language))
    except BaseException:
        await client.close()
        raise
    return client


async def load_default(settings: Settings, host: Link) -> None:
    """Have the default model loaded if it is a local one. Raises EncoderUnavailable."""
    if settings.embedding_provider == "fastembed":
        spec = local_model(settings, settings.chosen_model, settings.embedding_model_path)
        await host.call("report", spec, None, 0.0)


def local_model(
    settings: Settings, model: str, path: Path | None, kind: Literal["dense", "rerank"] = "dense"
) -> Spec:
    """A local model and how it is loaded; paths as this process understands them."""
    cache = settings.fastembed_cache_path
    return Spec(
        kind,
        model,
        str(cache.absolute()) if cache else None,
        str(path.absolute()) if path else None,
        settings.embedding_threads,
    )
