"""The state of the files that a collection was made from, read off its points."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_server_qdrant.core.datatypes import PointId

HASH = 32  # characters of the hash of the contents

Point = tuple[PointId, Mapping[str, Any]]  # its id, and `doc` of its payload
# The hash of a file's contents when it was read, and the model of its vectors, "" without any:
# equal ones need no work.
Version = tuple[str, str]


@dataclass(slots=True)
class KnownFile:
    """The points of one file that are stored, each with the document that it is of.

    `version` is None where they are not all the points of the same one: a run was cut short, and
    the file is stored again. `hashes` are of all contents that some of them are of. `mtime` is None
    where they disagree, `marked` are those that are still marked as being written.
    """

    points: dict[PointId, str]
    hashes: set[str]
    version: Version | None
    mtime: int | None
    size: int | None
    marked: tuple[PointId, ...] = ()

    def has(self, size: int, mtime: int, model: str) -> bool:
        """True where a file of this size and time needs no look at its contents."""
        if self.version is None or self.marked:
            return False
        return (self.version[1], self.mtime, self.size) == (model, mtime, size)

    @property
    def documents(self) -> set[str]:
        """The documents that are of this file."""
        return set(self.points.values())


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
    )
    mtimes = {file.get("mtime") for file in files}
    return KnownFile(
        points={point: str(doc.get("id")) for point, doc in points},
        hashes={one for one, _ in versions},
        version=versions.pop() if whole else None,
        mtime=mtimes.pop() if len(mtimes) == 1 else None,
        size=files[0].get("size"),
        marked=tuple(point for point, doc in points if "writing" in doc),
    )
