"""From the settings to the hosts of models and engine. Imports little: they start meanwhile."""

import sys
from pathlib import Path
from typing import Literal

from mcp_server_qdrant import __version__
from mcp_server_qdrant.encoders.local.hosted import CALL_SECONDS, host_name, service
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.qdrant.edge import wire
from mcp_server_qdrant.settings.environment import Settings, model_environment


def open_host(settings: Settings) -> Link:
    """The connection to the host of local models, not used yet."""
    name = host_name(__version__, sys.executable, model_environment())
    return Link(service(settings.cache_path / "hosts", name), CALL_SECONDS)


def open_engine_host(settings: Settings) -> Link | None:
    """The connection to the host of the embedded engine, not used yet; None with a server."""
    if settings.qdrant_url is not None:
        return None
    return Link(wire.service(settings.local_path), settings.qdrant_timeout)


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
