"""Shards that take another one's place are made and tried by a process of their own.

Optimising freezes a process for seconds to minutes, and a damaged file can end the one that opens
it; so this is never the host.

    python -m mcp_server_qdrant.qdrant.edge.optimise SHARD POINTS [OTHER]

fails unless the shard can be opened and holds so many points. With OTHER it is made first: an
optimised copy of that one.
"""

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError
from mcp_server_qdrant.qdrant.edge.files import Folder, allocated, copy_sparse, sync_tree
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from mcp_server_qdrant.qdrant.edge.shards import Shard, Shards, guarded

_SPACE_FACTOR = 3  # the copy, the new segments beside the old ones
_RETRY_SECONDS = 60.0
_POLL_SECONDS = 0.02
_FEWEST = 500  # points; a smaller gain is not worth a process

logger = logging.getLogger(__name__)


class Optimiser:
    """Optimises one shard at a time, without a pause of the others: its copy is swapped in.

    Reads and writes go on meanwhile; but a copy of a shard that was written to is of no use, and
    the next quiet moment is waited for. `writing` is held where no write may come between.
    """

    def __init__(self, shards: Shards, options: EdgeOptions, writing: asyncio.Lock) -> None:
        self._shards, self._options, self._writing = shards, options, writing
        self.busy = False

    async def run(self) -> None:
        """Look for what is due, again and again."""
        while True:
            await asyncio.sleep(max(_POLL_SECONDS, self._options.quiet_seconds / 2))
            try:
                with guarded("", "could not be optimised."):
                    shard = self._due()
                    if shard is None or await self.optimise(shard):
                        continue
            except QdrantMcpError as error:
                logger.warning("Optimising was given up: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    def _due(self) -> Shard | None:
        """A shard with much to gain and no recent write."""
        before = time.monotonic() - self._options.quiet_seconds
        quiet = (shard for shard in self._shards.opened() if shard.touched <= before)
        return next(filter(self._worthwhile, quiet), None)

    def _worthwhile(self, shard: Shard) -> bool:
        """True if enough was written since the last optimisation, or deleted.

        Enough is half of the shard, so that a growing one is copied a few times only; at most
        `optimise_at` points, which searches would feel.
        """
        count = shard.count()
        gain = max(count - int(shard.sidecar.get("optimised_points", 0)), shard.deleted)
        return gain >= min(self._options.optimise_at, max(_FEWEST, count // 2))

    async def optimise(self, shard: Shard) -> bool:
        """Whether an optimised copy took its place: not where it was written to meanwhile."""
        folder, points = self._shards.folder, shard.count()
        folder.require_space(_SPACE_FACTOR * allocated(shard.path))
        shard.flush()  # nothing changes its files while they are copied
        began, place = shard.touched, folder.place("optimised")
        self.busy = True
        child = start(place, points, shard.path)
        try:
            while (code := child.poll()) is None and shard.touched == began:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
            async with self._writing:
                if code:
                    logger.warning("Optimising was given up: the child ended with code %s", code)
                done = code == 0 and shard.touched == began
                if done:
                    self._shards.adopt({**shard.sidecar, "optimised_points": points}, place)
                return done
        finally:
            child.kill()
            child.wait()
            folder.discard(place)
            self.busy = False


@contextmanager
def stage(root: Path) -> Iterator[Path]:
    """A place for a collection that is restored, with all of its files.

    It is gone afterwards, or at the next start of the host.
    """
    place = Folder(root, 0).place("restored")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def try_staged(place: Path, name: str, points: int) -> None:
    """Open what is staged. Raises RequestError where it does not hold so many points."""
    if await asyncio.to_thread(start(place, points).wait):
        raise RequestError(
            f"The backup of {name!r} is damaged: the engine cannot read its {points:,} points."
        )


def start(shard: Path, points: int, other: Path | None = None) -> "subprocess.Popen[bytes]":
    """Begin to make or to try that shard."""
    module = "mcp_server_qdrant.qdrant.edge.optimise"
    given = [str(shard), str(points), *([str(other)] if other else [])]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *given],
        cwd=shard,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def main(arguments: list[str]) -> None:
    """Open the shard, a copy with low priority; fail if it lacks points."""
    shard, points = Path(arguments[0]), int(arguments[1])
    other = Path(arguments[2]) if len(arguments) > 2 else None
    if other is not None:
        if sys.platform != "win32":
            os.nice(10)
        copy_sparse(other, shard)
    engine = edge.EdgeShard.load(str(shard))
    if other is not None:
        engine.optimize()
        engine.flush()
    found = engine.count(edge.CountRequest(exact=True))
    engine.close()
    sync_tree(shard)
    if found != points:
        sys.exit(f"The shard holds {found} points, not {points}.")


if __name__ == "__main__":
    main(sys.argv[1:])
