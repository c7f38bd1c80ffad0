"""The store of a folder: its catalogue, the spaces with the points, and points to remove.

Used by one task at a time.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import (
    EngineFailure,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.catalogue import Catalogue
from mcp_server_qdrant.qdrant.edge.collection import Entry, confine
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE
from mcp_server_qdrant.qdrant.edge.files import STAGED, Folder
from mcp_server_qdrant.qdrant.edge.space import (
    ABOUT,
    UNREADABLE,
    Space,
    all_indexes,
    records,
    space_of,
    translate_errors,
)
from mcp_server_qdrant.qdrant.payload import EXPIRES

_MISSING = (
    "The files of the collection {!r} are missing on the disk: restore a backup, or delete it."
)
_PIECE = 256  # points removed at once
_SCOPES = 64  # remembered

Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection and the space that holds its points."""

    entry: Entry
    space: Space

    @property
    def name(self) -> str:
        """Its name."""
        return self.entry.name

    def where(self, plain: Plain | None = None) -> edge.Filter:
        """The filter, restricted to the collection."""
        return types.to_filter(confine([self.entry], plain)) or edge.Filter()

    def count(self, plain: Plain | None = None) -> int:
        """The exact number of its matching points."""
        engine = self.space.engine
        if plain is None:
            return self.space.census.present.get(self.entry.id, 0)
        return engine.count(edge.CountRequest(exact=True, filter=self.where(plain)))

    def damage(self, *, numbers: bool = True) -> str | None:
        """A sentence on lost points; without `numbers` for callers who may not see counts."""
        lost = self.space.census.damage(self.entry.id, self.name)
        if lost is None and self.space.unreadable:
            lost = UNREADABLE
        return lost if numbers else lost and INCOMPLETE

    def apply(self, update: edge.UpdateOperation) -> int:
        """Apply an update to its points; returns how many were added."""
        return self.space.apply(update, self.entry.id)

    def records(self, size: int) -> Iterator[Sequence[Any]]:
        """Its readable points in pages, with payload and vectors."""
        return records(self.space.engine, self.where(), size)


@dataclass(frozen=True, slots=True)
class Scope:
    """Collections of one space that are searched together, by id."""

    space: Space
    entries: dict[str, Entry]

    @property
    def first(self) -> Entry:
        """Any of them: all have the same vectors."""
        return next(iter(self.entries.values()))

    def filter(self, where: Plain | None) -> edge.Filter | None:
        """The filter, restricted to them: by excluding the space's others if those are fewer."""
        others: list[str] | None = [*(self.space.census.present.keys() - self.entries.keys())]
        if others and len(others) >= len(self.entries):
            others = None
        return types.to_filter(confine([*self.entries.values()], where, others=others))

    def damage(self, *, numbers: bool) -> dict[str, str]:
        """The damaged collections, with `Collection.damage`."""
        if not self.space.unreadable and not self.space.census.missing:
            return {}
        every = (Collection(entry, self.space) for entry in self.entries.values())
        return {one.name: lost for one in every if (lost := one.damage(numbers=numbers))}


Scopes = tuple[Sequence[Scope], Mapping[str, QdrantMcpError]]


@dataclass(slots=True)
class Earlier:
    """A collection of an earlier version; `fault`: why it cannot be migrated."""

    path: Path
    fault: str | None = None


class Store:
    """All collections of a folder. `earlier`: those of an earlier version, not yet migrated."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.catalogue = Catalogue(folder.root)
        self.spaces: dict[str, Space] = {}
        self.earlier: dict[str, Earlier] = {}
        self._filling: set[tuple[str, str]] = set()
        self._scopes: dict[tuple[str, ...], tuple[int, Scopes]] = {}  # by change count

    def read(self) -> None:
        """Read the catalogue, and remove leftovers of killed processes."""
        self.catalogue.read()
        for name in [one for one in self.catalogue.names() if one.startswith(STAGED)]:
            self.catalogue.drop(name)  # its restore was killed
        for path in self.folder.spaces.iterdir():
            if not (path / ABOUT).exists() and not self.catalogue.entries_in(path.name):
                self.folder.discard(path)  # its creation was killed
                continue
            space = self.spaces[path.name] = Space(path)
            for other in space.old_generations():
                self.folder.discard(other)

    def names(self) -> list[str]:
        """All collections, sorted, without those that are being restored."""
        known = {*self.catalogue.names(), *self.earlier}
        return sorted(name for name in known if not name.startswith(STAGED))

    def get(self, name: str) -> Collection:
        """The collection. Raises UnknownCollection, EngineFailure where it cannot be used."""
        if earlier := self.earlier.get(name):
            self.earlier = {name: earlier, **self.earlier}  # migrate it next
            raise EngineFailure(
                earlier.fault
                or f"The collection {name!r} is being converted from an earlier version's files:"
                " try again in a moment."
            )
        entry = self.catalogue.get(name)
        space = self.spaces.get(entry.space)
        if space is None:
            raise EngineFailure(_MISSING.format(name))
        return Collection(entry, space)

    def scopes(self, names: tuple[str, ...]) -> Scopes:
        """The collections by space, and the errors of unusable ones; raises one if all are.

        Cached, because searches name the same thousands again and again.
        """
        changes, known = self._scopes.get(names, (-1, None))
        if known and changes == self.catalogue.changes and not self.earlier:
            return known
        spaces: dict[str, Scope] = {}
        failed: dict[str, QdrantMcpError] = {}
        for name in names:
            try:
                found = self.get(name)
                scope = spaces.setdefault(found.entry.space, Scope(found.space, {}))
                scope.entries[found.entry.id] = found.entry
            except (UnknownCollection, EngineFailure) as error:
                failed[name] = error
        if failed and not spaces:
            raise next(iter(failed.values()))
        made = [*spaces.values()], failed
        if len(self._scopes) >= _SCOPES:
            self._scopes.clear()
        self._scopes[names] = self.catalogue.changes, made
        return made

    def space(self, vectors: Mapping[str, Any], sparse: Mapping[str, Any]) -> str:
        """The key of the space for these vectors, created if it is new."""
        key = space_of(vectors, sparse)
        if key not in self.spaces:
            with translate_errors("", "could not make a store."):
                self.spaces[key] = Space.create(self.folder.spaces / key, vectors, sparse)
        return key

    def create(self, name: str, described: Mapping[str, Any]) -> Entry:
        """Make an empty collection."""
        if name in self.catalogue or name in self.earlier:
            raise RequestError(f"The collection {name!r} already exists.")
        entry = self.new_entry(name, described)
        with translate_errors(name, "could not be created."):
            self.catalogue.save(entry)
        return entry

    def new_entry(self, name: str, described: Mapping[str, Any]) -> Entry:
        """A new entry, not yet in the catalogue."""
        vectors, sparse = described["vectors"], described["sparse_vectors"]
        created_at = described.get("created_at") or datetime.now(UTC).isoformat()
        own, space = self.catalogue.new_id(name), self.space(vectors, sparse)
        metadata = described.get("metadata")
        return Entry(name, own, space, dict(vectors), dict(sparse), metadata, created_at)

    async def index(
        self, entry: Entry, schemas: Mapping[str, Any], pause: Callable[[], Awaitable[None]]
    ) -> None:
        """Index payload fields; the indexes are shared by all collections of the space.

        An existing index stays if another collection declares it, and is replaced otherwise.
        """
        space = self.spaces[entry.space]
        declared = {
            field
            for other in self.catalogue.entries_in(entry.space)
            for field, schema in other.indexes.items()
            if other.name != entry.name or schemas.get(field) == schema
        }
        made = {field: types.index_params(schema) for field, schema in schemas.items()}
        there = all_indexes(space.engine)
        for field, params in made.items():
            if field in there:
                if field in declared or field == EXPIRES:
                    continue
                space.apply(edge.UpdateOperation.delete_field_index(field))
            space.apply(edge.UpdateOperation.create_field_index(field, params))
            await pause()

    async def fill(
        self,
        entry: Entry,
        pages: Iterable[Sequence[edge.Point]],
        count: int,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        """Write the points of a hidden collection, then save it in the catalogue.

        It replaces a collection of the same name, whose points are removed. Raises EngineFailure if
        the number of points written is not `count`.
        """
        space, key = self.spaces[entry.space], (entry.id, entry.space)
        self._filling.add(key)
        self.catalogue.mark_unwanted(*key)
        try:
            for points in pages:
                space.apply(edge.UpdateOperation.upsert_points(list(points)), entry.id)
                await pause()
            if (written := Collection(entry, space).count({"must": []})) != count:
                raise EngineFailure(
                    f"The collection {entry.name!r} could not be copied: {written:,} of its"
                    f" {count:,} points were copied. It is unchanged."
                )
            space.make_durable()
            self.catalogue.save(entry)
        finally:
            self._filling.discard(key)

    def drop(self, name: str) -> bool:
        """Delete a collection, even an unusable one; False if there was none."""
        return self.discard_earlier(name) | self.catalogue.drop(name)

    def discard_earlier(self, name: str) -> bool:
        """Discard the collection's files of an earlier version; False if there are none."""
        earlier = self.earlier.pop(name, None)
        if earlier is not None:
            self.folder.discard(earlier.path)
        return earlier is not None

    def settle(self) -> None:
        """Make all writes durable. Raises EngineFailure."""
        with translate_errors("", "could not write its catalogue."):
            self.catalogue.settle()
        for space in self.spaces.values():
            space.make_durable()

    def unwanted(self) -> list[tuple[str, str]]:
        """(id, space) of each collection whose points must be removed."""
        return [one for one in self.catalogue.unwanted() if one not in self._filling]

    async def remove_unwanted(self, pause: Callable[[], Awaitable[None]]) -> None:
        """Remove the points of dropped, moved and half-made collections."""
        coming = any(not one.fault for one in self.earlier.values())
        for collection, key in self.unwanted():
            if key in self.spaces and not coming and not self.catalogue.entries_in(key):
                self.spaces[key].close()
                self.folder.discard(self.spaces.pop(key).path)
            elif key in self.spaces:
                await self._remove(Entry("", collection, key, {}, {}), self.spaces[key], pause)
            self.catalogue.unmark_unwanted(collection, key)

    async def _remove(
        self, gone: Entry, space: Space, pause: Callable[[], Awaitable[None]]
    ) -> None:
        piece = edge.ScrollRequest(
            limit=_PIECE,
            filter=types.to_filter(confine([gone], None)),
            with_payload=False,
            with_vector=False,
        )
        while found := space.engine.scroll(piece)[0]:
            space.census.forget()
            space.apply(edge.UpdateOperation.delete_points([one.id for one in found]))
            space.deleted += len(found)
            await pause()
        space.census.remove(gone.id)
        space.make_durable()

    def close(self) -> None:
        """Close all spaces."""
        for space in self.spaces.values():
            space.close()
