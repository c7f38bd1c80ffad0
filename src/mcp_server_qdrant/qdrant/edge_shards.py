"""The shards of one folder: which exist, which are open, and what their sidecars say.

Used by the writer and the readers of the host, one at a time (see `edge_gate`).
"""

import contextlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.errors import (
    EngineFailure,
    InvalidFilter,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.hosting.log import log
from mcp_server_qdrant.hosting.wire import sync, write_atomically
from mcp_server_qdrant.notation import name_fault
from mcp_server_qdrant.qdrant.edge_files import Folder, slug_of
from mcp_server_qdrant.qdrant.edge_schema import shard_config

_DEADLY_OPENINGS = 2
_RETRY_SECONDS = 600.0  # a slow opening may have been killed by an impatient user


class IndexNeeded(RequestError):
    """The engine would need a payload index for this."""


class Shard:
    """One collection: its sidecar and, while it is open, its engine."""

    def __init__(self, slug: str, sidecar: dict[str, Any]) -> None:
        self.slug = slug
        self.sidecar = sidecar
        self.engine: edge.EdgeShard | None = None
        self.count: int | None = None  # exact, until the next write
        self.idf: dict[tuple[str, int], float] = {}  # by vector and term, until the next write
        self.record: list[edge.UpdateOperation] | None = None  # while a copy is optimised
        self.dirty = False  # written to and not yet flushed: must not be closed
        self.written = 0.0  # when, on the monotonic clock
        self.deleted = 0  # points deleted since it was optimised

    @property
    def name(self) -> str:
        """The collection's name."""
        return str(self.sidecar["name"])

    def changed(self) -> None:
        """Its points are others now."""
        self.count = None
        self.idf = {}


class Shards:
    """All shards of a folder; at most `max_open` are open, the least recently used is closed."""

    def __init__(self, folder: Folder, max_open: int) -> None:
        self.folder = folder
        self._max_open = max_open
        self._all: dict[str, Shard] = {}
        self._open: OrderedDict[str, Shard] = OrderedDict()

    def scan(self) -> None:
        """Read all sidecars."""
        for path in self.folder.shards.glob("*.json"):
            try:
                sidecar = json.loads(path.read_text("utf-8"))
                self._all[sidecar["name"]] = Shard(path.name.removesuffix(".json"), sidecar)
            except (OSError, ValueError, KeyError, TypeError) as error:
                log(f"sidecar {path.name} is not readable: {error}")

    def names(self) -> list[str]:
        """All collections, sorted."""
        return sorted(self._all)

    def recent(self, most: int) -> list[str]:
        """The collections that were written to last, the latest first."""
        used = {name: _used(self.path(shard)) for name, shard in self._all.items()}
        return sorted(used, key=lambda name: (-used[name], name))[: min(most, self._max_open)]

    def opened(self) -> list[Shard]:
        """The shards that are open now."""
        return list(self._open.values())

    def get(self, name: str) -> Shard:
        """The collection, open or not."""
        shard = self._all.get(name)
        if shard is None:
            raise UnknownCollection(name)
        return shard

    def engine(self, shard: Shard) -> edge.EdgeShard:
        """The shard's engine, opened when needed."""
        if shard.engine is None:
            shard.engine = self._load(shard)
            self._open[shard.slug] = shard
            self._close_idle(keep=shard)
        self._open.move_to_end(shard.slug)
        return shard.engine

    def exact_count(self, shard: Shard) -> int:
        """The number of points; info's own count can be wrong after a crash."""
        if shard.count is None:
            with guarded(shard.name):
                shard.count = self.engine(shard).count(edge.CountRequest(exact=True))
        return shard.count

    def _load(self, shard: Shard) -> edge.EdgeShard:
        marker = self.folder.shards / f"{shard.slug}.opening"
        deaths, last = _deaths(marker)
        now = time.time()
        if deaths >= _DEADLY_OPENINGS and abs(now - last) < _RETRY_SECONDS:
            raise EngineFailure(
                f"The collection {shard.name!r} could not be opened: the engine stopped"
                f" {deaths} times while it tried. It tries again in a few minutes."
            )
        with contextlib.suppress(OSError):  # a full disk must not refuse reads
            marker.write_text(json.dumps({"deaths": deaths + 1, "time": now}))
        try:
            with guarded(shard.name, "could not be opened"):
                return edge.EdgeShard.load(str(self.path(shard)))
        finally:
            with contextlib.suppress(OSError):
                marker.unlink(missing_ok=True)

    def _close_idle(self, keep: Shard) -> None:
        for shard in list(self._open.values()):
            if len(self._open) <= self._max_open:
                return
            if shard.record is None and not shard.dirty and shard is not keep:
                self.close(shard)

    def path(self, shard: Shard) -> Path:
        """The shard's directory."""
        return self.folder.shards / shard.slug

    def create(self, name: str, sidecar: dict[str, Any]) -> None:
        """Make an empty collection; it exists once its sidecar does."""
        if fault := name_fault(name):
            raise RequestError(fault)
        if name in self._all:
            if self._all[name].sidecar.get("token") == sidecar["token"]:
                return  # repeated by a client that did not hear the first answer
            raise RequestError(f"The collection {name!r} already exists.")
        config = shard_config(sidecar["vectors"], sidecar["sparse_vectors"])
        created_at = datetime.now(UTC).isoformat()
        shard = Shard(slug_of(name), {**sidecar, "name": name, "created_at": created_at})
        draft = self.folder.shards / f"{shard.slug}.json.new"
        write_atomically(draft, json.dumps(shard.sidecar))
        with guarded(name, "could not be created"):
            shard.engine = edge.EdgeShard.create(str(self.path(shard)), config)
            shard.engine.flush()
        draft.replace(self._sidecar_path(shard))
        sync(self.folder.shards)
        self._all[name] = self._open[shard.slug] = shard
        self._close_idle(keep=shard)

    def save(self, shard: Shard) -> None:
        """Write the sidecar."""
        write_atomically(self._sidecar_path(shard), json.dumps(shard.sidecar))

    def _sidecar_path(self, shard: Shard) -> Path:
        return self.folder.shards / f"{shard.slug}.json"

    def drop(self, shard: Shard) -> None:
        """Delete the collection; it is gone once its sidecar is."""
        gone = self.folder.shards / f"{shard.slug}.json.gone"
        self._sidecar_path(shard).replace(gone)
        sync(self.folder.shards)
        del self._all[shard.name]
        shard.record = None
        self.close(shard)
        self.folder.discard(self.path(shard))
        (self.folder.shards / f"{shard.slug}.opening").unlink(missing_ok=True)
        gone.unlink(missing_ok=True)

    def close(self, shard: Shard) -> bool:
        """Flush and close; the next use opens it again. False when that failed."""
        self._open.pop(shard.slug, None)
        engine, shard.engine = shard.engine, None
        if engine is not None:
            try:
                with guarded(shard.name, "could not be closed"):
                    engine.close()
            except QdrantMcpError:
                return False
        return True

    def close_all(self) -> None:
        """Flush and close every shard."""
        for shard in self.opened():
            self.close(shard)


def _used(path: Path) -> float:
    """When the shard was written to last."""
    try:
        return max((file.stat().st_mtime for file in (path / "wal").iterdir()), default=0.0)
    except OSError:
        return 0.0


def _deaths(marker: Path) -> tuple[int, float]:
    """How often in a row opening was deadly, and when it was tried last."""
    try:
        found = json.loads(marker.read_text())
        return int(found["deaths"]), float(found["time"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0, 0.0


_SENTENCES = (
    (re.compile(r"Not existing vector name error: (.*)"), "There is no vector named {!r}."),
    (re.compile(r"invalid JSON path (.*)"), "{!r} is not a payload path."),
    (re.compile(r"No point with id (\S+)"), "There is no point with id {}."),
    (re.compile(r"Vector dimension error: (.*)"), "The vector's size is wrong: {}."),
)


@contextlib.contextmanager
def guarded(name: str, failure: str = "answered with a failure") -> Iterator[None]:
    """Turn whatever the engine raises, its panics too, into our errors."""
    try:
        yield
    except (QdrantMcpError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:  # noqa: BLE001 - panics derive from BaseException
        raise _error_of(name, failure, fault) from None


def _error_of(name: str, failure: str, fault: BaseException) -> QdrantMcpError:
    text = str(fault)
    if text.startswith(("No range index", "No appropriate index")):
        return IndexNeeded(f"The collection {name!r} has no payload index for this.")
    for pattern, sentence in _SENTENCES:
        if found := pattern.search(text):
            kind = InvalidFilter if "path" in sentence else RequestError
            return kind(sentence.format(found.group(1)))
    log(f"{name}: {type(fault).__name__}: {text}")
    if isinstance(fault, ValueError | TypeError | LookupError | AttributeError | ArithmeticError):
        return RequestError(f"The engine does not understand this request to {name!r}.")
    return EngineFailure(f"The collection {name!r} {failure}.")
