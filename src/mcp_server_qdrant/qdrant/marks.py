"""The marks in a collection's metadata, and its damage.

`filling` names the vectors that not all points have yet: they are written but not searched.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.disk import identity

FILLING_KEY = "filling"
IMPORTED_KEY = "imported"  # where the collection was imported from
DESCRIPTION_KEY = "description"  # of its contents, in its owner's words
EXPIRES_KEY = "expires"  # the default of its texts, such as "90 days"
FOLDER_KEY = "folder"
INODE_KEY = "folder_inode"  # (device, inode), which a renamed folder keeps
UNFINISHED = "an upgrade is running, or was interrupted: then run mcp-server-qdrant upgrade again"


def filling(metadata: Mapping[str, Any] | None) -> frozenset[str]:
    """The vectors that an upgrade is still adding to the points."""
    named = (metadata or {}).get(FILLING_KEY)
    return frozenset(map(str, named)) if isinstance(named, list) else frozenset()


def first_text(metadata: Mapping[str, Any] | None, key: str) -> str | None:
    """The first text under this key; None if there is none."""
    return next(iter(_texts(metadata, key)), None)


def _texts(metadata: Mapping[str, Any] | None, key: str) -> list[str]:
    """The texts under this key: a list, or a single one."""
    value = (metadata or {}).get(key)
    several = value if isinstance(value, list) else [value]
    return [one for one in several if isinstance(one, str) and one.strip()]


def folders(metadata: Mapping[str, Any] | None) -> list[Path]:
    """The folders that the collection belongs to."""
    return [Path(one) for one in _texts(metadata, FOLDER_KEY)]


def folder_metadata(folders: Iterable[Path]) -> dict[str, list[str]]:
    """The metadata of a collection that belongs to these folders; symlinks are resolved."""
    real = dict.fromkeys(map(os.path.realpath, folders))
    return {FOLDER_KEY: [*real], INODE_KEY: _inodes(map(Path, real))}


def find_renamed(place: Path, marked: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The collections whose folder was probably renamed to `place` or one of its parents.

    The old path is gone and the inode is the same, but a file system may also reuse inodes.
    """
    inodes = {*_inodes((place, *place.parents))}
    alike = [name for name, one in marked.items() if not inodes.isdisjoint(_texts(one, INODE_KEY))]
    known = {name: folders(marked[name]) for name in alike}
    return [name for name in alike if known[name] and not any(one.exists() for one in known[name])]


def _inodes(folders: Iterable[Path]) -> list[str]:
    """Those of the folders that exist here; a client's folder may be on another machine."""
    return [str(found) for one in folders if (found := identity(one))]


def around(place: Path, folders: Mapping[str, Iterable[Path]]) -> dict[str, Path]:
    """Collection -> its innermost folder that contains the place; other collections are absent."""
    whole = Path(os.path.realpath(place))
    found = {
        name: [one for one in each if whole.is_relative_to(one)] for name, each in folders.items()
    }
    return {name: max(each, key=lambda one: len(one.parts)) for name, each in found.items() if each}


def damage(info: models.CollectionInfo) -> str | None:
    """The damage that the engine reports, in a sentence; None if there is none."""
    if info.status != models.CollectionStatus.RED:
        return None
    reported = [warning.message for warning in info.warnings or ()]
    return " ".join(reported) or "Qdrant says that it is damaged; its log says how."
