"""The request and the report of a sync, and the stored files as derived from their points."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.datatypes import PointId, Selection, SyncedFolder
from mcp_server_qdrant.ingest.files.walk import Looks, Problem, Source, Stamp, sources

MAX_BYTES = 10_000_000  # of a file

Point = tuple[PointId, Mapping[str, Any]]  # id, and `doc` of the payload
# Hash of a file's contents, and the model of its vectors ("" without any). If both are equal, the
# file is up to date.
Version = tuple[str, str]


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The stored `points` of one file, mapped to their documents.

    `version` is None if the points are incomplete or of different versions, as after an interrupted
    run: the file is stored again. `hashes` are those of all versions that have points.
    """

    points: Mapping[PointId, str]
    hashes: set[str]
    version: Version | None
    stamp: Stamp

    def has(self, stamp: Stamp, model: str) -> bool:
        """True if a file of this size and time need not be read."""
        return self.stamp == stamp and self.version is not None and self.version[1] == model

    def vectors(self, model: str) -> list[PointId]:
        """The points with vectors of that model."""
        return list(self.points) if self.version and self.version[1] == model else []

    @property
    def documents(self) -> set[str]:
        """The documents of this file."""
        return set(self.points.values())


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Files to store, and where. `mirror`: texts of files that are gone are removed.

    `empty` allows removing everything of a source, `create` a collection whose name resembles
    another. `patient`: wait for a model that is being downloaded. Otherwise, or without a model,
    texts are stored for keyword search and get their vectors later.
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
    look: Looks = field(default_factory=Looks, compare=False)  # for all file system calls

    @classmethod
    def to_keep(cls, folder: SyncedFolder) -> "SyncRequest":
        """The request that syncs a folder. Raises RequestError if it does not exist."""
        found = tuple(sources([folder.path], folder.name))
        return cls(found, folder.collection, folder.selection, mirror=not folder.keep, create=True)


@dataclass(slots=True)
class Report:
    """The progress of a run, and finally its result. `seconds` is its duration.

    `size` of `sizes` bytes to read are done. `moved` maps files in `new` to their earlier paths.
    `pending`: texts were stored without vectors, which follow later. `notes` are remarks on
    `stored` files, `masked` the number of secrets in them. In a dry run nothing is stored, and the
    lists say what would be.
    """

    phase: str = "Looking for files"
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
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
        """The number of processed files."""
        return len(self.new) + len(self.changed) + self.unchanged + len(self.problems)

    @property
    def share(self) -> float:
        """The completed share of the work by file size, 0 to 1."""
        return min(self.size / self.sizes, 1.0) if self.sizes > 0 else 0.0


def known_files(points: Sequence[Point]) -> dict[str, KnownFile]:
    """Path -> the stored state of that file."""
    grouped: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        grouped[str(point[1].get("file", {}).get("path"))].append(point)
    return {path: _known(these) for path, these in grouped.items()}


def _known(points: Sequence[Point]) -> KnownFile:
    parts: dict[str, set[Any]] = defaultdict(set)
    # (document, its number of parts, its version); complete if there is one of each document.
    written = {(str(doc.get("id")), doc.get("chunks"), doc.get("version")) for _, doc in points}
    for _, doc in points:
        parts[str(doc.get("id"))].add(doc.get("chunk"))
    files = [doc.get("file", {}) for _, doc in points]
    versions = {(str(file.get("hash")), str(file.get("model"))) for file in files}
    whole = (
        len(versions) == 1
        and {file.get("documents") for file in files} == {len(parts)} == {len(written)}
        and all(count == len(parts[one]) for one, count, _ in written)
        and not any("writing" in doc for _, doc in points)
    )
    return KnownFile(
        points={point: str(doc.get("id")) for point, doc in points},
        hashes={one for one, _ in versions},
        version=versions.pop() if whole else None,
        # `seen` is the modification time of a file that was touched but not changed.
        stamp=(files[0].get("size"), files[0].get("seen", files[0].get("mtime"))),
    )
