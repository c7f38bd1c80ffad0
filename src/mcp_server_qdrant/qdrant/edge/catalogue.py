"""The catalogue: a small file per collection that describes it and names the space of its points.

collections/<slug>.json    a collection; replaced atomically, by a rename
collections/<slug>.copy    a copy, used if the first file is damaged
unwanted/<id>.<space>      a mark: points to remove, of a dropped or half-made collection
"""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.disk import sync_folder, write_atomically
from mcp_server_qdrant.core.errors import EngineFailure, UnknownCollection
from mcp_server_qdrant.qdrant.edge.collection import Entry
from mcp_server_qdrant.qdrant.edge.files import name_of, slug_of

_KINDS = (".json", ".copy")
DAMAGED = "The description of the collection {!r} is missing or damaged: restore a backup."

logger = logging.getLogger(__name__)


class Catalogue:
    """All collections of a folder, by name. A change is visible only once it is on disk.

    `changes` counts the changes, to invalidate caches derived from the entries.
    """

    def __init__(self, root: Path) -> None:
        self._described = root / "collections"
        self._unwanted = root / "unwanted"
        self._entries: dict[str, Entry] = {}
        self._unsaved: set[str] = set()
        self.changes = 0

    def read(self) -> None:
        """Read all descriptions; a collection with a damaged one is listed but cannot be used."""
        for folder in (self._described, self._unwanted):
            folder.mkdir(mode=0o700, exist_ok=True)
        for slug in {path.stem for kind in _KINDS for path in self._described.glob(f"*{kind}")}:
            if slug_of(name_of(slug)) == slug:  # skip copies made by a person
                entry = self._read(slug)
                self._entries[entry.name] = entry

    def _read(self, slug: str) -> Entry:
        known = [_read_entry(self._described / f"{slug}{kind}") for kind in _KINDS]
        entry = known[0] or known[1]
        if entry is None:
            fault = DAMAGED.format(name_of(slug))
            logger.warning("%s: %s", slug, fault)
            return Entry(name_of(slug), "", "", {}, {}, fault=fault)
        if known[0] != known[1]:
            with contextlib.suppress(OSError):  # a full disk must not refuse reads
                self._write(entry)
        return entry

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """All collections, sorted."""
        return sorted(self._entries)

    def get(self, name: str) -> Entry:
        """The collection. Raises UnknownCollection, or EngineFailure if it cannot be used."""
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownCollection(name)
        if entry.fault:
            raise EngineFailure(entry.fault)
        return entry

    def entries_in(self, space: str) -> list[Entry]:
        """The collections whose points are in this space."""
        return [entry for entry in self._entries.values() if entry.space == space]

    def new_id(self, name: str) -> str:
        """An unused id with an unused mask; ids of points yet to be removed count as used.

        It is a hash of the name: points with equal scores are sorted by stored id, and that order
        must be the same in every store with the same collection.
        """
        taken = {entry.id[:8] for entry in self} | {one[:8] for one, _ in self.unwanted()}
        for more in count():
            new = blake2b(f"{more} {name}".encode(), digest_size=8).hexdigest()
            if new[:8] not in taken and int(new[:8], 16):
                break
        return new

    def save(self, entry: Entry) -> None:
        """Write a collection's description, replacing one of the same name."""
        former = self._entries.get(entry.name)
        if former and not former.fault and (former.id, former.space) != (entry.id, entry.space):
            self.mark_unwanted(former.id, former.space)
        self._write(entry)
        self.unmark_unwanted(entry.id, entry.space)

    def save_soon(self, entry: Entry) -> None:
        """Write the description at the next `settle`; a power failure may lose it, harmlessly."""
        self._set_entry(entry)
        self._unsaved.add(entry.name)

    def settle(self) -> None:
        """Write the descriptions that `save_soon` deferred."""
        for name in list(self._unsaved):
            if name in self._entries:
                self._write(self._entries[name])
        self._unsaved.clear()

    def _write(self, entry: Entry) -> None:
        fields = {key: value for key, value in asdict(entry).items() if key != "fault"}
        text = json.dumps({**fields, "digest": _digest(fields)})
        path = self._described / slug_of(entry.name)
        write_atomically(path.with_name(f"{path.name}{_KINDS[0]}"), text)
        path.with_name(f"{path.name}{_KINDS[1]}").write_text(text, "utf-8")
        self._set_entry(entry)
        self._unsaved.discard(entry.name)

    def _set_entry(self, entry: Entry) -> None:
        self._entries[entry.name] = entry
        self.changes += 1

    def drop(self, name: str) -> bool:
        """Delete a collection, even a damaged one; its points become unwanted."""
        entry = self._entries.get(name)
        if entry is None:
            return False
        if not entry.fault:
            self.mark_unwanted(entry.id, entry.space)
        self.forget(name)
        sync_folder(self._described)
        self._unsaved.discard(name)
        return True

    def forget(self, name: str) -> None:
        """Remove a description; its points now belong to another one."""
        self._entries.pop(name, None)
        self.changes += 1
        for kind in reversed(_KINDS):  # the copy first: alone it would restore the description
            (self._described / f"{slug_of(name)}{kind}").unlink(missing_ok=True)

    # Points to remove

    def mark_unwanted(self, collection: str, space: str) -> None:
        """Mark the points with this collection's id for removal from that space; survives a crash.

        A description of the collection overrides the mark.
        """
        (self._unwanted / f"{collection}.{space}").touch()
        sync_folder(self._unwanted)

    def unmark_unwanted(self, collection: str, space: str) -> None:
        """Remove the mark: the points are wanted, or are already gone."""
        with contextlib.suppress(FileNotFoundError):
            (self._unwanted / f"{collection}.{space}").unlink()

    def unwanted(self) -> list[tuple[str, str]]:
        """(id, space) of each collection whose points must be removed."""
        wanted = {(entry.id, entry.space) for entry in self}
        marked = (path.name.partition(".") for path in self._unwanted.iterdir())
        return [(one, space) for one, _, space in marked if (one, space) not in wanted]


def _read_entry(path: Path) -> Entry | None:
    """The entry in a file; None if it is missing or damaged."""
    try:
        fields: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if fields.pop("digest") == _digest(fields):
            return Entry(**fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        logger.warning("%s is damaged, so its copy is used: %s.", path.name, error)
    return None


def _digest(fields: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=8).hexdigest()
