"""A vector space: one shard with the points of all collections that have the same vectors.

spaces/<key>/space.json   which generation of the shard counts, and its vectors
spaces/<key>/g-*          a generation: the engine's files. Another one is made beside it, proved,
                          and takes its place by one write of space.json
spaces/<key>/points       how many points each collection has at least; see `counts`
spaces/<key>/opening      a byte for each opening in a row that killed the host

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
from mcp_server_qdrant.qdrant.edge.files import sync_tree

LOG = "wal"
OPENING, ABOUT, POINTS = "opening", "space.json", "points"
# On other systems a sync of a file need not take along what the engine wrote through its map.
LOG_IS_ENOUGH = sys.platform == "linux"
_DEADLY_OPENINGS = 2
_RETRY_SECONDS = 600.0  # a slow opening may have been killed by an impatient user
_MOST_COLLECTIONS = 1_000_000
_REPLACED = "%s: its files were replaced while it was open; the host starts anew"
_REBUILD = "To keep what can still be read, run mcp-server-qdrant rebuild."
_UNOPENED = f"could not open its store. {_REBUILD}"
_FAILED = "answered with a failure. If it does so again, run mcp-server-qdrant rebuild."
UNREADABLE = f"Some of the points in its store cannot be read. {_REBUILD}"
_GONE = (
    "The data of the embedded engine was deleted or moved while it was in use: nothing was stored."
    " Try again; it is begun anew."
)
_NOT_KEPT = f"could not be made durable: the disk is full or failing. {UNSURE}"
_COMPARED = ("size", "distance", "multivector_config", "datatype", "modifier")

logger = logging.getLogger(__name__)

Update = edge.UpdateOperation


def space_of(vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> str:
    """The key of the space of collections with these vectors."""
    declared = {
        name: {key: params[key] for key in _COMPARED if params.get(key) is not None}
        for name, params in (*vectors.items(), *((f"sparse {k}", v) for k, v in sparse.items()))
    }
    text = json.dumps(declared, sort_keys=True)
    return f"s-{blake2b(text.encode(), digest_size=8).hexdigest()}"


class Space:
    """One shard, opened when it is needed first.

    `unflushed`: its log has what its other files may lack. `touched`: when it was written to last,
    on the monotonic clock. `deleted`: points deleted since it was optimised. `record`: the updates
    since a copy of it was begun, in their order, where somebody wants them. `unreadable`: points
    without their payload were seen. `fault`: why it must not be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.census = Census(path / POINTS)
        self.unflushed = self._unkept = False
        self.touched = 0.0
        self.deleted = 0
        self.record: list[edge.UpdateOperation] | None = None
        self.unreadable = False
        self.fault: str | None = None
        self._engine: edge.EdgeShard | None = None
        self._log: tuple[int, int] | None = None  # which folder, when it was opened

    @classmethod
    def create(cls, path: Path, vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> "Space":
        """An empty space."""
        path.mkdir(parents=True, exist_ok=True)
        space = cls(path)
        place = space.new_generation()
        begin(place, vectors, sparse).close()
        about = {"vectors": dict(vectors), "sparse_vectors": dict(sparse), "optimised_points": 0}
        space.switch(place, about)
        return space

    # What it is

    def about(self) -> dict[str, Any]:
        """What space.json says, or what it must have said. Raises EngineFailure."""
        try:
            found = dict(json.loads((self.path / ABOUT).read_text("utf-8")))
            if (self.path / str(found["generation"])).is_dir() and int(
                found["optimised_points"]
            ) >= 0:
                return found
        except (OSError, ValueError, LookupError, TypeError) as error:
            logger.warning("%s: %s", self.path.name, error)
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
        """How many points it had when it was optimised last."""
        return int(self.about()["optimised_points"])

    @property
    def shard(self) -> Path:
        """The folder of the generation that counts."""
        return self.path / str(self.about()["generation"])

    def new_generation(self) -> Path:
        """An empty folder for another one."""
        place = self.path / f"g-{uuid4().hex[:12]}"
        place.mkdir()
        return place

    def switch(
        self, place: Path, about: Mapping[str, Any], engine: edge.EdgeShard | None = None
    ) -> None:
        """From now on that generation counts. It is durable already, and may be open."""
        self.close()
        write_atomically(self.path / ABOUT, json.dumps({**about, "generation": place.name}))
        self._engine, self._log = engine, identity(place / LOG)
        self.unreadable = False

    def readable(self) -> Path | None:
        """The generation that counts, or the first where nothing says which does."""
        with contextlib.suppress(EngineFailure):
            return self.shard
        # A copy that was being made when the host was killed is a later one.
        return min(self.path.glob("g-*"), key=lambda path: path.stat().st_mtime, default=None)

    def others(self) -> list[Path]:
        """Generations that do not count: half made, or replaced."""
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
        with surviving(self.path / OPENING), guarded("", _UNOPENED):
            engine = edge.EdgeShard.load(str(shard))
            self._log = identity(shard / LOG)
            known = self.census.missing
            try:
                here = counted(engine)
            except Exception:  # noqa: BLE001 - the engine's errors have no type
                index_collections(engine)  # a segment has lost it, or all are lost
                here = counted(engine)
            self.census.opened(here)
            if (missing := self.census.missing) and missing != known:  # said once
                logger.warning("%s: points are missing on the disk: %s", self.path.name, missing)
            return engine

    def close(self) -> None:
        """Close it; the next use opens it again. What is durable is safe even if that fails."""
        self.unflushed = self._unkept = False  # the engine flushes as it closes
        engine, self._engine = self._engine, None
        if engine is not None:
            with contextlib.suppress(QdrantMcpError), guarded("", "could not be closed."):
                engine.close()

    # Writing

    def apply(self, update: edge.UpdateOperation, collection: str | None = None) -> int:
        """Change points of a collection; how many more it has. They are durable once kept."""
        engine = self.engine
        self.unflushed = self._unkept = True
        self.touched = time.monotonic()
        before = engine.info().points_count  # an exact count would take 8 ms of 100,000 points
        try:
            with guarded("", f"answered with a failure. {UNSURE}"):
                engine.update(update)
        except EngineFailure:
            # What it holds in memory is no longer sure; the files and the log are.
            self.close()
            raise
        if self.record is not None:
            self.record.append(update)
        more = int(engine.info().points_count - before)
        if collection is not None:
            self.census.changed(collection, more)
        return more

    def keep(self) -> None:
        """Make what was written to it durable, and remember how many points that are.

        Its log is enough for that: after a power failure the engine does again what is in it. A
        flush syncs all files of all indexes, a hundred times. Raises EngineFailure.
        """
        if self._engine is None or not self._unkept:
            return
        self._unkept = False
        with guarded("", _NOT_KEPT):
            if LOG_IS_ENOUGH:
                self._check_files()
                sync_tree(self.shard / LOG)
            else:
                self.flush()
        self.census.write()

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
        log = identity(self.shard / LOG)
        if log is None:
            self.close()
            raise EngineFailure(_GONE)
        if log != self._log:
            logger.warning(_REPLACED, self.path.name)
            os._exit(1)


@contextlib.contextmanager
def surviving(marker: Path, most: int = _DEADLY_OPENINGS) -> Iterator[None]:
    """Count openings that end the host. Raises EngineFailure after so many in a row."""
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


def begin(place: Path, vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> edge.EdgeShard:
    """A new shard in that folder, its points found by their collection."""
    shard = edge.EdgeShard.create(str(place), types.shard_config(vectors, sparse))
    index_collections(shard)
    return shard


def index_collections(shard: edge.EdgeShard) -> None:
    """Let points be found by their collection."""
    by_collection = edge.KeywordIndexParams(is_tenant=True, enable_hnsw=False)
    shard.update(Update.create_field_index(KEY, by_collection))


def counted(engine: edge.EdgeShard) -> dict[str, int]:
    """The exact numbers of points by collection; info's own can be wrong after a crash.

    The engine also tells of values that no point has any more.
    """
    hits = engine.facet(edge.FacetRequest(KEY, limit=_MOST_COLLECTIONS, exact=True)).hits
    return {str(hit.value): hit.count for hit in hits if hit.count}


def all_indexes(engine: edge.EdgeShard) -> Mapping[str, Any]:
    """The payload indexes that the shard has, by field."""
    return engine.info().payload_schema


@contextlib.contextmanager
def guarded(name: str, failure: str = _FAILED) -> Iterator[None]:
    """Turn whatever the engine raises, its panics too, and what the disk refuses into our errors.

    `failure` ends the sentence that begins with the collection, or with the engine.
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
    logger.warning("%s: %s: %s", name, type(fault).__name__, text)
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
    """All matching points that can be read, in pages, with payload and vectors."""
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
    """One page of a scroll, and where the next begins; a damaged point hides no others."""
    try:
        with guarded(""):
            request = edge.ScrollRequest(with_payload=payload, with_vector=vector, **asked)
            return engine.scroll(request)
    except EngineFailure:
        bare = edge.ScrollRequest(with_payload=False, with_vector=False, **asked)
        found, offset = engine.scroll(bare)
        ids = [one.id for one in found]
        return readable(engine, ids, payload=payload, vector=vector), offset


def readable(engine: edge.EdgeShard, ids: Sequence[Any], *, payload: Any, vector: Any) -> list[Any]:
    """These points in their order, without those that the engine cannot read."""
    if not ids:
        return []
    try:
        with guarded(""):
            return engine.retrieve(list(ids), payload, vector)
    except EngineFailure:
        if len(ids) == 1:
            return []
        middle = len(ids) // 2
        halves = ids[:middle], ids[middle:]
        return [
            one for half in halves for one in readable(engine, half, payload=payload, vector=vector)
        ]
