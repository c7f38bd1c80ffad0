"""The files below the paths that a person gave, in the same order every time."""

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
from mcp_server_qdrant.core.disk import NO_FILE, OUTSIDE, opened, place_in
from mcp_server_qdrant.core.errors import BackendError, RequestError, UnusableFile
from mcp_server_qdrant.ingest.files.patterns import Patterns
from mcp_server_qdrant.ingest.secrets import MASK, spans, without

IGNORE_FILE = ".gitignore"
MOST_RULES = 1_000_000  # bytes
NEVER = frozenset({"node_modules", "__pycache__"})  # made by tools; hidden ones are left out anyway
LOOK_SECONDS = 600.0  # to walk through the folders, or to read one file, from a slow network drive
AWAY = "The drive that the files are on does not answer: is it connected?"

T = TypeVar("T")

Stamp = tuple[int, ...]  # size and time: of two versions of a file these differ


class Looks:
    """Looks at the files of one request, one after the other, in a thread of their own.

    A look at a network drive that hangs may never end. It blocks nothing but this thread.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)

    async def __call__(
        self, look: Callable[..., T], *given: object, seconds: float = LOOK_SECONDS
    ) -> T:
        """What the look returns. Raises BackendError where it takes longer."""
        loop, call = asyncio.get_running_loop(), partial(look, *given)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await loop.run_in_executor(self._thread, call)
        except TimeoutError as error:
            if not limit.expired():  # it is the drive's own
                raise
            raise BackendError(AWAY) from error


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, or one file, and the name that the ids of its documents begin with.

    Whether it is a folder is looked up once: one that vanishes later has not become a file.
    """

    name: str
    path: Path
    folder: bool

    @property
    def only(self) -> str | None:
        """The one file's document; None of a folder."""
        return None if self.folder else _normal(f"{self.name}/{self.path.name}")


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was seen: `path` is the source's name and its place below.

    `path` is the same on every machine; it is the id of the file's document. `mtime` is in
    nanoseconds: an engine may return a fraction of a second changed in its last digit. The file
    must be `within` its source when it is read; None: it was named itself, and may be a link.
    """

    source: str
    path: str
    file: Path
    size: int
    mtime: int
    within: Path | None = None

    @property
    def stamp(self) -> Stamp:
        """Numbers that differ once the file was changed."""
        return self.size, self.mtime


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not, or not wholly, in the collection, and why.

    `kept` says that what was stored of it earlier stays. `stamp` is that of a file which cannot be
    read before it changes.
    """

    path: str
    reason: str
    kept: bool = False
    stamp: Stamp = ()


@dataclass(slots=True)
class Seen:
    """Everything below the paths. Nothing is known of what is below the `unseen` folders."""

    files: list[Found] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def sources(paths: Sequence[Path], name: str | None = None) -> list[Source]:
    """The paths with their names: the folder's own, a file's folder's, or the one given.

    Raises RequestError where there is no such path, or two have one name.
    """
    if name is not None and len(paths) > 1:
        raise RequestError("A name can be given to one path at a time.")
    found: dict[str, Source] = {}
    for path in map(Path.absolute, paths):
        if not os.access(path, os.F_OK):
            raise RequestError(f"There is no {path}, or it may not be looked at.")
        folder = path if path.is_dir() else path.parent
        own = name or folder.resolve().name or "root"
        source = Source(_normal(own), path, folder=folder == path)
        key = source.only or source.name
        if "/" in source.name:
            raise RequestError(f"The name {source.name!r} must not hold a slash.")
        if key in found and found[key].path != path:
            raise RequestError(
                f"Two of the paths are named {key!r}: take one at a time, with --name."
            )
        found[key] = source
    return list(found.values())


def walk_all(sources: Sequence[Source], selection: Selection) -> Seen:
    """All files of all sources that are wanted, each place once.

    Left out, unmentioned: hidden files, and what a .gitignore or the selection excludes. Links to
    folders and those out of the source are problems. Whatever cannot be looked at is a problem,
    too, and never an error.
    """
    seen = Seen()
    for source in sources:
        walk = _Walk(source, selection, seen)
        if source.folder:
            walk.descend()
        else:  # a link, too, is what was named
            walk.look(source.path)
    return seen


class _Walk:
    """The folders below one source, with the rules that hold in each."""

    def __init__(self, source: Source, selection: Selection, seen: Seen) -> None:
        self._source = source
        self._top = source.path if source.folder else source.path.parent
        self._within = source.path if source.folder else None
        self._include = Patterns(selection.include) if selection.include else None
        self._exclude = Patterns(selection.exclude)
        self._seen = seen
        self._places = {one.path for one in seen.files}

    def descend(self) -> None:
        """Look at everything that is wanted, a folder's files before its folders."""
        above = tuple(_rules_above(self._top))
        if _ignored(self._top, above, is_folder=True):
            above = ()  # who names an ignored folder wants it
        waiting = [(self._top, above)]
        while waiting:
            folder, rules = waiting.pop()
            entries = self._entries(folder)
            if any(entry.name == IGNORE_FILE for entry in entries):
                rules = (*self._rules_of(folder), *rules)  # the innermost first
            below = [one for one in entries if self._wanted(one, rules)]
            for entry in below:
                if not entry.is_dir(follow_symlinks=False):
                    self.look(Path(entry.path), link=entry.is_symlink())
            folders = [Path(one.path) for one in below if one.is_dir(follow_symlinks=False)]
            waiting += [(one, rules) for one in reversed(folders)]

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """What is in a folder; one that cannot be looked into is unseen."""
        try:
            with os.scandir(folder) as entries:
                # To tell folders from files may take a look at each, which may be refused, too.
                found = sorted(
                    entries, key=lambda one: (one.is_dir(follow_symlinks=False), one.name)
                )
        except OSError as error:
            place = f"{self._place(folder)}/"
            self._seen.unseen.append(_normal(place))
            self._problem(place, f"cannot be looked into: {error.strerror}", kept=True)
            return []
        self._seen.folders.append(folder)
        return found

    def _wanted(self, entry: os.DirEntry[str], rules: "Sequence[_Rules]") -> bool:
        if entry.name.startswith(".") or entry.name in NEVER:
            return False
        path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
        own = _below(self._top, path, is_folder=is_folder)
        if _ignored(path, rules, is_folder=is_folder) or self._exclude.match(own):
            return False
        return is_folder or self._include is None or bool(self._include.match(own))

    def look(self, file: Path, *, link: bool = False) -> None:
        """Record one entry that is no folder."""
        place = _normal(self._place(file))
        if link and self._within and place_in(self._within, file) is None:
            self._problem(place, OUTSIDE)
            return
        try:
            status = file.stat()
        except OSError as error:
            # What it leads to is gone. But where a file goes that was listed just now, or that is
            # all of its source, the drive may have gone.
            gone = link and isinstance(error, FileNotFoundError)
            self._problem(place, f"cannot be read: {error.strerror}", kept=not gone)
            return
        if stat.S_ISDIR(status.st_mode):
            self._problem(place, "is a link to a folder, which is not followed")
        elif not stat.S_ISREG(status.st_mode):
            self._problem(place, NO_FILE)
        elif as_utf8(place) != place:
            self._problem(place, "its name is not UTF-8")
        elif place in self._places:  # spelled in two ways, or without what told it apart
            if MASK in place:
                self._problem(place, "another file has this name without secrets", kept=True)
        else:
            self._places.add(place)
            size, written = status.st_size, status.st_mtime_ns
            self._seen.files.append(
                Found(self._source.name, place, file, size, written, self._within)
            )

    def _rules_of(self, folder: Path) -> "list[_Rules]":
        """The rules of a folder; those that cannot be read are a problem."""
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
    """The rules of the folders around the root, up to the repository that it is in."""
    above = list(root.parents)
    top = next((i for i, one in enumerate(above) if os.access(one / ".git", os.F_OK)), None)
    if top is None or os.access(root / ".git", os.F_OK):
        return
    for folder in above[: top + 1]:
        # Not below the path that was given: a fault there is none of our business.
        with contextlib.suppress(OSError, UnusableFile):
            yield from _read_rules(folder, None)


def _read_rules(folder: Path, within: Path | None) -> list[_Rules]:
    try:
        with opened(folder / IGNORE_FILE, within) as file:
            text = file.read(MOST_RULES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return []
    if len(text) > MOST_RULES:
        raise UnusableFile(f"is larger than {MOST_RULES / 1e6:.0f} MB and not heeded")
    return [(folder, Patterns(text.decode("utf-8", "replace").splitlines()))]


def _below(folder: Path, path: Path, *, is_folder: bool) -> str:
    return f"{path.relative_to(folder).as_posix()}{'/' if is_folder else ''}"


def _normal(text: str) -> str:
    """A name or place without secrets and in composed characters: file systems spell differently.

    A file keeps its ending, which tells its format.
    """
    parts = map(PurePosixPath, unicodedata.normalize("NFC", text).split("/"))
    pairs = [(one.stem, one.suffix) if len(one.suffix) < 7 else (one.name, "") for one in parts]
    return "/".join(without(name, spans(name)) + ending for name, ending in pairs)


def as_utf8(text: str) -> str:
    """A file's name without the bytes that are no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")
