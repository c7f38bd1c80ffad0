"""Migrates collections stored as one shard each, the form before spaces.

shards/<slug>              such a collection: the engine's files, and among them
  collection.json          its description
  points                   its minimum number of points

Collections are migrated one by one, the last written first. The old files are removed once the
points are in a space, counted and durable, so a crash leaves either the old or the new ones intact.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.disk import sync_folder
from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError, UnknownCollection
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.check import plain_id
from mcp_server_qdrant.qdrant.edge.collection import move_point
from mcp_server_qdrant.qdrant.edge.files import allocated, name_of, slug_of
from mcp_server_qdrant.qdrant.edge.space import count_deaths, records, translate_errors
from mcp_server_qdrant.qdrant.edge.store import Earlier, Store

DESCRIPTION, POINTS, OPENING = "collection.json", "points", "opening"
TAKEN = "taken"  # marks a collection about to enter the catalogue
_NEXT = ".next"
_PIECE = 32  # points between two pauses for other calls
_SPACE_FACTOR = 2
_MOST_DEATHS = 5  # in a row, while reading one collection
_UNUSABLE = (
    "The collection {!r} of an earlier version could not be converted. {} Its files are unchanged:"
    " restore a backup, or delete the collection."
)

logger = logging.getLogger(__name__)


def find_earlier(store: Store) -> None:
    """Find the collections of an earlier version, the last written first."""
    if not store.folder.earlier.is_dir():
        return
    found: list[tuple[bool, float, Path]] = []
    for path in store.folder.earlier.iterdir():
        whole, slug = path.suffix != _NEXT, path.name.removesuffix(_NEXT)
        if slug_of(name_of(slug)) == slug and path.is_dir():
            segments = path / "segments"
            found.append((whole, -(segments if segments.is_dir() else path).stat().st_mtime, path))
    for _, _, path in sorted(found):
        name = str(_described(path).get("name") or name_of(path.name.removesuffix(_NEXT)))
        if name in store.earlier or (name in store.catalogue and (path / TAKEN).exists()):
            store.folder.discard(path)  # a duplicate, or migrated before a crash
        elif name not in store.catalogue:
            store.earlier[name] = Earlier(path)


async def migrate_all(store: Store, pause: Callable[[], Awaitable[None]]) -> None:
    """Migrate all collections found. A failed one keeps its files and gets a `fault`."""
    while waiting := [(name, one) for name, one in store.earlier.items() if not one.fault]:
        name, earlier = waiting[0]
        try:
            with translate_errors("", "could not read them."):
                await _migrate(store, name, earlier, pause)
        except QdrantMcpError as error:
            logger.warning("%s: %s", name, error)
            earlier.fault = _UNUSABLE.format(name, error)
            continue
        if store.earlier.get(name) is earlier:
            del store.earlier[name]
            store.folder.discard(earlier.path)
    with suppress(OSError):
        store.folder.earlier.rmdir()


async def _migrate(
    store: Store, name: str, earlier: Earlier, pause: Callable[[], Awaitable[None]]
) -> None:
    described = _described(earlier.path)
    if not described:
        raise EngineFailure("Its description is missing or damaged.")
    store.folder.require_space(_SPACE_FACTOR * allocated(earlier.path))
    with count_deaths(earlier.path / OPENING, _MOST_DEATHS):
        shard = edge.EdgeShard.load(str(earlier.path))
        try:
            count = shard.count(edge.CountRequest(exact=True))
            entry = store.new_entry(name, described)
            declared = described.get("indexes", {})
            for field, known in shard.info().payload_schema.items():
                entry.indexes[field] = declared.get(field, types.index_type(known))
            await store.index(entry, entry.indexes, pause)
            vectors = {**entry.vectors, **entry.sparse_vectors}

            def pages() -> Iterator[list[edge.Point]]:
                for page in records(shard, None, _PIECE):
                    yield [move_point(entry, plain_id(one.id), one, vectors) for one in page]
                if store.earlier.get(name) is not earlier:
                    raise UnknownCollection(name)  # deleted or restored in the meantime

            (earlier.path / TAKEN).touch()
            sync_folder(earlier.path)
            await store.fill(entry, pages(), count, pause)
        finally:
            shard.close()
    with suppress(OSError, ValueError):
        lost = int((earlier.path / POINTS).read_text("utf-8").split()[0]) - count
        store.spaces[entry.space].census.set_missing(entry.id, lost)
        store.spaces[entry.space].census.write()


def _described(path: Path) -> dict[str, Any]:
    """The description of an earlier collection; {} if it is missing or damaged."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        found = json.loads((path / DESCRIPTION).read_text("utf-8"))
        _ = found["vectors"], found["sparse_vectors"], found["name"]
        return dict(found)
    return {}
