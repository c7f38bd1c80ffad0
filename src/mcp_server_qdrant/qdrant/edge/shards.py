"""The shards of one folder: all, the open ones, and their sidecars.

Used by one thread of the host (see `serve`).
"""

import contextlib
import json
import os
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import (
    EngineFailure,
    InvalidFilter,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.notation import name_fault
from mcp_server_qdrant.hosting.log import log
from mcp_server_qdrant.hosting.wire import sync, write_atomically
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE, Census, parts_of
from mcp_server_qdrant.qdrant.edge.files import Folder, name_of, slug_of, used
from mcp_server_qdrant.qdrant.edge.schema import shard_config

_DEADLY_OPENINGS = 2
_RETRY_SECONDS = 600.0  # a slow opening may have been killed by an impatient user
_NAMELESS = "The description of the collection {!r} is missing or damaged: restore a backup."
_EMPTIED = (
    "The data of the collection {0!r} is gone from the disk: restore a backup, or run"
    " mcp-server-qdrant accept-loss {0!r} to forget the collection."
)
_TWICE = "There is another folder with the data of a collection of this name: it is not read."


class Shard:
    """One collection: its sidecar and, while it is open, its engine.

    `fault`: why it cannot be used at all. `note`: another problem.
    """

    def __init__(
        self, slug: str, sidecar: dict[str, Any], folder: Path, fault: str | None = None
    ) -> None:
        self.slug = slug
        self.sidecar = sidecar
        self.fault = fault
        self.note: str | None = None
        self.census = Census(folder / f"{slug}.count", str(sidecar.get("token")))
        self.known: dict[str, Any] = {}  # its count and info, until the next write
        self.parts: frozenset[Any] = frozenset()  # of its folder, when it was opened
        self.engine: edge.EdgeShard | None = None
        self.firsts: dict[bytes, dict[int, Any]] = {}  # by guard and id, likewise
        self.record: list[edge.UpdateOperation] | None = None  # while a copy is optimised
        self.dirty = False  # written to and not yet flushed: must not be closed
        self.written = 0.0  # when, on the monotonic clock
        self.deleted = 0  # points deleted since it was optimised

    @property
    def name(self) -> str:
        """The collection's name."""
        return str(self.sidecar["name"])

    def damage(self, *, numbers: bool = True) -> str | None:
        """The loss in a sentence; without `numbers` for those who may not know how many points."""
        lost = self.census.damage(self.name)
        return " ".join(filter(None, (lost if numbers else lost and INCOMPLETE, self.note))) or None

    def changed(self) -> None:
        """Its points are others from now on."""
        self.known = {}
        self.firsts = {}


class Shards:
    """All shards of a folder; at most `max_open` are open, the least recently used is closed."""

    def __init__(self, folder: Folder, max_open: int) -> None:
        self.folder = folder
        self._max_open = max_open
        self._all: dict[str, Shard] = {}
        self._open: OrderedDict[str, Shard] = OrderedDict()

    def scan(self) -> None:
        """Read all sidecars, and find shards without one."""
        shards: dict[str, Shard] = {}
        for path in self.folder.shards.glob("*.json"):
            slug = path.name.removesuffix(".json")
            try:
                sidecar = json.loads(path.read_text("utf-8"))
                _ = sidecar["name"], sidecar["vectors"], sidecar["sparse_vectors"]
                shards[slug] = Shard(slug, sidecar, self.folder.shards)
            except (OSError, ValueError, LookupError, TypeError) as error:
                log(f"sidecar {path.name} is not readable: {error}")
        for slug in self.folder.slugs() - shards.keys():
            name = name_of(slug)
            nothing = {"name": name, "vectors": {}, "sparse_vectors": {}}
            fault = _NAMELESS.format(name)
            shards[slug] = Shard(slug, nothing, self.folder.shards, fault)
            log(f"{slug}: {fault}")
        # Of two with one name the last is the collection: whole, with the usual file names.
        for shard in sorted(shards.values(), key=self._fitness):
            self._enter(shard)

    def _fitness(self, shard: Shard) -> tuple[bool, bool]:
        whole = shard.fault is None and self.path(shard).is_dir()
        return whole, shard.slug == slug_of(shard.name)

    def _enter(self, shard: Shard) -> None:
        """Make it the collection of its name; another of that name is left alone."""
        other = self._all.get(shard.name)
        self._all[shard.name] = shard
        if other is not None and (other.fault or self.path(other).is_dir()):
            shard.note = _TWICE
            log(f"{other.slug} is not read: {shard.slug} is the collection {shard.name!r} too")

    def names(self) -> list[str]:
        """All collections, sorted."""
        return sorted(self._all)

    def recent(self, most: int) -> list[str]:
        """The collections that were written to last, the latest first."""
        when = {name: used(self.path(shard)) for name, shard in self._all.items()}
        return sorted(when, key=lambda name: (-when[name], name))[: min(most, self._max_open)]

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
            self._open[shard.slug] = shard
            self._close_idle(keep=shard)
        self._open.move_to_end(shard.slug)
        return shard.engine

    def exact_count(self, shard: Shard) -> int:
        """The number of points; info's own count can be wrong after a crash."""
        if "count" not in shard.known:
            with guarded(shard.name):
                engine = self.engine(shard)
                shard.known["count"] = engine.count(edge.CountRequest(exact=True))
        return int(shard.known["count"])

    def _load(self, shard: Shard) -> edge.EdgeShard:
        if not self.path(shard).is_dir():
            raise EngineFailure(_EMPTIED.format(shard.name))
        marker = self.folder.shards / f"{shard.slug}.opening"
        deaths, last, full = _deaths(marker)
        now, room = time.time(), self.folder.has_room()
        if deaths >= _DEADLY_OPENINGS and abs(now - last) < _RETRY_SECONDS and not (full and room):
            again = "once there is room on the disk" if full else "in a few minutes"
            raise EngineFailure(
                f"The collection {shard.name!r} could not be opened: the engine stopped"
                f" {deaths} times while it tried. It tries again {again}."
            )
        with contextlib.suppress(OSError):  # a full disk must not refuse reads
            marker.write_text(json.dumps({"deaths": deaths + 1, "time": now, "full": not room}))
        try:
            with guarded(shard.name, "could not be opened"):
                engine = edge.EdgeShard.load(str(self.path(shard)))
                self._compare(shard, engine)
                return engine
        finally:
            with contextlib.suppress(OSError):
                marker.unlink(missing_ok=True)

    def _compare(self, shard: Shard, engine: edge.EdgeShard) -> None:
        """Notice what was lost since it was flushed last; said once."""
        known = shard.census.missing
        count = engine.count(edge.CountRequest(exact=True))
        shard.census.opened(engine, count)
        shard.parts = parts_of(self.path(shard))
        if shard.known.setdefault("count", count) != count:  # other files than before
            shard.known = {"count": count}
        if shard.census.missing not in (0, known):
            log(f"{shard.name}: {shard.damage()}")

    def flushed(self, shard: Shard, engine: edge.EdgeShard) -> None:
        """Flush it, and remember how many points are durable."""
        self.check(shard)
        engine.flush()
        shard.census.flushed(engine)

    def check(self, shard: Shard) -> None:
        """End the host where the files under an open shard were deleted or replaced.

        A flush would write into what has taken their place. The next host opens what is there.
        """
        if not shard.parts <= parts_of(self.path(shard)) and not self.folder.gone():
            log(f"{shard.name}: its files were replaced while it was open; the host starts anew")
            os._exit(1)

    def accept_loss(self, name: str) -> tuple[int, int | None]:
        """Go on without what is missing: how many points that are, and how many there are.

        A collection that has no data any more is forgotten (None).
        """
        shard = self.get(name)
        if not self.path(shard).is_dir():
            lost = shard.census.remembered() or 0
            self.drop(shard)
            return lost, None
        engine = self.engine(shard)
        return shard.census.accept(engine), self.exact_count(shard)

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
        described = {**sidecar, "name": name, "created_at": created_at}
        shard = Shard(slug_of(name), described, self.folder.shards)
        draft = self.folder.shards / f"{shard.slug}.json.new"
        write_atomically(draft, json.dumps(shard.sidecar))
        with guarded(name, "could not be created"):
            shard.engine = edge.EdgeShard.create(str(self.path(shard)), config)
            shard.engine.flush()
            self._compare(shard, shard.engine)
        draft.replace(self._sidecar_path(shard))
        sync(self.folder.shards)
        self._all[name] = self._open[shard.slug] = shard
        self._close_idle(keep=shard)

    def adopt(self, name: str, staged: Path) -> None:
        """Make what is staged the collection of that name, in the place of one that is there."""
        sidecar = json.loads((staged / "json").read_text("utf-8"))
        old = self._all.get(name)
        slug = slug_of(name) if old is None else old.slug
        if old is not None:
            old.record = None
            self.close(old)
        self.folder.receive(slug, staged)
        self._all[name] = Shard(slug, sidecar, self.folder.shards)
        self.folder.settle(slug)

    def save(self, shard: Shard, **changes: Any) -> None:
        """Change the sidecar, on the disk first."""
        sidecar = {**shard.sidecar, **changes}
        write_atomically(self._sidecar_path(shard), json.dumps(sidecar))
        shard.sidecar = sidecar

    def _sidecar_path(self, shard: Shard) -> Path:
        return self.folder.shards / f"{shard.slug}.json"

    def drop(self, shard: Shard) -> None:
        """Delete the collection; it is gone once its sidecar is."""
        gone = self.folder.shards / f"{shard.slug}.json.gone"
        if shard.fault:  # it has no sound one
            gone.touch()
            self._sidecar_path(shard).unlink(missing_ok=True)
        else:
            self._sidecar_path(shard).replace(gone)
        sync(self.folder.shards)
        del self._all[shard.name]
        shard.record = None
        self.close(shard)
        self.folder.discard(self.path(shard))
        for end in ("opening", "count"):
            (self.folder.shards / f"{shard.slug}.{end}").unlink(missing_ok=True)
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
                shard.known = {}
                return False
        return True

    def close_all(self) -> None:
        """Flush and close every shard."""
        for shard in self.opened():
            self.close(shard)


def _deaths(marker: Path) -> tuple[int, float, bool]:
    """Deadly openings in a row, the time of the last, and whether the disk was full then."""
    try:
        found = json.loads(marker.read_text())
        return int(found["deaths"]), float(found["time"]), bool(found.get("full"))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return 0, 0.0, False


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
        return RequestError(f"The collection {name!r} has no payload index for this.")
    if found := re.search(r"invalid JSON path (.*)", text):
        return InvalidFilter(f"{found[1]!r} is not a payload path.")
    log(f"{name}: {type(fault).__name__}: {text}")
    if isinstance(fault, ValueError | TypeError | LookupError | AttributeError | ArithmeticError):
        return RequestError(f"The engine does not understand this request to {name!r}.")
    return EngineFailure(f"The collection {name!r} {failure}.")
