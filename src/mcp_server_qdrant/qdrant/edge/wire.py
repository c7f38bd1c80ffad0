"""The options of the engine host of a folder, and the way to it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mcp_server_qdrant.core.errors import EngineTimeout, EngineUnavailable
from mcp_server_qdrant.hosting.link import Service

WIRE = 14
NAME = "engine-host"


@dataclass(frozen=True)
class EdgeOptions:
    """The behaviour of a host; the first client's options count while that host lives.

    idle_seconds: how long the host outlives its last client. max_open: open shards kept.
    min_free: bytes that must stay free on the disk. optimise_at: vectors not yet quantised
    (or points deleted) that make an optimisation worthwhile. quiet_seconds: pause in
    writing before it starts.
    """

    idle_seconds: float = 5.0
    max_open: int = 512
    min_free: int = 256 << 20
    optimise_at: int = 20_000
    quiet_seconds: float = 2.0


def service(folder: Path, options: EdgeOptions | None = None, *, module: str = "") -> Service:
    """The engine host of a folder; whoever may start it says of which `module`."""
    return Service(
        module=module,
        folder=folder.absolute(),
        name=NAME,
        wire=WIRE,
        options=json.dumps(asdict(options or EdgeOptions())),
        called="The embedded engine",
        setting="QDRANT_LOCAL_PATH",
        error=EngineUnavailable,
        late=EngineTimeout,
    )
