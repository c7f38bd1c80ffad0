"""A sync in a separate process, over the embedded engine, that can kill itself at a given step.

    python -m tests.e2e.sync_driver ENGINE FOLDER STEP

Prints the number of steps. A step is a moment before, during or after a call of engine or model.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mcp_server_qdrant.app.services import assemble
from mcp_server_qdrant.ingest import writer
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.fakes import FakeEncoder
from tests.support import make_settings, registry

COLLECTION = "things"


class Steps:
    """Counts steps, and kills the process at step `last`."""

    def __init__(self, last: int | None) -> None:
        self.last = last
        self.count = 0

    def __call__(self) -> None:
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def around(self, method: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self()
            task = asyncio.ensure_future(method(*args, **kwargs))
            await asyncio.sleep(0)
            self()
            try:
                return await task
            finally:
                self()

        return call


async def sync(engine: Any, folder: Path, encoder: Any = None) -> Report:
    """Make the collection the mirror of the folder."""
    services = assemble(
        make_settings(qdrant_read_only=True), engine, registry(encoder or FakeEncoder())
    )
    request = SyncRequest(tuple(sources([folder])), COLLECTION, mirror=True)
    report = await services.sync(request)
    await services.catalog.close()
    return report


async def main(path: Path, folder: Path, last: int | None) -> None:
    writer.BATCH, writer.WINDOW = 3, 12  # small, for many steps
    engine = await EdgeClient.open(path)
    steps = Steps(last)
    encoder = FakeEncoder()
    encoder.encode_documents = steps.around(encoder.encode_documents)
    engine._engine.call = steps.around(engine._engine.call)
    await sync(engine, folder, encoder)
    await engine.close()
    print(steps.count)


if __name__ == "__main__":
    given = sys.argv[3]
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(given) if given else None))
