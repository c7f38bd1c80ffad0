"""The state of the files that a collection was made from, read off its points."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.ingest.files.walk import Problem

HASH = 32  # characters of the hash of the contents

Point = tuple[PointId, Mapping[str, Any]]  # its id, and `doc` of its payload
# The hash of a file's contents when it was read, and the model of its vectors, "" without any:
# equal ones need no work.
Version = tuple[str, str]


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The points of one file that are stored, each with the document that it is of.

    `version` is None where they are not all the points of the same one, or a run was cut short: the
    file is stored again. `hashes` are of all contents that some of them are of.
    """

    points: Mapping[PointId, str]
    hashes: set[str]
    version: Version | None
    mtime: int | None
    size: int | None

    def has(self, size: int, mtime: int, model: str) -> bool:
        """True where a file of this size and time needs no look at its contents."""
        same = (self.mtime, self.size) == (mtime, size)
        return same and self.version is not None and self.version[1] == model

    @property
    def documents(self) -> set[str]:
        """The documents that are of this file."""
        return set(self.points.values())


@dataclass(slots=True)
class Known:
    """What one run tells the next: the files that are stored, and those that cannot be read.

    The latter are left alone until they change.
    """

    files: dict[str, KnownFile] = field(default_factory=dict)
    unreadable: dict[str, Problem] = field(default_factory=dict)


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
        mtime=files[0].get("mtime"),
        size=files[0].get("size"),
    )
