"""The shards of one folder: all, the open ones, and their descriptions.

Used by one thread of the host.
"""

import contextlib
import json
import logging
import os
import re
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
)
from mcp_server_qdrant.qdrant.edge.types import shard_config

_DEADLY_OPENINGS = 2
_RETRY_SECONDS = 600.0  # a slow opening may have been killed by an impatient user
_NAMELESS = "The description of the collection {!r} is missing or damaged: restore a backup."
_REPLACED = "%s: its files were replaced while it was open; the host starts anew"
_GONE = (
    "The data of the collection {!r} was deleted or moved while it was in use: nothing was stored."
    " Try again; it is begun anew."
)
_NOT_FLUSHED = f"could not be flushed: the disk is full or failing. {UNSURE}"

logger = logging.getLogger(__name__)


class Shard:
    """One collection: its description and, while it is open, its engine.

    `fault`: why it cannot be used at all.
    """

    def __init__(self, path: Path, sidecar: dict[str, Any], fault: str | None = None) -> None:
        self.name = str(sidecar["name"])
        self.path = path
        self.sidecar = sidecar
        self.fault = fault
        self.census = Census(path / POINTS)
        self.count: int | None = None  # exact, until the next write
        self.engine: edge.EdgeShard | None = None
        self.log: tuple[int, int] | None = None  # of which folder, when it was opened
        self.pinned = False  # must not be closed: written to and not yet flushed, or being copied
        self.touched = 0.0  # when it was written to or closed last, on the monotonic clock
        self.deleted = 0  # points deleted since it was optimised

    def damage(self, *, numbers: bool = True) -> str | None:
        """The loss in a sentence; without `numbers` for those who may not know how many points."""
        lost = self.census.damage(self.name)
        return lost if numbers else lost and INCOMPLETE

    def changed(self) -> None:
        """Its points are others from now on."""
        self.count = None
        self.touched = time.monotonic()


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
            shard = _described(path)
            self._all[shard.name] = shard

    def names(self) -> list[str]:
        """All collections, sorted."""
        return sorted(self._all)

    def opened(self) -> list[Shard]:
        """The shards that are open now."""
        return list(self._open.values())

    def get(self, name: str) -> Shard:
        """The collection, open or not."""
        shard = self.listed(name)
        if shard.fault:
            raise EngineFailure(shard.fault)
        return shard

    def listed(self, name: str) -> Shard:
        """The collection, even one that cannot be used."""
        shard = self._all.get(name)
        if shard is None:
            raise UnknownCollection(name)
        return shard

    def engine(self, shard: Shard) -> edge.EdgeShard:
        """The shard's engine, opened when needed."""
        if shard.engine is None:
            shard.engine = self._load(shard)
            self._open[shard.name] = shard
            self._close_idle(keep=shard)
        self._open.move_to_end(shard.name)
        return shard.engine

    def exact_count(self, shard: Shard) -> int:
        """The number of points; info's own count can be wrong after a crash."""
        if shard.count is None:
            shard.count = self.engine(shard).count(edge.CountRequest(exact=True))
        return shard.count

    def _load(self, shard: Shard) -> edge.EdgeShard:
        if not shard.path.is_dir():
            raise self._gone(shard)
        marker = shard.path / OPENING
        with contextlib.suppress(OSError):
            deaths = marker.stat()
            age = abs(time.time() - deaths.st_mtime)
            if deaths.st_size >= _DEADLY_OPENINGS and age < _RETRY_SECONDS:
                raise EngineFailure(
                    f"The collection {shard.name!r} could not be opened: the engine stopped"
                    f" {_DEADLY_OPENINGS} times while it tried. It tries again in a few minutes."
                )
        with contextlib.suppress(OSError), marker.open("ab") as file:
            file.write(b".")  # a full disk must not refuse reads
        try:
            with guarded(shard.name, "could not be opened."):
                engine = edge.EdgeShard.load(str(shard.path))
                self._compare(shard, engine)
                return engine
        finally:
            with contextlib.suppress(OSError):
                marker.unlink(missing_ok=True)

    def _compare(self, shard: Shard, engine: edge.EdgeShard) -> None:
        """Notice what was lost since it was flushed last; said once."""
        known = shard.census.missing
        shard.count = engine.count(edge.CountRequest(exact=True))
        shard.census.opened(engine, shard.count)
        shard.log = identity(shard.path / "wal")
        if shard.census.missing not in (0, known):
            logger.warning("%s: %s", shard.name, shard.damage())

    def settle(self, name: str) -> None:
        """Make what was written to a collection durable. Raises EngineFailure."""
        shard = self._all.get(name)
        if shard is not None and shard.pinned:
            shard.pinned = False
            with guarded(name, _NOT_FLUSHED):
                self.flush(shard)

    def flush(self, shard: Shard) -> None:
        """Make what was written to it durable, and remember how many points that are.

        Ends the host where other files have taken the place of the open ones, which a flush would
        write into: the next host opens what is there.
        """
        if shard.engine is None:
            return
        log = identity(shard.path / "wal")
        if log is None:
            raise self._gone(shard)
        if log != shard.log:
            logger.warning(_REPLACED, shard.name)
            os._exit(1)
        shard.engine.flush()
        shard.census.flushed(shard.engine)

    def _gone(self, shard: Shard) -> EngineFailure:
        """Forget a collection whose files were deleted by somebody else."""
        self.close(shard)
        del self._all[shard.name]
        return EngineFailure(_GONE.format(shard.name))

    def _close_idle(self, keep: Shard) -> None:
        for shard in self.opened():
            if len(self._open) <= self._max_open:
                return
            if not shard.pinned and shard is not keep:
                self.close(shard)

    def create(self, name: str, sidecar: dict[str, Any]) -> None:
        """Make an empty collection."""
        if name in self._all:
            raise RequestError(f"The collection {name!r} already exists.")
        with guarded(name, "could not be created."):
            place = self.folder.place("made")
            config = shard_config(sidecar["vectors"], sidecar["sparse_vectors"])
            engine = edge.EdgeShard.create(str(place), config)
            engine.flush()
            engine.close()
            self.adopt(
                {**sidecar, "name": name, "created_at": datetime.now(UTC).isoformat()}, place
            )

    def adopt(self, sidecar: dict[str, Any], staged: Path) -> None:
        """Make what is staged the collection so described, in the place of one that is there."""
        write_atomically(staged / DESCRIPTION, json.dumps(sidecar))
        slug = slug_of(sidecar["name"])
        shard = Shard(self.folder.shards / slug, sidecar)
        if former := self._all.get(shard.name):
            self.close(former)
        self.folder.receive(slug, staged)
        self._all[shard.name] = shard

    def save(self, shard: Shard, **changes: Any) -> None:
        """Change the description, on the disk first."""
        sidecar = {**shard.sidecar, **changes}
        write_atomically(shard.path / DESCRIPTION, json.dumps(sidecar))
        shard.sidecar = sidecar

    def drop(self, shard: Shard) -> None:
        """Delete the collection."""
        self.close(shard)
        self.folder.discard(shard.path)
        del self._all[shard.name]

    def close(self, shard: Shard) -> None:
        """Close it; the next use opens it again. What was flushed is safe even if that fails."""
        self._open.pop(shard.name, None)
        shard.touched = time.monotonic()  # closing it could change its files
        engine, shard.engine = shard.engine, None
        if engine is not None:
            with contextlib.suppress(QdrantMcpError), guarded(shard.name, "could not be closed."):
                engine.close()

    def close_all(self) -> None:
        """Close every shard."""
        for shard in self.opened():
            self.close(shard)


def _described(path: Path) -> Shard:
    """The collection in a directory; one whose description is damaged cannot be used."""
    try:
        sidecar = json.loads((path / DESCRIPTION).read_text("utf-8"))
        _ = sidecar["vectors"], sidecar["sparse_vectors"]
        if slug_of(sidecar["name"]) == path.name:
            return Shard(path, sidecar)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        logger.warning("%s: %s", path.name, error)
    name = name_of(path.name)
    fault = _NAMELESS.format(name)
    logger.warning("%s: %s", path.name, fault)
    return Shard(path, {"name": name, "vectors": {}, "sparse_vectors": {}}, fault)


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
    return EngineFailure(f"The collection {name!r} {failure}")
