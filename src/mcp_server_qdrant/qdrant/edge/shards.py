"""The shards of one folder: all, the open ones, and their descriptions.

Used by one thread of the host.
"""

import contextlib
import json
import logging
import os
import re
import sys
import time
from asyncio import CancelledError
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.disk import identity, write_atomically
from mcp_server_qdrant.core.errors import (
    UNSURE,
    EngineFailure,
    InvalidFilter,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE, Census
from mcp_server_qdrant.qdrant.edge.files import (
    DESCRIPTION,
    OPENING,
    POINTS,
    Folder,
    name_of,
    slug_of,
    sync_tree,
)
from mcp_server_qdrant.qdrant.edge.types import shard_config

LOG = "wal"
# On other systems a sync of a file need not take along what the engine wrote through its map.
LOG_IS_ENOUGH = sys.platform == "linux"
_DEADLY_OPENINGS = 2
_RETRY_SECONDS = 600.0  # a slow opening may have been killed by an impatient user
_NAMELESS = "The description of the collection {!r} is missing or damaged: restore a backup."
_REPLACED = "%s: its files were replaced while it was open; the host starts anew"
_GONE = (
    "The data of the collection {!r} was deleted or moved while it was in use: nothing was stored."
    " Try again; it is begun anew."
)
_NOT_KEPT = f"could not be made durable: the disk is full or failing. {UNSURE}"

logger = logging.getLogger(__name__)


class Shard:
    """One collection: its description and, while it is open, its engine.

    `fault`: why it cannot be used at all. `pinned`: it must not be closed, since what was written
    to it is not durable yet, or it is being copied. `touched`: when it was written to or closed
    last, on the monotonic clock. `deleted`: points deleted since it was optimised. `unflushed`:
    its log has what its other files may lack.
    """

    def __init__(
        self, home: "Shards", path: Path, sidecar: dict[str, Any], fault: str | None = None
    ) -> None:
        self.name = str(sidecar["name"])
        self.path = path
        self.sidecar = sidecar
        self.fault = fault
        self.census = Census(path / POINTS)
        self.pinned = False
        self.touched = 0.0
        self.deleted = 0
        self.unflushed = False
        self._home = home
        self._engine: edge.EdgeShard | None = None
        self._count: int | None = None  # exact, until the next write
        self._log: tuple[int, int] | None = None  # of which folder, when it was opened

    @property
    def engine(self) -> edge.EdgeShard:
        """Its engine, opened when needed."""
        if self._engine is None:
            self._engine = self._load()
        self._home.used(self)
        return self._engine

    def count(self) -> int:
        """The number of points; info's own count can be wrong after a crash."""
        if self._count is None:
            self._count = self.engine.count(edge.CountRequest(exact=True))
        return self._count

    def damage(self, *, numbers: bool = True) -> str | None:
        """The loss in a sentence; without `numbers` for those who may not know how many points."""
        lost = self.census.damage(self.name)
        return lost if numbers else lost and INCOMPLETE

    def apply(self, update: edge.UpdateOperation) -> None:
        """Change its points. They are durable once its log is kept."""
        engine = self.engine
        self._count = None
        self.unflushed = True
        self.touched = time.monotonic()
        self.pinned = True
        try:
            with guarded(self.name, f"answered with a failure. {UNSURE}"):
                engine.update(update)
        except EngineFailure:
            # What it holds in memory is no longer sure; the files and the log are.
            self.close()
            raise

    def keep(self) -> None:
        """Make what was written to it durable, and remember how many points that are.

        Its log is enough for that: after a power failure the engine does again what is in it. A
        flush syncs all files of all indexes, a hundred times.
        """
        if self._engine is None:
            return
        if LOG_IS_ENOUGH:
            self._check_files()
            sync_tree(self.path / LOG)
        else:
            self.flush()
        self.census.kept(self._engine)

    def flush(self) -> None:
        """Write what only the log has into the other files, so that it is opened fast again."""
        if self._engine is not None and self.unflushed:
            self._check_files()
            self._engine.flush()
            self.unflushed = False

    def _check_files(self) -> None:
        """End the host where other files have taken the place of the open ones.

        It would write into them: the next host opens what is there.
        """
        log = identity(self.path / LOG)
        if log is None:
            raise self._gone()
        if log != self._log:
            logger.warning(_REPLACED, self.name)
            os._exit(1)

    def save(self, **changes: Any) -> None:
        """Change the description, on the disk first."""
        sidecar = {**self.sidecar, **changes}
        write_atomically(self.path / DESCRIPTION, json.dumps(sidecar))
        self.sidecar = sidecar

    def close(self) -> None:
        """Close it; the next use opens it again. What is durable is safe even if that fails."""
        self._home.closed(self)
        self.touched = time.monotonic()  # closing it could change its files
        self.unflushed = False  # the engine flushes as it closes
        engine, self._engine = self._engine, None
        if engine is not None:
            with contextlib.suppress(QdrantMcpError), guarded(self.name, "could not be closed."):
                engine.close()

    def _load(self) -> edge.EdgeShard:
        if not self.path.is_dir():
            raise self._gone()
        with self._opening(), guarded(self.name, "could not be opened."):
            engine = edge.EdgeShard.load(str(self.path))
            known = self.census.missing
            self._count = engine.count(edge.CountRequest(exact=True))
            self.census.opened(engine, self._count)
            self._log = identity(self.path / LOG)
            if self.census.missing not in (0, known):  # said once
                logger.warning("%s: %s", self.name, self.damage())
            return engine

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """Count openings that end the host. Raises EngineFailure after several in a row."""
        marker = self.path / OPENING
        with contextlib.suppress(OSError):
            deaths = marker.stat()
            age = abs(time.time() - deaths.st_mtime)
            if deaths.st_size >= _DEADLY_OPENINGS and age < _RETRY_SECONDS:
                raise EngineFailure(
                    f"The collection {self.name!r} could not be opened: the engine stopped"
                    f" {_DEADLY_OPENINGS} times while it tried. It tries again in a few minutes."
                )
        with contextlib.suppress(OSError), marker.open("ab") as file:
            file.write(b".")  # a full disk must not refuse reads
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                marker.unlink(missing_ok=True)

    def _gone(self) -> EngineFailure:
        """Forget a collection whose files were deleted by somebody else."""
        self._home.forget(self)
        return EngineFailure(_GONE.format(self.name))


class Shards:
    """All shards of a folder; at most `max_open` are open, the least recently used is closed."""

    def __init__(self, folder: Folder, max_open: int) -> None:
        self.folder = folder
        self._max_open = max_open
        self._all: dict[str, Shard] = {}
        self._open: OrderedDict[str, Shard] = OrderedDict()

    def scan(self) -> None:
        """Read all descriptions."""
        for path in self.folder.collections():
            shard = self._described(path)
            self._all[shard.name] = shard

    def _described(self, path: Path) -> Shard:
        """The collection in a directory; one whose description is damaged cannot be used."""
        try:
            sidecar = json.loads((path / DESCRIPTION).read_text("utf-8"))
            _ = sidecar["vectors"], sidecar["sparse_vectors"]
            if slug_of(sidecar["name"]) == path.name:
                return Shard(self, path, sidecar)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            logger.warning("%s: %s", path.name, error)
        name = name_of(path.name)
        fault = _NAMELESS.format(name)
        logger.warning("%s: %s", path.name, fault)
        return Shard(self, path, {"name": name, "vectors": {}, "sparse_vectors": {}}, fault)

    def names(self) -> list[str]:
        """All collections, sorted."""
        return sorted(self._all)

    def opened(self) -> list[Shard]:
        """The shards that are open now."""
        return list(self._open.values())

    def get(self, name: str) -> Shard:
        """The collection, open or not."""
        shard = self._all.get(name)
        if shard is None:
            raise UnknownCollection(name)
        if shard.fault:
            raise EngineFailure(shard.fault)
        return shard

    def used(self, shard: Shard) -> None:
        """A shard is open and in use. Where too many are, those unused for longest are closed."""
        self._open[shard.name] = shard
        self._open.move_to_end(shard.name)
        if (more := len(self._open) - self._max_open) > 0:
            idle = [one for one in self.opened() if not one.pinned and one is not shard]
            for one in idle[:more]:
                one.close()

    def closed(self, shard: Shard) -> None:
        """A shard is not open any more."""
        self._open.pop(shard.name, None)

    def forget(self, shard: Shard) -> None:
        """Close a collection whose files are not there any more."""
        shard.close()
        del self._all[shard.name]

    def settle(self, name: str) -> None:
        """Make what was written to a collection durable. Raises EngineFailure."""
        shard = self._all.get(name)
        if shard is not None and shard.pinned:
            shard.pinned = False
            with guarded(name, _NOT_KEPT):
                shard.keep()

    def create(self, name: str, sidecar: dict[str, Any]) -> None:
        """Make an empty collection."""
        if name in self._all:
            raise RequestError(f"The collection {name!r} already exists.")
        with guarded(name, "could not be created."):
            place = self.folder.place("made")
            config = shard_config(sidecar["vectors"], sidecar["sparse_vectors"])
            edge.EdgeShard.create(str(place), config).close()
            self.adopt(
                {**sidecar, "name": name, "created_at": datetime.now(UTC).isoformat()}, place
            )

    def adopt(self, sidecar: dict[str, Any], staged: Path) -> None:
        """Make what is staged the collection so described, in the place of one that is there."""
        write_atomically(staged / DESCRIPTION, json.dumps(sidecar))
        slug = slug_of(sidecar["name"])
        shard = Shard(self, self.folder.shards / slug, sidecar)
        if former := self._all.get(shard.name):
            former.close()
        self.folder.receive(slug, staged)
        self._all[shard.name] = shard

    def drop(self, name: str) -> bool:
        """Delete a collection, also one that cannot be used; False when there was none."""
        shard = self._all.get(name)
        if shard is None:
            return False
        shard.close()
        self.folder.discard(shard.path)
        del self._all[name]
        return True

    def close_all(self) -> None:
        """Close every shard."""
        for shard in self.opened():
            shard.close()


@contextlib.contextmanager
def guarded(name: str, failure: str = "answered with a failure.") -> Iterator[None]:
    """Turn whatever the engine raises, its panics too, and what the disk refuses into our errors.

    `failure` ends the sentence that begins with the collection.
    """
    try:
        yield
    except (QdrantMcpError, CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:  # noqa: BLE001 - panics derive from BaseException
        raise _error_of(name, failure, fault) from None


def _error_of(name: str, failure: str, fault: BaseException) -> QdrantMcpError:
    text = str(fault)
    if text.startswith(("No range index", "No appropriate index")):
        return RequestError(f"The collection {name!r} has no payload index for this.")
    if found := re.search(r"invalid JSON path (.*)", text):
        return InvalidFilter(f"{found[1]!r} is not a payload path.")
    logger.warning("%s: %s: %s", name, type(fault).__name__, text)
    if isinstance(fault, ValueError | TypeError | LookupError | AttributeError | ArithmeticError):
        return RequestError(f"The engine does not understand this request to {name!r}.")
    if isinstance(fault, FileNotFoundError):
        return EngineFailure(_GONE.format(name))
    if isinstance(fault, OSError):
        failure = f"{failure.rstrip('.')}: {fault.strerror}."
    elif found := re.search(r"\(os error (\d+)\)", text):
        failure = f"{failure.rstrip('.')}: {os.strerror(int(found[1]))}."
    return EngineFailure(f"The collection {name!r} {failure}")
