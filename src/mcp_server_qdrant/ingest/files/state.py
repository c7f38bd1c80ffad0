"""The state of the files that a collection was made from, read off its points."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_server_qdrant.core.datatypes import PointId

HASH = 32  # characters of the hash of the contents

Point = tuple[PointId, Mapping[str, Any]]  # its id, and `doc` of its payload


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file when it was read: equal ones need no work.

    `hash` ends with that of the template by which rows were read. `model` made the vectors, ""
    where there are none.
    """

    hash: str
    model: str


@dataclass(slots=True)
class Version:
    """The points of one file with the same contents, each with the document that it is of.

    `complete` means that all points of them are there. `mtime` is None where they disagree.
    `marked` are those that a run which was cut short left marked as being written.
    """

    points: dict[PointId, str]
    complete: bool
    mtime: int | None
    size: int | None
    marked: tuple[PointId, ...] = ()


@dataclass(slots=True)
class KnownFile:
    """The stored versions of one file: one complete version, unless a run was cut short."""

    versions: dict[Contents, Version] = field(default_factory=dict)

    def has(self, size: int, mtime: int, model: str, template: str = "") -> bool:
        """True where a file of this size and time needs no look at its contents."""
        if len(self.versions) != 1:
            return False
        ((contents, version),) = self.versions.items()
        seen = (contents.model, version.mtime, version.size, contents.hash[HASH:])
        return version.complete and not version.marked and seen == (model, mtime, size, template)

    @property
    def points(self) -> dict[PointId, str]:
        """All its points, each with the document that it is of."""
        return {
            point: document
            for version in self.versions.values()
            for point, document in version.points.items()
        }

    @property
    def documents(self) -> set[str]:
        """The documents that are of this file."""
        return set(self.points.values())

    @property
    def hashes(self) -> set[str]:
        """Of all its contents."""
        return {contents.hash for contents in self.versions}


def known_files(points: Sequence[Point]) -> dict[str, KnownFile]:
    """Path -> the stored versions of that file."""
    grouped: dict[str, dict[Contents, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        file = point[1].get("file", {})
        contents = Contents(str(file.get("hash")), str(file.get("model")))
        grouped[str(file.get("path"))][contents].append(point)
    return {
        path: KnownFile({contents: _version(these) for contents, these in versions.items()})
        for path, versions in grouped.items()
    }


def _version(points: Sequence[Point]) -> Version:
    chunks: dict[str, set[Any]] = defaultdict(set)
    counts: dict[str, set[tuple[Any, Any]]] = defaultdict(set)
    for _, doc in points:
        chunks[str(doc.get("id"))].add(doc.get("chunk"))
        counts[str(doc.get("id"))].add((doc.get("chunks"), doc.get("version")))
    whole = all([n for n, _ in counts[one]] == [len(parts)] for one, parts in chunks.items())
    files = [doc.get("file", {}) for _, doc in points]
    mtimes = {file.get("mtime") for file in files}
    return Version(
        points={point: str(doc.get("id")) for point, doc in points},
        complete=whole and {file.get("documents") for file in files} == {len(chunks)},
        mtime=mtimes.pop() if len(mtimes) == 1 else None,
        size=files[0].get("size"),
        marked=tuple(point for point, doc in points if "writing" in doc),
    )
