"""The way to the engine host of a folder."""

from dataclasses import asdict
from pathlib import Path

from mcp_server_qdrant.core.errors import EngineTimeout, EngineUnavailable
from mcp_server_qdrant.hosting.link import Service
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions

WIRE = 16


def service(folder: Path, options: EdgeOptions | None = None) -> Service:
    """The engine host of a folder."""
    return Service(
        module="mcp_server_qdrant.qdrant.edge.host",
        folder=folder.absolute(),
        name="engine-host",
        wire=WIRE,
        options=asdict(options or EdgeOptions()),
        called="The embedded engine",
        setting="QDRANT_LOCAL_PATH",
        error=EngineUnavailable,
        late=EngineTimeout,
    )
