"""A vector space: one shard with the points of all collections that have the same vectors.

spaces/<key>/space.json   the current generation of the shard, and its vectors
spaces/<key>/g-*          a generation: the engine's files. A new one is built beside it, verified,
                          and made current by one write of space.json
spaces/<key>/points       the minimum number of points of each collection; see `counts`
spaces/<key>/opening      a byte for each consecutive opening that killed the process

Used by one task at a time.
"""

import contextlib
import json
import logging
import os
import re
import sys
import time
from asyncio import CancelledError
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import qdrant_edge as edge

from mcp_server_qdrant.core.disk import identity, write_atomically
from mcp_server_qdrant.core.errors import (
    UNSURE,
    EngineFailure,
    InvalidFilter,
    QdrantMcpError,
    RequestError,
)
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.collection import KEY
from mcp_server_qdrant.qdrant.edge.counts import Census
from mcp_server_qdrant.qdrant.edge.files import read_ahead, sync_tree
from mcp_server_qdrant.qdrant.payload import EXPIRES

LOG, SEGMENTS = "wal", "segments"
OPENING, ABOUT, POINTS = "opening", "space.json", "points"
# Elsewhere a file's fsync may not include what the engine wrote through a memory map.
LOG_IS_ENOUGH = sys.platform == "linux"
_DEADLY_OPENINGS = 2
_RETRY_SECONDS = 600.0  # an impatient user may have killed a slow opening
_MOST_COLLECTIONS = 1_000_000
_REPLACED = "%s: its files were replaced while it was open; the process ends"
_REBUILD = "To keep what can still be read, run mcp-server-qdrant rebuild."
_UNOPENED = f"could not open its store. {_REBUILD}"
_FAILED = "answered with a failure. If it does so again, run mcp-server-qdrant rebuild."
UNREADABLE = f"Some of the points in its store cannot be read. {_REBUILD}"
_GONE = (
    "The data of the embedded engine was deleted or moved while it was in use: nothing was stored."
    " Try again: a new store is created."
)
_NOT_KEPT = f"could not be made durable: the disk is full or failing. {UNSURE}"

logger = logging.getLogger(__name__)

Update = edge.UpdateOperation


def space_of(vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> str:
    """The key of the space for collections with these vectors."""
    declared = {
        name: {key: params[key] for key in types.COMPARED if params.get(key) is not None}
        for name, params in (*vectors.items(), *((f"sparse {k}", v) for k, v in sparse.items()))
    }
    text = json.dumps(declared, sort_keys=True)
    return f"s-{blake2b(text.encode(), digest_size=8).hexdigest()}"


class Space:
    """One shard, opened at its first use.

    `unflushed`: the log has data that the other files may lack. `touched`: the time of the last
    write (monotonic clock). `deleted`: points deleted since the last optimisation. `record`: the
    updates since a copy was started, in order, while one is being made. `unreadable`: damaged
    points were seen. `fault`: why it must not be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.census = Census(path / POINTS)
        self.unflushed = self._unsynced = False
        self.touched = 0.0
        self.deleted = 0
        self.recorded: list[edge.UpdateOperation] | None = None
        self.unreadable = False
        self.fault: str | None = None
        self._engine: edge.EdgeShard | None = None
        self._log: tuple[int, int] | None = None  # identity of the log folder when it was opened

    @classmethod
    def create(cls, path: Path, vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> "Space":
        """An empty space."""
        path.mkdir(parents=True, exist_ok=True)
        space = cls(path)
        place = space.new_generation()
        create_shard(place, vectors, sparse).close()
        about = {"vectors": dict(vectors), "sparse_vectors": dict(sparse), "optimised_points": 0}
        space.switch(place, about)
        return space

    # What it is

    def about(self) -> dict[str, Any]:
        """The contents of space.json, inferred if it is damaged. Raises EngineFailure."""
        try:
            found = dict(json.loads((self.path / ABOUT).read_text("utf-8")))
            if (self.path / str(found["generation"])).is_dir() and int(
                found["optimised_points"]
            ) >= 0:
                return found
        except (OSError, ValueError, LookupError, TypeError) as error:
            logger.warning("%s is damaged, so it is inferred: %s.", self.path / ABOUT, error)
        made = [*self.path.glob("g-*")]
        if len(made) == 1:
            return {"generation": made[0].name, "optimised_points": 0}
        if not made:
            raise EngineFailure(_GONE)
        raise EngineFailure(
            f"The description of a store of the embedded engine is damaged. {_REBUILD}"
        )

    @property
    def optimised(self) -> int:
        """How many points it had at the last optimisation."""
        return int(self.about()["optimised_points"])

    @property
    def shard(self) -> Path:
        """The folder of the current generation."""
        return self.path / str(self.about()["generation"])

    def new_generation(self) -> Path:
        """An empty folder for a new generation."""
        place = self.path / f"g-{uuid4().hex[:12]}"
        place.mkdir()
        return place

    def switch(
        self, place: Path, about: Mapping[str, Any], engine: edge.EdgeShard | None = None
    ) -> None:
        """Make that generation current. It must be durable, and may already be open."""
        self.close()
        write_atomically(self.path / ABOUT, json.dumps({**about, "generation": place.name}))
        self._engine, self._log = engine, identity(place / LOG)
        self.unreadable = False
        if engine is not None:
            read_ahead(place / SEGMENTS)

    def readable_generation(self) -> Path | None:
        """The current generation, or the oldest if space.json is unusable."""
        with contextlib.suppress(EngineFailure):
            return self.shard
        # A copy left by a killed process is newer.
        return min(self.path.glob("g-*"), key=lambda path: path.stat().st_mtime, default=None)

    def old_generations(self) -> list[Path]:
        """Generations that are not current: half made, or replaced."""
        with contextlib.suppress(EngineFailure):
            shard = self.shard
            return [one for one in self.path.glob("g-*") if one != shard]
        return []

    # Opening and closing

    @property
    def is_open(self) -> bool:
        """Whether its files are open."""
        return self._engine is not None

    @property
    def engine(self) -> edge.EdgeShard:
        """Its engine, opened when needed."""
        if self._engine is None:
            self._engine = self._load()
        return self._engine

    def _load(self) -> edge.EdgeShard:
        if self.fault:
            raise EngineFailure(self.fault)
        shard = self.shard
        with count_deaths(self.path / OPENING), translate_errors("", _UNOPENED):
            engine = edge.EdgeShard.load(str(shard))
            self._log = identity(shard / LOG)
            known = self.census.missing
            try:
                here = count_points(engine)
            except Exception:  # noqa: BLE001 - the engine's errors have no type
                index_collections(engine)  # the index is missing in a segment, or in all
                here = count_points(engine)
            self.census.check(here)
            if (missing := self.census.missing) and missing != known:  # logged once
                logger.warning("%s: points are missing on the disk: %s", self.path.name, missing)
            read_ahead(shard / SEGMENTS)
            return engine

    def close(self) -> None:
        """Close it; the next use opens it again. Durable data is safe even if closing fails."""
        self.unflushed = self._unsynced = False  # the engine flushes as it closes
        engine, self._engine = self._engine, None
        if engine is not None:
            with contextlib.suppress(QdrantMcpError), translate_errors("", "could not be closed."):
                engine.close()

    # Writing

    def apply(self, update: edge.UpdateOperation, collection: str | None = None) -> int:
        """Apply an update; returns how many points were added. `keep` makes it durable."""
        engine = self.engine
        self.unflushed = self._unsynced = True
        self.touched = time.monotonic()
        before = engine.info().points_count  # an exact count takes 8 ms for 100,000 points
        try:
            with translate_errors("", f"answered with a failure. {UNSURE}"):
                engine.update(update)
        except EngineFailure:
            # Its memory is no longer reliable; the files and the log are.
            self.close()
            raise
        if self.recorded is not None:
            self.recorded.append(update)
        more = int(engine.info().points_count - before)
        if collection is not None:
            self.census.add(collection, more)
        return more

    def make_durable(self) -> None:
        """Make the writes durable, and save the point counts. Raises EngineFailure.

        Syncing the log is enough, because the engine replays it after a power failure. A flush
        would sync about a hundred files of all indexes.
        """
        if self._engine is None or not self._unsynced:
            return
        self._unsynced = False
        with translate_errors("", _NOT_KEPT):
            if LOG_IS_ENOUGH:
                self._check_files()
                sync_tree(self.shard / LOG)
            else:
                self.flush()
        self.census.write()

    def flush(self) -> None:
        """Flush the log into the other files, so that the next opening is fast."""
        if self._engine is not None and self.unflushed:
            self._check_files()
            self._engine.flush()
            self.unflushed = False

    def _check_files(self) -> None:
        """Exit the process if its open files were replaced by others.

        It would write into the wrong files; the next process opens the new ones.
        """
        log = identity(self.shard / LOG)
        if log is None:
            self.close()
            raise EngineFailure(_GONE)
        if log != self._log:
            logger.warning(_REPLACED, self.path.name)
            os._exit(1)


@contextlib.contextmanager
def count_deaths(marker: Path, most: int = _DEADLY_OPENINGS) -> Iterator[None]:
    """Count openings that kill the process. Raises EngineFailure after `most` in a row."""
    with contextlib.suppress(OSError):
        deaths = marker.stat()
        age = abs(time.time() - deaths.st_mtime)
        if deaths.st_size >= most and age < _RETRY_SECONDS:
            raise EngineFailure(
                f"The embedded engine stopped {most} times while it opened its store."
                f" It tries again in a few minutes. {_REBUILD}"
            )
    with contextlib.suppress(OSError), marker.open("ab") as file:
        file.write(b".")  # a full disk must not refuse reads
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            marker.unlink(missing_ok=True)


def create_shard(
    place: Path, vectors: Mapping[str, Any], sparse: Mapping[str, Any]
) -> edge.EdgeShard:
    """Create a shard in that folder, with an index on the collection."""
    shard = edge.EdgeShard.create(str(place), types.shard_config(vectors, sparse))
    index_collections(shard)
    return shard


def index_collections(shard: edge.EdgeShard) -> None:
    """Index the collection and the expiry time of the points."""
    by_collection = edge.KeywordIndexParams(is_tenant=True, enable_hnsw=False)
    shard.update(Update.create_field_index(KEY, by_collection))
    # An index of few values is slow if created later, and every search of expiring texts reads it.
    shard.update(Update.create_field_index(EXPIRES, types.index_params("datetime")))


def count_points(engine: edge.EdgeShard) -> dict[str, int]:
    """The exact point counts by collection; those of `info` can be wrong after a crash.

    Values that no point has any more, which the engine still lists, are dropped.
    """
    hits = engine.facet(edge.FacetRequest(KEY, limit=_MOST_COLLECTIONS, exact=True)).hits
    return {str(hit.value): hit.count for hit in hits if hit.count}


def all_indexes(engine: edge.EdgeShard) -> Mapping[str, Any]:
    """The payload indexes that the shard has, by field."""
    return engine.info().payload_schema


@contextlib.contextmanager
def translate_errors(name: str, failure: str = _FAILED) -> Iterator[None]:
    """Turn engine errors, panics and OSErrors into our errors.

    `failure` is the predicate of the sentence; its subject is the collection or the engine.
    """
    try:
        yield
    except (QdrantMcpError, CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:  # noqa: BLE001 - panics derive from BaseException
        raise _error_of(name, failure, fault) from None


def _error_of(name: str, failure: str, fault: BaseException) -> QdrantMcpError:
    text = str(fault)
    subject = f"The collection {name!r}" if name else "The embedded engine"
    if text.startswith(("No range index", "No appropriate index")) and _UNOPENED not in failure:
        return RequestError(f"{subject} has no payload index for this.")
    if found := re.search(r"invalid JSON path (.*)", text):
        return InvalidFilter(f"{found[1]!r} is not a payload path.")
    logger.warning("%s failed: %s: %s", subject, type(fault).__name__, text)
    if isinstance(fault, ValueError | TypeError | LookupError | AttributeError | ArithmeticError):
        return RequestError(f"{subject} does not understand this request.")
    if isinstance(fault, FileNotFoundError):
        return EngineFailure(_GONE)
    if isinstance(fault, OSError):
        failure = f"{failure.rstrip('.')}: {fault.strerror}."
    elif found := re.search(r"\(os error (\d+)\)", text):
        failure = f"{failure.rstrip('.')}: {os.strerror(int(found[1]))}."
    return EngineFailure(f"{subject} {failure}")


def records(
    engine: edge.EdgeShard, where: edge.Filter | None, size: int
) -> Iterator[Sequence[Any]]:
    """All readable matching points in pages, with payload and vectors."""
    offset = None
    while True:
        found, offset = page(
            engine, payload=True, vector=True, limit=size, offset=offset, filter=where
        )
        yield found
        if offset is None:
            return


def page(
    engine: edge.EdgeShard, *, payload: Any, vector: Any, **asked: Any
) -> tuple[Sequence[Any], Any]:
    """A page of a scroll and the next offset; a damaged point hides no others."""
    try:
        with translate_errors(""):
            request = edge.ScrollRequest(with_payload=payload, with_vector=vector, **asked)
            return engine.scroll(request)
    except EngineFailure:
        bare = edge.ScrollRequest(with_payload=False, with_vector=False, **asked)
        found, offset = engine.scroll(bare)
        ids = [one.id for one in found]
        return readable(engine, ids, payload=payload, vector=vector), offset


def readable(engine: edge.EdgeShard, ids: Sequence[Any], *, payload: Any, vector: Any) -> list[Any]:
    """These points in order, without those that the engine cannot read."""
    if not ids:
        return []
    try:
        with translate_errors(""):
            return engine.retrieve(list(ids), payload, vector)
    except EngineFailure:
        if len(ids) == 1:
            return []
        middle = len(ids) // 2
        halves = ids[:middle], ids[middle:]
        return [
            one for half in halves for one in readable(engine, half, payload=payload, vector=vector)
        ]
