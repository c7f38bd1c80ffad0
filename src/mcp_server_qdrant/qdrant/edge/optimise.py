"""Optimising a shard without a pause: a copy is optimised in another process, then swapped in.

`EdgeShard.optimize` freezes its process for seconds to minutes. So the writer copies the shard
(a copy between two writes is consistent), a child process optimises the copy, and what is
written meanwhile is recorded and applied to the copy before it takes the shard's place.
Reads go on all the time; writes wait only while files are copied and while the record is applied.

    python -m mcp_server_qdrant.qdrant.edge.optimise SHARD_DIRECTORY
"""

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError
from mcp_server_qdrant.hosting.log import log
from mcp_server_qdrant.qdrant.edge.files import allocated, copy_sparse, sync_tree, syncing
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions
from mcp_server_qdrant.qdrant.edge.writes import Writes

_SPACE_FACTOR = 3  # the copy, the new segments beside the old ones
_LONGEST_RECORD = 5_000  # engine updates; a busier shard is optimised at another time
_RETRY_SECONDS = 60.0
_FEWEST = 500  # points; a smaller gain is not worth a process


Steps = Generator[None, None, None]


@dataclass(frozen=True)
class _Job:
    shard: Shard
    copy: Path
    process: "subprocess.Popen[bytes]"


class Optimiser:
    """At most one optimisation at a time; its steps are taken between writes, reads in between."""

    def __init__(self, shards: Shards, writes: Writes, options: EdgeOptions) -> None:
        self._shards, self._writes, self._options = shards, writes, options
        self._job: _Job | None = None
        self._not_before = 0.0

    def tend(self, *, idle: bool = True) -> Generator[None, None, bool]:
        """Finish or begin what is due; True while an optimisation is under way."""
        try:
            with guarded("", "could not be optimised"):
                yield from self._steps(idle=idle)
        except QdrantMcpError as error:
            log(f"optimising was given up: {error}")
            self.stop()
        return self._job is not None

    def _steps(self, *, idle: bool) -> Steps:
        if self._job is not None:
            yield from self._look_after(self._job)
        elif idle and time.monotonic() >= self._not_before and (shard := self._due()):
            yield from self._begin(shard)

    def stop(self) -> None:
        """Give up what is under way; the shard stays as it is."""
        job, self._job = self._job, None
        self._not_before = time.monotonic() + _RETRY_SECONDS
        if job is None:
            return
        job.shard.record = None
        if job.process.poll() is None:
            job.process.kill()
            job.process.wait()
        with contextlib.suppress(OSError):
            self._shards.folder.discard(job.copy)

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

    def _begin(self, shard: Shard) -> Steps:
        source = self._shards.path(shard)
        self._shards.folder.require_space(_SPACE_FACTOR * allocated(source))
        self._shards.engine(shard)
        self._writes.touched.add(shard)
        for _ in self._writes.flush():
            pass
        if shard.name in self._writes.lost():
            raise EngineFailure("the shard could not be flushed")
        shard.record = []
        copy = self._shards.folder.work / f"{shard.slug}-{uuid.uuid4().hex}"
        try:
            yield from copy_sparse(source, copy)
            process = _start(copy)
        except OSError:
            shard.record = None
            self._shards.folder.discard(copy)
            raise
        self._job = _Job(shard, copy, process)

    def _look_after(self, job: _Job) -> Steps:
        code = job.process.poll()
        record = job.shard.record
        if record is None or len(record) > _LONGEST_RECORD:
            self.stop()  # deleted meanwhile, or too busy
        elif code is not None:
            if code != 0:
                raise EngineFailure(f"the child ended with code {code}")
            yield from self._finish(job, record)

    def _finish(self, job: _Job, record: list[edge.UpdateOperation]) -> Steps:
        shard = job.shard
        copied = yield from self._replay(job, record)
        if copied != self._shards.exact_count(shard):
            raise EngineFailure("the copy does not hold as many points as the shard")
        yield from syncing(job.copy)  # what the record changed; the child has made the rest safe
        self._shards.close(shard)
        self._shards.folder.swap(shard.slug, job.copy)
        shard.record = None
        shard.deleted = 0
        shard.changed()
        self._job = None
        self._shards.engine(shard)
        yield
        points = self._shards.exact_count(shard)
        self._shards.save(shard, optimised_points=points)

    def _replay(self, job: _Job, record: list[edge.UpdateOperation]) -> Generator[None, None, int]:
        """Bring the copy up to date; how many points it holds then."""
        copy = edge.EdgeShard.load(str(job.copy))
        for update in record:
            yield
            # What failed in the shard fails here too, and in the same way.
            with contextlib.suppress(QdrantMcpError), guarded(job.shard.name):
                copy.update(update)
        yield
        copied = copy.count(edge.CountRequest(exact=True))
        copy.flush()
        copy.close()
        return copied


def _start(copy: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "mcp_server_qdrant.qdrant.edge.optimise", str(copy)],
        cwd=copy.parent,
        stdin=subprocess.DEVNULL,
    )


def main(arguments: list[str]) -> None:
    """Optimise one shard directory, with low priority."""
    if sys.platform != "win32":
        os.nice(10)
    shard = edge.EdgeShard.load(arguments[0])
    shard.optimize()
    shard.flush()
    shard.close()
    sync_tree(Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
