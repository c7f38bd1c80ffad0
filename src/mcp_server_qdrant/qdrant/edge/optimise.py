"""Optimises a copy of a space in a separate process; the copy then becomes the new generation.

Optimising blocks a process for seconds to minutes, and a damaged file can kill it, so it never runs
in the process that has the store open.

    python -m mcp_server_qdrant.qdrant.edge.optimise GENERATION

optimises the copy in the folder GENERATION.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.qdrant.edge.files import allocated, copy_sparse, sync_tree
from mcp_server_qdrant.qdrant.edge.space import Space, count_points, translate_errors
from mcp_server_qdrant.qdrant.edge.store import Store

OPTIMISE_AT = 20_000  # unquantised or deleted points, from where searches slow down
QUIET_SECONDS = 2.0  # without a write, before it starts
_SPACE_FACTOR = 3  # for the copy, and its new segments beside the old ones
_RETRY_SECONDS = 60.0
_POLL_SECONDS = 0.02
_LONGEST_WAIT = 30.0  # seconds for a quiet moment
_FEWEST = 500  # points; a smaller gain is not worth starting a process
_MOST_UPDATES = 5_000  # replayed on the copy; 16 points each at most, some hundred MB

logger = logging.getLogger(__name__)


class Optimiser:
    """Optimises a copy of one space at a time, while reads and writes go on.

    Writes during that time are recorded and replayed on the copy. The lock `writing` is held while
    the files are copied and while the last updates are replayed.
    """

    def __init__(self, store: Store, writing: asyncio.Lock) -> None:
        self._store, self._writing = store, writing
        self._due_since: dict[Path, float] = {}
        self.busy = False

    async def run(self) -> None:
        """Optimise whatever is due, for ever."""
        while True:
            await asyncio.sleep(max(_POLL_SECONDS, QUIET_SECONDS / 2))
            try:
                with translate_errors("", "could not be optimised."):
                    space = self._due()
                    if space is None or await self.optimise(space):
                        continue
            except QdrantMcpError as error:
                logger.warning("Optimising was given up: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    def _due(self) -> Space | None:
        """A space worth optimising that had no recent write, or has waited long enough."""
        now = time.monotonic()
        for space in self._store.spaces.values():
            if not space.is_open or not self._worthwhile(space):
                self._due_since.pop(space.path, None)
                continue
            since = self._due_since.setdefault(space.path, now)
            quiet = space.touched <= now - QUIET_SECONDS
            if quiet or since <= now - _LONGEST_WAIT:
                return space
        return None

    def _worthwhile(self, space: Space) -> bool:
        """True if enough points were written or deleted since the last optimisation.

        Enough is half of the points, so that a growing space is copied only a few times, but at
        most OPTIMISE_AT, from where searches slow down.
        """
        count = sum(space.census.present.values())
        gain = max(count - space.optimised, space.deleted)
        return gain >= min(OPTIMISE_AT, max(_FEWEST, count // 2))

    async def optimise(self, space: Space) -> bool:
        """Replace a space by an optimised copy; False if it failed, or too much was written."""
        folder, before = self._store.folder, space.shard
        folder.require_space(_SPACE_FACTOR * allocated(before))
        place, child, done = space.new_generation(), None, False
        self.busy = True
        try:
            async with self._writing:
                space.flush()
                await asyncio.to_thread(copy_sparse, before, place)
                space.recorded, deleted = [], space.deleted
            child = start(place)
            while (code := child.poll()) is None and len(space.recorded) <= _MOST_UPDATES:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
            if code != 0:
                logger.warning("Optimising was given up: its process ended with code %s", code)
                return False
            done = space.shard == before and await self._switch(space, place, deleted)
            return done
        finally:
            space.recorded = None
            if child is not None:
                child.kill()
                child.wait()
            if not done:
                folder.discard(place)
            self.busy = False

    async def _switch(self, space: Space, place: Path, deleted: int) -> bool:
        """Replay the recorded updates on the copy, then switch to it."""
        engine, done = edge.EdgeShard.load(str(place)), False
        try:
            while space.recorded:
                engine.update(space.recorded.pop(0))
                await asyncio.sleep(0)
            async with self._writing:
                for update in space.recorded or ():
                    engine.update(update)
                engine.flush()
                if count_points(engine) != count_points(space.engine):
                    logger.warning("Optimising was given up: the copy has other points.")
                    return False
                before = space.shard
                about = {**space.about(), "optimised_points": sum(space.census.present.values())}
                space.switch(place, about, engine)
                done = True
                space.deleted -= deleted
                self._store.folder.discard(before)
                return True
        finally:
            if not done:
                engine.close()


def start(place: Path) -> "subprocess.Popen[bytes]":
    """Start a process that optimises that generation."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "mcp_server_qdrant.qdrant.edge.optimise", str(place)],
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def main(arguments: list[str]) -> None:
    """Optimise the generation at low priority."""
    place = Path(arguments[0])
    if sys.platform != "win32":
        os.nice(10)
    engine = edge.EdgeShard.load(str(place))
    engine.optimize()
    engine.flush()
    engine.close()
    sync_tree(place)


if __name__ == "__main__":
    main(sys.argv[1:])
