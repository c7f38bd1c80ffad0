"""The folder on disk: names, sparse copies, free space, and what to mend after a crash.

shards/<slug>           one shard per collection
shards/<slug>.json      its sidecar; the collection exists while this file does
shards/<slug>.json.new  it is being made; .json.gone: it is being deleted
shards/<slug>.arriving  an optimised copy or a restored collection, whole, about to replace what
                        it has of: data (the shard), json (its sidecar), count
shards/<slug>.opening   a byte for each opening in a row that killed the host
shards/<slug>.count     how many points it holds at least; see `counts`
trash/ work/            emptied at every start
"""

import contextlib
import errno
import os
import shutil
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from mcp_server_qdrant.core.disk import identity, sync
from mcp_server_qdrant.core.errors import DiskFull
from mcp_server_qdrant.qdrant.edge.wire import service

_LONGEST_SLUG = 120
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-~")
_DELETING = 8 << 20  # of the reserve, what deletions may count on


def slug_of(name: str) -> str:
    """The collection's file name: safe on every platform, distinct also when case is ignored."""
    plain = (c if c in _SAFE else "".join(f"%{b:02x}" for b in c.encode()) for c in name)
    slug = f"c-{''.join(plain)}"
    if len(slug) <= _LONGEST_SLUG:
        return slug
    return f"{slug[:80]}-{sha256(name.encode()).hexdigest()[:32]}"


def name_of(slug: str) -> str:
    """The name of the collection with these files; the slug itself where that is unknown."""
    name = unquote(slug.removeprefix("c-"))
    return name if slug_of(name) == slug else slug


class Folder:
    """The directories of an engine folder."""

    def __init__(self, root: Path, min_free: int) -> None:
        self.root = root
        self.shards = root / "shards"
        self.trash = root / "trash"
        self.work = root / "work"
        self._min_free = min_free
        self._lock = service(root).lock
        self._held = identity(self._lock)

    def gone(self) -> bool:
        """True once the folder whose lock we hold was deleted or moved: nothing written lasts."""
        return identity(self._lock) != self._held

    def prepare(self) -> None:
        """Make the directories and mend what a crash left half done."""
        for path in (self.shards, self.trash, self.work):
            path.mkdir(parents=True, exist_ok=True)
        for path in (*self.trash.iterdir(), *self.work.iterdir()):
            _remove(path)
        for path in sorted(self.shards.iterdir()):
            self._mend(path)

    def _mend(self, path: Path) -> None:
        slug = path.name.split(".")[0]
        shard = self.shards / slug
        if path.name.endswith(".draft"):
            path.unlink(missing_ok=True)
        elif path.name.endswith(".arriving"):
            self._settle(slug)
        elif path.name.endswith((".json.new", ".json.gone")):
            # Beside a sidecar it was brought back by something like a sync tool.
            if not (self.shards / f"{slug}.json").exists():
                _remove(shard)
                _remove(self.shards / f"{slug}.count")
            path.unlink(missing_ok=True)
        elif path.is_dir():
            # Left by a killed optimisation; loading never cleans it.
            _remove(path / "temp_segments")

    def slugs(self) -> set[str]:
        """The names of the directories that are shards, with the name of one."""
        found = {part.parent.name for part in self.shards.glob("c-*/segments")}
        return {slug for slug in found if slug_of(name_of(slug)) == slug}

    def discard(self, path: Path) -> None:
        """Remove a directory: out of sight at once, from the disk in the background."""
        target = self.trash / f"{path.name}-{uuid.uuid4().hex}"
        with contextlib.suppress(FileNotFoundError):
            path.rename(target)
            threading.Thread(target=_remove, args=(target,), daemon=True).start()

    def receive(self, slug: str, staged: Path) -> None:
        """Put what is staged in the place of the shard, its sidecar and its count.

        A crash before the first renaming leaves the old ones, whole, a crash after it the new ones.
        """
        staged.rename(self._arriving(slug))
        sync(self.shards)
        self._settle(slug)

    def _settle(self, slug: str) -> None:
        arriving, shard = self._arriving(slug), self.shards / slug
        if (arriving / "data").exists():
            for end in ("opening", "count"):
                (self.shards / f"{slug}.{end}").unlink(missing_ok=True)
            self.discard(shard)
            (arriving / "data").rename(shard)
        for end in ("count", "json"):
            if (arriving / end).exists():
                (arriving / end).replace(self.shards / f"{slug}.{end}")
        sync(self.shards)
        arriving.rmdir()

    def _arriving(self, slug: str) -> Path:
        return self.shards / f"{slug}.arriving"

    def require_space(self, wanted: int) -> None:
        """Raise DiskFull unless `wanted` bytes and the reserve are free.

        The engine's files are sparse, so a full disk would kill the host in mid-write.
        """
        self._require("Nothing was written", self._min_free + wanted)

    def require_space_to_delete(self, wanted: int) -> None:
        """The same for a deletion, which makes use of the reserve."""
        self._require("Nothing was deleted", _DELETING + wanted)

    def _require(self, outcome: str, needed: int) -> None:
        free = shutil.disk_usage(self.root).free
        if free < needed:
            raise DiskFull(
                f"{outcome}: {free >> 20} MB are free on the disk, {needed >> 20} MB are needed."
            )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def allocated(tree: Path | Iterable[Path]) -> int:
    """Bytes that a tree, or files, really occupy (holes are free)."""
    files = tree.rglob("*") if isinstance(tree, Path) else tree
    stats = [file.stat() for file in files if file.is_file()]
    return sum(int(getattr(stat, "st_blocks", stat.st_size // 512 + 1)) * 512 for stat in stats)


def sync_tree(path: Path) -> None:
    """Make a whole tree safe from a power failure."""
    for entry in path.iterdir():
        if entry.is_dir():
            sync_tree(entry)
        else:
            with entry.open("rb+") as file:
                os.fsync(file.fileno())
    sync(path)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a tree; holes stay holes where the platform can tell."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.is_dir():
            copy_sparse(entry, target / entry.name)
        else:
            with entry.open("rb") as read:
                copy_with_holes(read, target / entry.name)


def copy_with_holes(read: BinaryIO, target: Path) -> None:
    """Copy an open file; holes stay holes where the platform can tell."""
    if sys.platform != "linux":
        with target.open("wb") as plain:
            shutil.copyfileobj(read, plain)
        return
    with target.open("wb", buffering=0) as write:
        size = os.fstat(read.fileno()).st_size
        os.ftruncate(write.fileno(), size)
        for start, end in _data_ranges(read.fileno(), size):
            write.seek(start)
            while (left := end - write.tell()) > 0:
                if not os.sendfile(write.fileno(), read.fileno(), end - left, left):
                    raise OSError(errno.EIO, f"{target.name} became shorter while it was copied")


def _data_ranges(handle: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of an open file that are no holes: where each begins and ends."""
    position = 0
    while position < size:
        try:
            start = os.lseek(handle, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole to the end
                return
            yield position, size  # the file system does not know holes
            return
        position = os.lseek(handle, start, os.SEEK_HOLE)
        yield start, position
