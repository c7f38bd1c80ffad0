"""The marks of a collection: in its metadata, and of damage.

`filling` names the vectors that not all points have yet: they are written, and not searched.
A collection NAME~1 is the copy that an earlier version made to stand for NAME: the alias NAME leads
to it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.disk import identity

FILLING_KEY = "filling"
IMPORTED_KEY = "imported"  # where the collection comes from
DESCRIPTION_KEY = "description"  # of its contents, in its owner's words
FOLDER_KEY = "folder"
INODE_KEY = "folder_inode"  # with its device: a folder that is renamed keeps them
UNFINISHED = "an upgrade is under way, or was cut short: then run mcp-server-qdrant upgrade again"


def filling(metadata: Mapping[str, Any] | None) -> frozenset[str]:
    """The vectors that an upgrade has not given to all points yet."""
    named = (metadata or {}).get(FILLING_KEY)
    return frozenset(map(str, named)) if isinstance(named, list) else frozenset()


def said(metadata: Mapping[str, Any] | None, key: str) -> str | None:
    """The sentence or path under this key, unless it is empty."""
    value = (metadata or {}).get(key)
    return value if isinstance(value, str) and value.strip() else None


def folder(metadata: Mapping[str, Any] | None) -> Path | None:
    """The folder that the collection belongs to."""
    path = said(metadata, FOLDER_KEY)
    return Path(path) if path else None


def of_folder(folder: Path | None) -> dict[str, str]:
    """The mark of a collection that belongs to this folder, its links followed; None: to none."""
    inode = str(identity(folder)) if folder else ""
    return {FOLDER_KEY: os.path.realpath(folder) if folder else "", INODE_KEY: inode}


def renamed(place: Path, marked: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The collections, by their metadata, whose folder is gone and may now be one around a place.

    It has the same inode, which a file system may also give to a new folder.
    """
    inodes = {str(identity(one)) for one in (place, *place.parents)}
    alike = [name for name, one in marked.items() if said(one, INODE_KEY) in inodes]
    return [name for name in alike if (one := folder(marked[name])) and not one.exists()]


def innermost(place: Path, folders: Mapping[str, Path | None]) -> list[str]:
    """The collections of that of these folders that is nearest above a place, or that place."""
    whole = Path(os.path.realpath(place))
    around = {name: one for name, one in folders.items() if one and whole.is_relative_to(one)}
    depth = max((len(one.parts) for one in around.values()), default=0)
    return [name for name, one in around.items() if len(one.parts) == depth]


def damage(info: models.CollectionInfo) -> str | None:
    """The loss in a collection that its engine reports."""
    if info.status != models.CollectionStatus.RED:
        return None
    said = [warning.message for warning in info.warnings or ()]
    return " ".join(said) or "Qdrant says that it is damaged; its log says how."
