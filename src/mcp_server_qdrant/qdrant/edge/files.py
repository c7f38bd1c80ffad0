"""The folder on disk: names, sparse copies, free space, and cleaning up after a crash.

collections/ unwanted/   the catalogue; see `catalogue`
spaces/                  the points of the collections; see `space`
shards/                  collections of an earlier version; see `takeover`
trash/ work/             emptied at every start
"""

import contextlib
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from urllib.parse import unquote

from mcp_server_qdrant.core.disk import sync_folder
from mcp_server_qdrant.core.errors import DiskFull

STAGED = "\0"  # first character of a collection that is being restored; no other name has it
MIN_FREE = 256 << 20  # bytes that must stay free on the disk
_LONGEST_SLUG = 120
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-~")
_DELETING = 8 << 20  # bytes that must stay free after a deletion
_BLOCK = 1 << 16
_READ_AHEAD = 1 << 30  # bytes


def slug_of(name: str) -> str:
    """The collection's file name: safe on all platforms, and distinct even if case is ignored."""
    plain = (c if c in _SAFE else "".join(f"%{b:02x}" for b in c.encode()) for c in name)
    slug = f"c-{''.join(plain)}"
    if len(slug) <= _LONGEST_SLUG:
        return slug
    return f"{slug[:80]}-{sha256(name.encode()).hexdigest()[:32]}"


def name_of(slug: str) -> str:
    """The collection's name from its file name; the slug itself if it was shortened."""
    name = unquote(slug.removeprefix("c-"))
    return name if slug_of(name) == slug else slug


def is_ours(root: Path) -> bool:
    """Whether the folder has collections of the embedded engine, of this or an earlier version."""
    return (root / "collections").is_dir() or (root / "shards").is_dir()


class Folder:
    """The directories of an engine folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spaces = root / "spaces"
        self.earlier = root / "shards"
        self.trash = root / "trash"
        self.work = root / "work"

    def prepare(self) -> None:
        """Create the directories and remove leftovers of a crash."""
        for path in (self.spaces, self.trash, self.work):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (*self.trash.iterdir(), *self.work.iterdir()):
            _remove(path)
        for path in self.spaces.glob("*/*/temp_segments"):
            _remove(path)  # left by a killed optimisation; loading never removes it

    def new_work_folder(self, kind: str) -> Path:
        """A new temporary directory; removed at the next start at the latest."""
        place = self.work / f"{kind}-{uuid.uuid4().hex}"
        place.mkdir()
        return place

    def discard(self, path: Path) -> None:
        """Remove a directory: a rename now, the deletion in the background."""
        target = self.trash / f"{path.name}-{uuid.uuid4().hex}"
        with contextlib.suppress(FileNotFoundError):
            path.rename(target)
            sync_folder(path.parent)
            threading.Thread(target=_remove, args=(target,), daemon=True).start()

    def set_aside(self, path: Path) -> None:
        """Move a damaged directory to `damaged`, for a person to inspect and delete."""
        kept = self.root / "damaged"
        kept.mkdir(mode=0o700, exist_ok=True)
        path.rename(kept / f"{path.parent.name}-{path.name}")

    def require_space(self, wanted: int, *, deleting: bool = False) -> None:
        """Raise DiskFull unless `wanted` bytes are free besides the reserve, smaller for deletions.

        The engine's files are sparse, so a full disk would kill the process in mid-write.
        """
        needed = wanted + (_DELETING if deleting else MIN_FREE)
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


def allocated(tree: Path) -> int:
    """Bytes allocated for a tree; holes of sparse files do not count."""
    total = 0
    for path in _paths(tree):
        with contextlib.suppress(FileNotFoundError):
            stat = path.lstat()
            if S_ISREG(stat.st_mode):
                total += int(getattr(stat, "st_blocks", stat.st_size // 512 + 1)) * 512
    return total


def read_ahead(tree: Path) -> threading.Thread:
    """Read a tree into the page cache in the background, the smallest files first.

    The engine drops its files from the cache when it opens them, and then reads single pages, so
    the first searches would wait for the disk for each text that they compare.
    """
    thread = threading.Thread(target=_read_all, args=(tree,), name="read-ahead", daemon=True)
    thread.start()
    return thread


def _read_all(tree: Path) -> None:
    left, buffer = _READ_AHEAD, bytearray(1 << 20)
    with contextlib.suppress(OSError):
        for size, path in sorted((path.lstat().st_size, path) for path in tree.rglob("*")):
            left -= size
            if left < 0:
                return
            if path.is_file():
                with path.open("rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass


def sync_tree(tree: Path) -> None:
    """Sync a whole tree to disk."""
    folders = [tree]
    for path in _paths(tree):
        if path.is_dir():
            folders.append(path)
            continue
        with contextlib.suppress(FileNotFoundError), path.open("rb+") as file:
            os.fsync(file.fileno())
    for folder in reversed(folders):
        sync_folder(folder)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a tree; blocks of zeros become holes."""
    target.mkdir(exist_ok=True)
    for path in _paths(source):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
            continue
        with (
            contextlib.suppress(FileNotFoundError),
            path.open("rb") as read,
            place.open("wb") as write,
        ):
            while block := read.read(_BLOCK):
                if block == bytes(len(block)):
                    write.seek(len(block), os.SEEK_CUR)
                else:
                    write.write(block)
            write.truncate()


def _paths(tree: Path) -> Iterator[Path]:
    """The paths in a tree, parents first; new ones too, until there are none.

    The engine renames files of its log at any time, so a path may be gone, and come under another
    name.
    """
    seen = set[Path]()
    while new := set(tree.rglob("*")) - seen:
        seen |= new
        yield from sorted(new)
