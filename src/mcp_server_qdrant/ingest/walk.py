"""Which files there are below the paths that a person gave, in the same order every time."""

import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_server_qdrant.errors import RequestError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".gitignore"
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
class Selection:
    """Which files are wanted: patterns as in .gitignore, relative to the folder that was given."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was seen: `path` is the source's name and its place below.

    `path` is the same on every machine; it is the id of the file's document. `mtime` is in
    nanoseconds: an engine may return a fraction of a second changed in its last digit.
    """

    source: str
    path: str
    file: Path
    size: int
    mtime: int
    ctime: int = 0

    @property
    def stamp(self) -> Stamp:
        """What differs once the file, or who may read it, was changed."""
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
        if not path.exists():
            raise RequestError(f"There is no {path}.")
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
        for found in seen.files:
            if found.path in places:
                whole.problems.append(Problem(found.path, "is there twice, spelt differently"))
            else:
                places.add(found.path)
                whole.files.append(found)
    return whole


def walk(source: Source, selection: Selection) -> Seen:
    """All files of a source that are wanted.

    Left out, unmentioned: hidden files, and what a .gitignore or the selection excludes. Links to
    folders are not followed. Whatever cannot be looked at is a problem and never an error.
    """
    seen = Seen()
    if not source.folder:
        _look(seen, source, source.path, f"{source.name}/{source.path.name}")
        return seen
    walker = _Walker(source, selection, seen)
    walker.descend()
    return seen


class _Walker:
    """The folders below one source, with the rules that hold in each."""

    def __init__(self, source: Source, selection: Selection, seen: Seen) -> None:
        self._source = source
        self._include = _patterns(selection.include) if selection.include else None
        self._exclude = _patterns(selection.exclude)
        self._seen = seen

    def descend(self) -> None:
        above = tuple(_rules_above(self._source.path))
        if self._ignored(self._source.path, above, is_folder=True):
            above = ()  # who names an ignored folder wants it
        waiting = [(self._source.path, above)]
        while waiting:
            folder, rules = waiting.pop()
            rules = self._with_rules_of(folder, rules)
            below = []
            for entry in self._entries(folder):
                if entry.name.startswith(".") or entry.name in NEVER:
                    continue
                path = Path(entry.path)
                is_folder = entry.is_dir(follow_symlinks=False)
                own = _below(self._source.path, path, is_folder=is_folder)
                if self._ignored(path, rules, is_folder=is_folder) or self._exclude.match_file(own):
                    continue
                if is_folder:
                    below.append((path, rules))
                elif self._include is None or self._include.match_file(own):
                    _look(self._seen, self._source, path, self._place(path))
            waiting += reversed(below)

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
            own = _read_rules(folder)
        except OSError as error:
            self._problem(self._place(folder / IGNORE_FILE), f"cannot be read: {error.strerror}")
            return rules
        return (own, *rules) if own else rules

    def _ignored(self, path: Path, rules: "Sequence[_Rules]", *, is_folder: bool) -> bool:
        for folder, patterns in rules:
            verdict = patterns.check_file(_below(folder, path, is_folder=is_folder)).include
            if verdict is not None:
                return verdict
        return False

    def _place(self, path: Path) -> str:
        below = path.relative_to(self._source.path).as_posix()
        return self._source.name if below == "." else f"{self._source.name}/{below}"

    def _problem(self, place: str, reason: str, *, kept: bool = False) -> None:
        self._seen.problems.append(Problem(printable(_normal(place)), reason, kept))


_Rules = tuple[Path, "GitIgnoreSpec"]


def _look(seen: Seen, source: Source, file: Path, place: str) -> None:
    """Take in one entry that is no folder."""
    fault: str | None = None
    shown = printable(_normal(place))
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            fault = "is a link to a folder, which is not followed"
        elif not stat.S_ISREG(status.st_mode):
            fault = "is not a regular file"
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
        seen.files.append(Found(source.name, shown, file, size, written, changed))


def _rules_above(root: Path) -> Iterator[_Rules]:
    """The rules of the folders around the root, up to the repository that it is in."""
    above = list(root.parents)
    top = next((i for i, folder in enumerate(above) if (folder / ".git").exists()), None)
    if top is None or (root / ".git").exists():
        return
    for folder in above[: top + 1]:
        try:
            if rules := _read_rules(folder):
                yield rules
        except OSError:  # not below the path that was given: none of our business
            continue


def _read_rules(folder: Path) -> _Rules | None:
    try:
        text = (folder / IGNORE_FILE).read_text("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return folder, _patterns(text.splitlines(), forgiving=True)


def _patterns(lines: Sequence[str], *, forgiving: bool = False) -> "GitIgnoreSpec":
    """Patterns as in .gitignore. Raises RequestError; a forgiving reader drops what is none."""
    try:
        return _compiled(lines)
    except ValueError as error:
        if not forgiving:
            raise RequestError(f"{error}: patterns are those of .gitignore.") from error
    return _compiled([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    try:
        _compiled([line])
    except ValueError:
        return False
    return True


def _compiled(lines: Sequence[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # a server that reads no files does without its memory

    return GitIgnoreSpec.from_lines(lines)


def _below(folder: Path, path: Path, *, is_folder: bool) -> str:
    return f"{path.relative_to(folder).as_posix()}{'/' if is_folder else ''}"


def _normal(text: str) -> str:
    """Composed characters: file systems differ in how they spell them."""
    return unicodedata.normalize("NFC", text)


def printable(text: str) -> str:
    """A file's name without the bytes that are no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")
