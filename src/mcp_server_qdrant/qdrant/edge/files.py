"""The folder on disk: names, sparse copies, free space, and what to mend after a crash.

shards/<slug>         a collection: the engine's files, and among them
  collection.json     its description
  points              how many points it holds at least; see `counts`
  opening             a byte for each opening in a row that killed the host
shards/<slug>.next    a collection, whole, that is about to take the place of the one there
trash/ work/          emptied at every start

Versions before had the description and the number beside the folder, as <slug>.json and
<slug>.count: they are moved into it.
"""

import contextlib
import os
import shutil
import threading
import uuid
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from mcp_server_qdrant.core.disk import sync
from mcp_server_qdrant.core.errors import DiskFull

DESCRIPTION, POINTS, OPENING = "collection.json", "points", "opening"
MOVED = {".json": DESCRIPTION, ".count": POINTS}
_NEXT = ".next"
_LONGEST_SLUG = 120
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-~")
_DELETING = 8 << 20  # bytes that must stay free after a deletion
_BLOCK = 1 << 16


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

    def prepare(self) -> None:
        """Make the directories and mend what a crash left half done."""
        for path in (self.shards, self.trash, self.work):
            path.mkdir(parents=True, exist_ok=True)
        for path in (*self.trash.iterdir(), *self.work.iterdir()):
            _remove(path)
        for path in sorted(self.shards.iterdir()):
            self._mend(path)

    def _mend(self, path: Path) -> None:
        if path.suffix == _NEXT:
            self._settle(path)
        elif path.suffix in MOVED:
            target = path.with_suffix("") / MOVED[path.suffix]
            if target.parent.is_dir() and not target.exists():
                path.replace(target)
        elif path.is_dir():
            # Left by a killed optimisation; loading never cleans it.
            _remove(path / "temp_segments")

    def collections(self) -> list[Path]:
        """The directories of collections; copies that somebody left beside them are none."""
        return [
            path
            for path in self.shards.iterdir()
            if ((path / "segments").is_dir() or (path / DESCRIPTION).exists())
            and slug_of(name_of(path.name)) == path.name
        ]

    def place(self, kind: str) -> Path:
        """A new directory to work in; gone at the next start at the latest."""
        place = self.work / f"{kind}-{uuid.uuid4().hex}"
        place.mkdir()
        return place

    def discard(self, path: Path) -> None:
        """Remove a directory: out of sight at once, from the disk in the background."""
        target = self.trash / f"{path.name}-{uuid.uuid4().hex}"
        with contextlib.suppress(FileNotFoundError):
            path.rename(target)
            sync(path.parent)
            threading.Thread(target=_remove, args=(target,), daemon=True).start()

    def receive(self, slug: str, staged: Path) -> None:
        """Put a collection that is staged in the place of the one there.

        A crash before the first renaming leaves the old one, whole, a crash after it the new one.
        """
        following = self.shards / f"{slug}{_NEXT}"
        staged.rename(following)
        sync(self.shards)
        self._settle(following)

    def _settle(self, following: Path) -> None:
        shard = following.with_suffix("")
        self.discard(shard)
        following.rename(shard)
        sync(self.shards)

    def require_space(self, wanted: int, *, deleting: bool = False) -> None:
        """Raise DiskFull unless so many bytes are free beside the reserve, which deletions may use.

        The engine's files are sparse, so a full disk would kill the host in mid-write.
        """
        needed = wanted + (_DELETING if deleting else self._min_free)
        free = shutil.disk_usage(self.root).free
        if free < needed:
            outcome = "deleted" if deleting else "written"
            raise DiskFull(
                f"Nothing was {outcome}: {free >> 20} MB are free on the disk,"
                f" {needed >> 20} MB are needed."
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
    """Copy a tree; holes stay holes."""
    for path in (source, *source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        else:
            with path.open("rb") as read:
                copy_with_holes(read, place)


def copy_with_holes(read: BinaryIO, target: Path) -> None:
    """Copy an open file; blocks of zeros become holes."""
    with target.open("wb") as write:
        while block := read.read(_BLOCK):
            if block == bytes(len(block)):
                write.seek(len(block), os.SEEK_CUR)
            else:
                write.write(block)
        write.truncate()
