"""Optimising a shard without a pause: a process makes an optimised copy, which is swapped in.

Reads and writes go on meanwhile; but a copy of a shard that was written to is of no use, and the
next quiet moment is waited for.
"""

import contextlib
import logging
import shutil
import subprocess
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError
from mcp_server_qdrant.qdrant.edge.copies import start
from mcp_server_qdrant.qdrant.edge.files import allocated
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions

_SPACE_FACTOR = 3  # the copy, the new segments beside the old ones
_RETRY_SECONDS = 60.0
_FEWEST = 500  # points; a smaller gain is not worth a process

logger = logging.getLogger(__name__)


class _Job(NamedTuple):
    shard: Shard
    version: int  # of the shard when it was copied
    place: Path
    process: subprocess.Popen[bytes]


class Optimiser:
    """At most one optimisation at a time; each step is taken between two writes."""

    def __init__(self, shards: Shards, options: EdgeOptions) -> None:
        self._shards, self._options = shards, options
        self._job: _Job | None = None
        self._not_before = 0.0

    @property
    def busy(self) -> bool:
        """True while an optimisation is under way."""
        return self._job is not None

    def tend(self) -> None:
        """Finish or begin what is due."""
        try:
            with guarded("", "could not be optimised"):
                if self._job is not None:
                    self._look_after(self._job)
                elif time.monotonic() >= self._not_before and (shard := self._due()):
                    self._begin(shard)
        except QdrantMcpError as error:
            logger.warning("Optimising was given up: %s", error)
            self.stop()

    def stop(self) -> None:
        """Give up what is under way; the shard stays as it is."""
        job, self._job = self._job, None
        self._not_before = time.monotonic() + _RETRY_SECONDS
        if job is None:
            return
        if job.process.poll() is None:
            job.process.kill()
            job.process.wait()
        self._shards.folder.discard(job.place)

    def _due(self) -> Shard | None:
        """A shard with much to gain and no recent write."""
        now = time.monotonic()
        for shard in self._shards.opened():
            quiet = now - shard.written >= self._options.quiet_seconds
            if quiet and self._worthwhile(shard):
                return shard
        return None

    def _worthwhile(self, shard: Shard) -> bool:
        """True if enough was written since the last optimisation, or deleted.

        Enough is half of the shard, so that a growing one is copied a few times only; at most
        `optimise_at` points, which searches would feel.
        """
        count = self._shards.exact_count(shard)
        gain = max(count - int(shard.sidecar.get("optimised_points", 0)), shard.deleted)
        return gain >= min(self._options.optimise_at, max(_FEWEST, count // 2))

    def _begin(self, shard: Shard) -> None:
        self._shards.folder.require_space(_SPACE_FACTOR * allocated(shard.path))
        place = self._shards.folder.work / f"optimised-{uuid.uuid4().hex}"
        place.mkdir()
        process = start(place, self._shards.exact_count(shard), shard.path)
        self._job = _Job(shard, shard.version, place, process)

    def _look_after(self, job: _Job) -> None:
        code = job.process.poll()
        if job.shard.version != job.version:
            self.stop()  # its copy is of no use
        elif code:
            raise EngineFailure(f"the child ended with code {code}")
        elif code == 0:
            self._finish(job)

    def _finish(self, job: _Job) -> None:
        shard, shards = job.shard, self._shards
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(shards.folder.shards / f"{shard.slug}.count", job.place / "count")
        self._job = None
        shards.replace(shard, job.place)
        shards.save(shard, optimised_points=shards.exact_count(shard))
        shard.deleted = 0
