"""What a run is asked for, what it tells, and the files that are stored, read off their points."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.datatypes import PointId, Selection, SyncedFolder
from mcp_server_qdrant.ingest.files.walk import Looks, Problem, Source, Stamp, sources

MAX_BYTES = 10_000_000

Point = tuple[PointId, Mapping[str, Any]]  # its id, and `doc` of its payload
# The hash of a file's contents when it was read, and the model of its vectors, "" without any:
# equal ones need no work.
Version = tuple[str, str]


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The points of one file that are stored, each with the document that it is of.

    `version` is None where they are not all the points of the same one, or a run was cut short: the
    file is stored again. `hashes`: of each of its contents that has points.
    """

    points: Mapping[PointId, str]
    hashes: set[str]
    version: Version | None
    stamp: Stamp

    def has(self, stamp: Stamp, model: str) -> bool:
        """True where a file of this size and time needs no look at its contents."""
        return self.stamp == stamp and self.version is not None and self.version[1] == model

    def vectors(self, model: str) -> list[PointId]:
        """The points whose vectors that model made."""
        return list(self.points) if self.version and self.version[1] == model else []

    @property
    def documents(self) -> set[str]:
        """The documents that are of this file."""
        return set(self.points.values())


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Files to store, and where. `mirror`: what is no longer there is removed.

    `empty` allows to remove all that a source has; `create` a collection with a name much like
    another's. A model that is being downloaded is waited for where `patient`; else, and where there
    is none, texts are stored for keywords and get their vectors later.
    """

    sources: tuple[Source, ...]
    collection: str
    selection: Selection = field(default_factory=Selection)
    mirror: bool = False
    dry_run: bool = False
    create: bool = False
    empty: bool = False
    max_bytes: int = MAX_BYTES
    patient: bool = False
    look: Looks = field(default_factory=Looks, compare=False)  # whatever asks the file system

    @classmethod
    def to_keep(cls, folder: SyncedFolder) -> "SyncRequest":
        """The request that brings a folder in step. Raises RequestError where it is not there."""
        found = tuple(sources([folder.path], folder.name))
        return cls(found, folder.collection, folder.selection, mirror=not folder.keep, create=True)


@dataclass(slots=True)
class Report:
    """The progress of a run, and in the end its result. `seconds` are counted from its start.

    `size` of `sizes` bytes are done, of the files that are to be read. `pending`: texts were
    written for keywords, and get their vectors later. `notes` are sentences on files that are
    `stored`; so many secrets in them were `masked`. In a dry run nothing is stored and the lists
    say what would be.
    """

    phase: str = "Looking for files"
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0
    texts: int = 0
    masked: int = 0
    pending: bool = False
    size: float = 0.0
    sizes: int = 0
    started: float = field(default_factory=monotonic)
    seconds: float = 0.0
    stored: dict[str, KnownFile] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """The number of files that are dealt with."""
        return len(self.new) + len(self.changed) + self.unchanged + len(self.problems)

    @property
    def share(self) -> float:
        """The share of the work that is done, by the size of the files, 0 to 1."""
        return min(self.size / self.sizes, 1.0) if self.sizes > 0 else 0.0


def known_files(points: Sequence[Point]) -> dict[str, KnownFile]:
    """Path -> what is stored of that file."""
    grouped: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        grouped[str(point[1].get("file", {}).get("path"))].append(point)
    return {path: _known(these) for path, these in grouped.items()}


def _known(points: Sequence[Point]) -> KnownFile:
    parts: dict[str, set[Any]] = defaultdict(set)
    counts: dict[str, set[tuple[Any, Any]]] = defaultdict(set)
    for _, doc in points:
        parts[str(doc.get("id"))].add(doc.get("chunk"))
        counts[str(doc.get("id"))].add((doc.get("chunks"), doc.get("version")))
    files = [doc.get("file", {}) for _, doc in points]
    versions = {(str(file.get("hash")), str(file.get("model"))) for file in files}
    whole = (
        len(versions) == 1
        and {file.get("documents") for file in files} == {len(parts)}
        and all([n for n, _ in counts[one]] == [len(known)] for one, known in parts.items())
        and not any("writing" in doc for _, doc in points)
    )
    return KnownFile(
        points={point: str(doc.get("id")) for point, doc in points},
        hashes={one for one, _ in versions},
        version=versions.pop() if whole else None,
        # A file that was touched since has the time at which its contents were still the same.
        stamp=(files[0].get("size"), files[0].get("seen", files[0].get("mtime"))),
    )
