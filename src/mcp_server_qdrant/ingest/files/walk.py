"""The files below the paths that a person gave, in the same order every time."""

import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcp_server_qdrant.core.errors import RequestError, UnusableFile
from mcp_server_qdrant.core.opening import NO_FILE, OUTSIDE, opened, place_in
from mcp_server_qdrant.core.rows import Selection
from mcp_server_qdrant.ingest.files.patterns import Patterns

IGNORE_FILE = ".gitignore"
MOST_RULES = 1_000_000  # bytes
NEVER = frozenset({"node_modules", "__pycache__"})  # made by tools; hidden ones are left out anyway
BROKEN_NAME = "its name is not UTF-8"

Stamp = tuple[int, ...]  # of two versions of a file these differ


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, or one file, and the name that the ids of its documents begin with.

    What it is was seen when it was named: a folder that vanishes later has not become a file.
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
    must be `within` a folder when it is read; None: wherever a link leads.
    """

    source: str
    path: str
    file: Path
    size: int
    mtime: int
    ctime: int = 0
    within: Path | None = None

    @property
    def stamp(self) -> Stamp:
        """Numbers that differ once the file, or who may read it, was changed."""
        return self.size, self.mtime, self.ctime


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not, or not wholly, in the collection, and why.

    `kept` says that what was stored of it earlier stays. `stamp` is that of the file, if it is
    one.
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

    Raises RequestError where there is no such path, it cannot be looked at, or two have one name.
    """
    if name is not None and len(paths) > 1:
        raise RequestError("A name can be given to one path at a time.")
    found: dict[str, Source] = {}
    for path in map(Path.absolute, paths):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise RequestError(f"There is no {path}.") from None
        except OSError as error:
            raise RequestError(f"{path} cannot be looked at: {error.strerror}.") from error
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
    """All files of all sources that are wanted, each place once."""
    whole = Seen()
    places: set[str] = set()
    for source in sources:
        seen = walk(source, selection)
        whole.problems += seen.problems
        whole.unseen += seen.unseen
        whole.folders += seen.folders
        for found in seen.files:
            if found.path in places:
                whole.problems.append(
                    Problem(
                        found.path,
                        "is there twice, spelled in two ways",
                    )
                )
            else:
                places.add(found.path)
                whole.files.append(found)
    return whole


def walk(source: Source, selection: Selection) -> Seen:
    """All files of a source that are wanted.

    Left out, unmentioned: hidden files, and what a .gitignore or the selection excludes. Unless
    links are followed, those to folders and those out of the source are problems. Whatever cannot
    be looked at is a problem, too, and never an error.
    """
    seen = Seen()
    if not source.folder:  # a link, too, is what was named
        _look(seen, source, source.path, f"{source.name}/{source.path.name}", None)
        return seen
    walker = _Walker(source, selection, seen)
    walker.descend()
    return seen


class _Walker:
    """The folders below one source, with the rules that hold in each."""

    def __init__(self, source: Source, selection: Selection, seen: Seen) -> None:
        self._source = source
        self._include = Patterns(selection.include) if selection.include else None
        self._exclude = Patterns(selection.exclude)
        self._within = None if selection.follow_links else source.path
        self._been: set[tuple[int, int]] = set()
        self._seen = seen

    def descend(self) -> None:
        above = tuple(_rules_above(self._source.path))
        if self._ignored(self._source.path, above, is_folder=True):
            above = ()  # who names an ignored folder wants it
        waiting, linked = [(self._source.path, above)], list[_Task]()
        while waiting or linked:
            # Links come last: what they lead to may be in the source itself.
            folder, rules = waiting.pop() if waiting else linked.pop(0)
            if not self._is_new(folder):
                self._problem(self._place(folder), "is a link to a folder that is read already")
                continue
            self._seen.folders.append(folder)
            rules = self._with_rules_of(folder, rules)
            below = self._take_in(folder, rules)
            waiting += [(one, rules) for one in reversed(below) if not one.is_symlink()]
            linked += [(one, rules) for one in below if one.is_symlink()]

    def _take_in(self, folder: Path, rules: "tuple[_Rules, ...]") -> list[Path]:
        """Look at the files of a folder that are wanted; its folders that are."""
        below = []
        for entry in self._entries(folder):
            if entry.name.startswith(".") or entry.name in NEVER:
                continue
            path = Path(entry.path)
            is_folder = self._is_folder(entry)
            own = _below(self._source.path, path, is_folder=is_folder)
            if self._ignored(path, rules, is_folder=is_folder) or self._exclude.match(own):
                continue
            if is_folder:
                below.append(path)
            elif self._include and not self._include.match(own):
                continue
            elif self._within and entry.is_symlink() and place_in(self._within, path) is None:
                self._problem(self._place(path), OUTSIDE)
            else:
                _look(self._seen, self._source, path, self._place(path), self._within)
        return below

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir(follow_symlinks=self._within is None)
        except OSError:  # a link that leads in a circle
            return False

    def _is_new(self, folder: Path) -> bool:
        """True unless this folder was read already under another name."""
        if self._within is not None:
            return True
        try:
            status = folder.stat()
        except OSError:
            return True  # why is said once it is looked into
        place = status.st_dev, status.st_ino
        new = place not in self._been
        self._been.add(place)
        return new

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            place = f"{self._place(folder)}/"
            self._seen.unseen.append(_normal(place))
            self._problem(place, f"cannot be looked into: {error.strerror}", kept=True)
            return []

    def _with_rules_of(self, folder: Path, rules: "tuple[_Rules, ...]") -> "tuple[_Rules, ...]":
        """The innermost first."""
        try:
            own = _read_rules(folder, self._within)
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
        except UnusableFile as error:
            fault = str(error)
        else:
            return (own, *rules) if own else rules
        self._problem(self._place(folder / IGNORE_FILE), fault)
        return rules

    def _ignored(self, path: Path, rules: "Sequence[_Rules]", *, is_folder: bool) -> bool:
        for folder, patterns in rules:
            verdict = patterns.match(_below(folder, path, is_folder=is_folder))
            if verdict is not None:
                return verdict
        return False

    def _place(self, path: Path) -> str:
        below = path.relative_to(self._source.path).as_posix()
        return self._source.name if below == "." else f"{self._source.name}/{below}"

    def _problem(self, place: str, reason: str, *, kept: bool = False) -> None:
        self._seen.problems.append(Problem(printable(_normal(place)), reason, kept))


_Rules = tuple[Path, Patterns]
_Task = tuple[Path, tuple[_Rules, ...]]


def _look(seen: Seen, source: Source, file: Path, place: str, within: Path | None) -> None:
    """Take in one entry that is no folder."""
    fault: str | None = None
    shown = printable(_normal(place))
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            fault = "is a link to a folder, which is not followed"
        elif not stat.S_ISREG(status.st_mode):
            fault = NO_FILE
        elif shown != _normal(place):
            fault = BROKEN_NAME
    except FileNotFoundError:
        fault = "is a link to nothing" if file.is_symlink() else "is gone"
    except OSError as error:
        seen.problems.append(Problem(shown, f"cannot be read: {error.strerror}", kept=True))
        return
    if fault:
        seen.problems.append(Problem(shown, fault))
    else:
        size, written, changed = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        seen.files.append(Found(source.name, shown, file, size, written, changed, within))


def _rules_above(root: Path) -> Iterator[_Rules]:
    """The rules of the folders around the root, up to the repository that it is in."""
    above = list(root.parents)
    top = next((i for i, folder in enumerate(above) if (folder / ".git").exists()), None)
    if top is None or (root / ".git").exists():
        return
    for folder in above[: top + 1]:
        try:
            if rules := _read_rules(folder, None):
                yield rules
        except (OSError, UnusableFile):  # not below the path that was given: none of our business
            continue


def _read_rules(folder: Path, within: Path | None) -> _Rules | None:
    try:
        with opened(folder / IGNORE_FILE, within) as file:
            text = file.read(MOST_RULES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if len(text) > MOST_RULES:
        raise UnusableFile(f"is larger than {MOST_RULES / 1e6:.0f} MB and not heeded")
    return folder, Patterns(text.decode("utf-8", "replace").splitlines(), forgiving=True)


def _below(folder: Path, path: Path, *, is_folder: bool) -> str:
    return f"{path.relative_to(folder).as_posix()}{'/' if is_folder else ''}"


def _normal(text: str) -> str:
    """Composed characters: file systems differ in how they spell them."""
    return unicodedata.normalize("NFC", text)


def printable(text: str) -> str:
    """A file's name without the bytes that are no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")
