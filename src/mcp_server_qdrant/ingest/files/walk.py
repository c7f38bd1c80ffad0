"""Walks the given paths and lists their files, always in the same order."""

import asyncio
import contextlib
import os
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.disk import NO_FILE, OUTSIDE, open_file, place_in
from mcp_server_qdrant.core.errors import BackendError, RequestError, UnusableFile
from mcp_server_qdrant.ingest.files.patterns import Patterns
from mcp_server_qdrant.ingest.secrets import MASK, spans, without

IGNORE_FILE = ".gitignore"
MOST_RULES = 1_000_000  # bytes of an ignore file
NEVER = frozenset({"node_modules", "__pycache__"})  # folders ignored in addition to hidden ones
LOOK_SECONDS = 600.0  # timeout of a walk, or of reading a file; network drives can be slow
AWAY = "The drive that the files are on does not answer: is it connected?"

T = TypeVar("T")

Stamp = tuple[int, ...]  # size and modification time


class Looks:
    """Runs the file system calls of one request, one at a time, in a thread of their own.

    A call to a network drive may hang forever; it blocks only this thread.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)

    async def __call__(
        self, look: Callable[..., T], *given: object, seconds: float = LOOK_SECONDS
    ) -> T:
        """The result of a call. Raises BackendError on a timeout."""
        loop, call = asyncio.get_running_loop(), partial(look, *given)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await loop.run_in_executor(self._thread, call)
        except TimeoutError as error:
            if not limit.expired():  # raised by the call itself
                raise
            raise BackendError(AWAY) from error


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, or one file, and the name with which the ids of its documents begin.

    `folder` is determined once, because a folder that vanishes must not count as a file.
    """

    name: str
    path: Path
    folder: bool

    @property
    def only(self) -> str | None:
        """The document of a single file; None for a folder."""
        return None if self.folder else _normal(f"{self.name}/{self.path.name}")


@dataclass(frozen=True, slots=True)
class Found:
    """A file found by a walk.

    `path` is the source's name and the relative path, the same on every machine; it is the id of
    the document. `mtime` is an integer of nanoseconds, because an engine may change the last digit
    of a float. The file must be `within` its source when it is read; None: the file was named
    itself and may be a link.
    """

    source: str
    path: str
    file: Path
    size: int
    mtime: int
    within: Path | None = None

    @property
    def stamp(self) -> Stamp:
        """Size and modification time, which differ after a change."""
        return self.size, self.mtime


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not, or not completely, in the collection, and why.

    `kept`: what was stored of it earlier stays. `stamp` is set if reading cannot succeed before the
    file changes.
    """

    path: str
    reason: str
    kept: bool = False
    stamp: Stamp = ()


@dataclass(slots=True)
class Seen:
    """Everything below the paths; the contents of `unseen` folders are unknown."""

    files: list[Found] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def sources(paths: Sequence[Path], name: str | None = None) -> list[Source]:
    """The paths with names: that of the folder, or of a file's folder, or the given `name`.

    Raises RequestError if a path does not exist, or two have the same name.
    """
    if name is not None and len(paths) > 1:
        raise RequestError("A name can be given to one path at a time.")
    found: dict[str, Source] = {}
    for path in map(Path.absolute, paths):
        if not os.access(path, os.F_OK):
            raise RequestError(f"{path} does not exist or is not accessible.")
        folder = path if path.is_dir() else path.parent
        own = name or folder.resolve().name or "root"
        source = Source(_normal(own), path, folder=folder == path)
        key = source.only or source.name
        if "/" in source.name:
            raise RequestError(f"The name {source.name!r} must not contain a slash.")
        if key in found and found[key].path != path:
            raise RequestError(
                f"Two of the paths are named {key!r}: take one at a time, with --name."
            )
        found[key] = source
    return list(found.values())


def walk_all(sources: Sequence[Source], selection: Selection) -> Seen:
    """All selected files of all sources, without duplicates.

    Hidden files and those that a .gitignore or the selection excludes are left out silently.
    Links to folders or out of the source, and everything unreadable, are problems, never errors.
    """
    seen = Seen()
    for source in sources:
        walk = _Walk(source, selection, seen)
        if source.folder:
            walk.descend()
        else:  # may be a link, since it was named itself
            walk.record(source.path)
    return seen


class _Walk:
    """The walk through one source, with the ignore rules of each folder."""

    def __init__(self, source: Source, selection: Selection, seen: Seen) -> None:
        self._source = source
        self._top = source.path if source.folder else source.path.parent
        self._within = source.path if source.folder else None
        self._include = Patterns(selection.include) if selection.include else None
        self._exclude = Patterns(selection.exclude)
        self._seen = seen
        self._places = {one.path for one in seen.files}

    def descend(self) -> None:
        """Record everything that is selected, a folder's files before its subfolders."""
        above = tuple(_rules_above(self._top))
        if _ignored(self._top, above, is_folder=True):
            above = ()  # an ignored folder that is named explicitly is wanted
        waiting = [(self._top, above)]
        while waiting:
            folder, rules = waiting.pop()
            entries = self._list(folder)
            if any(entry.name == IGNORE_FILE for entry in entries):
                rules = (*self._read_rules(folder), *rules)  # the innermost first
            folders = []
            for entry in (one for one in entries if self._selects(one, rules)):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    self.record(Path(entry.path), link=entry.is_symlink())
            waiting += [(one, rules) for one in reversed(folders)]

    def _list(self, folder: Path) -> list[os.DirEntry[str]]:
        """The entries of a folder; an unreadable one is recorded as unseen."""
        try:
            with os.scandir(folder) as entries:
                # `is_dir` may need a stat call, which can fail too.
                found = sorted(
                    entries, key=lambda one: (one.is_dir(follow_symlinks=False), one.name)
                )
        except OSError as error:
            place = f"{self._place(folder)}/"
            self._seen.unseen.append(_normal(place))
            self._problem(place, f"cannot be opened: {error.strerror}", kept=True)
            return []
        self._seen.folders.append(folder)
        return found

    def _selects(self, entry: os.DirEntry[str], rules: "Sequence[_Rules]") -> bool:
        if entry.name.startswith(".") or entry.name in NEVER:
            return False
        path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
        own = _below(self._top, path, is_folder=is_folder)
        if _ignored(path, rules, is_folder=is_folder) or self._exclude.match(own):
            return False
        if is_folder or self._include is None:
            return True
        above = (f"{folder}/" for folder in PurePosixPath(own).parents)
        verdicts = map(self._include.match, (own, *above))
        return next((one for one in verdicts if one is not None), False)

    def record(self, file: Path, *, link: bool = False) -> None:
        """Record a file, or a problem with an entry that is not a folder."""
        place = _normal(self._place(file))
        if link and self._within and place_in(self._within, file) is None:
            self._problem(place, OUTSIDE)
            return
        try:
            status = file.stat()
        except OSError as error:
            # A dangling link is gone. If a file vanishes that was just listed, or that is the whole
            # source, the drive may be disconnected.
            gone = link and isinstance(error, FileNotFoundError)
            self._problem(place, f"cannot be read: {error.strerror}", kept=not gone)
            return
        if stat.S_ISDIR(status.st_mode):
            self._problem(place, "is a link to a folder, which is not followed")
        elif not stat.S_ISREG(status.st_mode):
            self._problem(place, NO_FILE)
        elif as_utf8(place) != place:
            self._problem(place, "its name is not UTF-8")
        elif place in self._places:  # another spelling, or masking made them equal
            if MASK in place:
                self._problem(place, "another file has this name without secrets", kept=True)
        else:
            self._places.add(place)
            size, written = status.st_size, status.st_mtime_ns
            self._seen.files.append(
                Found(self._source.name, place, file, size, written, self._within)
            )

    def _read_rules(self, folder: Path) -> "list[_Rules]":
        """The rules of a folder; an unreadable ignore file is a problem."""
        try:
            return _read_rules(folder, self._within)
        except (OSError, UnusableFile) as error:
            reason = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else error
            self._problem(self._place(folder / IGNORE_FILE), str(reason))
            return []

    def _place(self, path: Path) -> str:
        below = path.relative_to(self._top).as_posix()
        return self._source.name if below == "." else f"{self._source.name}/{below}"

    def _problem(self, place: str, reason: str, *, kept: bool = False) -> None:
        self._seen.problems.append(Problem(as_utf8(_normal(place)), reason, kept))


_Rules = tuple[Path, Patterns]


def _ignored(path: Path, rules: "Sequence[_Rules]", *, is_folder: bool) -> bool:
    for folder, patterns in rules:
        verdict = patterns.match(_below(folder, path, is_folder=is_folder))
        if verdict is not None:
            return verdict
    return False


def _rules_above(root: Path) -> Iterator[_Rules]:
    """The rules of the root's parent folders, up to the top of its repository."""
    above = list(root.parents)
    top = next((i for i, one in enumerate(above) if os.access(one / ".git", os.F_OK)), None)
    if top is None or os.access(root / ".git", os.F_OK):
        return
    for folder in above[: top + 1]:
        # These folders are outside of the given path; errors there are ignored.
        with contextlib.suppress(OSError, UnusableFile):
            yield from _read_rules(folder, None)


def _read_rules(folder: Path, within: Path | None) -> list[_Rules]:
    try:
        with open_file(folder / IGNORE_FILE, within) as file:
            text = file.read(MOST_RULES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return []
    if len(text) > MOST_RULES:
        raise UnusableFile(f"is larger than {MOST_RULES / 1e6:.0f} MB and ignored")
    return [(folder, Patterns(text.decode("utf-8-sig", "replace").split("\n")))]


def _below(folder: Path, path: Path, *, is_folder: bool) -> str:
    return as_utf8(f"{path.relative_to(folder).as_posix()}{'/' if is_folder else ''}")


def _normal(text: str) -> str:
    """A path with secrets masked, in NFC, because file systems differ in normalisation.

    A file keeps its suffix, which determines the format.
    """
    parts = map(PurePosixPath, unicodedata.normalize("NFC", text).split("/"))
    pairs = [(one.stem, one.suffix) if len(one.suffix) < 7 else (one.name, "") for one in parts]
    return "/".join(without(name, spans(name)) + ending for name, ending in pairs)


def as_utf8(text: str) -> str:
    """A file's name with invalid UTF-8 replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
