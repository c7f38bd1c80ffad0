"""Opens engines for the upkeep commands: import, upgrade, copy, backup and rebuild."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_server_qdrant.app.engines import open_engine, open_folder
from mcp_server_qdrant.core.errors import ConfigError, RequestError, UnknownCollection
from mcp_server_qdrant.core.notation import HISTORY, near_names, visible_in
from mcp_server_qdrant.encoders.bm25 import AUTO, Bm25Encoder
from mcp_server_qdrant.ingest.collections.export import Exported, Form, export
from mcp_server_qdrant.ingest.collections.upgrade import Upgrades
from mcp_server_qdrant.qdrant import backup, marks
from mcp_server_qdrant.qdrant.backup import Progress
from mcp_server_qdrant.qdrant.client import is_local_mode, open_client, open_local_mode
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import is_ours
from mcp_server_qdrant.qdrant.engine import WholeEngine
from mcp_server_qdrant.qdrant.local_mode import LocalFiles
from mcp_server_qdrant.qdrant.texts import Texts
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.environment import Settings

PATIENCE = 60.0  # seconds per request; no agent waits for it
EMBEDDED_ONLY = (
    "Backups are of the embedded engine, and QDRANT_URL names a server: make snapshots there, "
    "or copy its collections to a folder with `mcp-server-qdrant copy NAME --to FOLDER`."
)


def upgrades_of(bulk: Bulk, progress: Progress) -> Upgrades:
    """Upgrades of the collections of an engine, with this server's keywords."""
    return Upgrades(bulk, Bm25Encoder(AUTO), progress)


@asynccontextmanager
async def open_engine_at(
    where: str | None, settings: Settings, *, goal: bool = False
) -> AsyncIterator[Any]:
    """Open the engine at a URL or in a folder; None: the one that the settings name.

    As the `goal` of a copy, a folder may be new. As a source, a local-mode folder is read without
    its lock and never changed. Raises ConfigError, RequestError, EngineUnavailable.
    """
    client: WholeEngine
    folder = Path(where or "")
    if where is None:
        client = await open_engine(settings, max(PATIENCE, settings.qdrant_timeout))
    elif "://" in where:
        client = await open_client(where, timeout=PATIENCE)
    elif is_ours(folder) or (goal and not is_local_mode(folder)):
        # `is_ours` comes first: a folder of local mode may have been imported.
        client = await open_folder(folder, PATIENCE)
    elif not is_local_mode(folder):
        raise RequestError(f"There are no collections in {where}: no engine uses this folder.")
    elif goal:
        client = open_local_mode(folder)
    else:
        yield LocalFiles(folder)
        return
    try:
        yield Bulk(client, Texts(settings.qdrant_content_fields))
    finally:
        await client.close()


def engine_identity(where: str | None, settings: Settings) -> str | Path:
    """The identity of an engine: its URL or its folder."""
    named = where or settings.qdrant_url or str(settings.local_path)
    return named.rstrip("/") if "://" in named else Path(named).resolve()


async def back_up(
    settings: Settings,
    folder: Path,
    chosen: Sequence[str],
    now: datetime,
    tell: Progress,
    *,
    replace: bool,
) -> dict[str, int]:
    """Copy the chosen collections, or all, into a folder; returns their point counts."""
    async with _embedded(settings) as (client, names):
        seen = [name for name in names if visible_in(settings.qdrant_collections, name)]
        saved = _check_names(chosen, seen)
        return await backup.back_up(client, saved, folder, now, tell, replace=replace)


async def restore(
    settings: Settings, folder: Path, chosen: Sequence[str], tell: Progress, *, replace: bool
) -> dict[str, int]:
    """Restore the chosen collections, or all, from a folder; returns their point counts."""
    check_writable(settings)
    saved = backup.read_manifest(folder)
    wanted = {name: saved[name] for name in _check_names(chosen, list(saved))}
    for name in wanted:
        check_visible(name, settings)
    async with _embedded(settings) as (client, names):
        backup.check_free(wanted, names, replace=replace)
        return await backup.restore(client, folder, wanted, tell, replace=replace)


async def export_collection(
    settings: Settings, name: str, folder: Path, form: Form, tell: Progress, *, replace: bool
) -> Exported:
    """Write a collection, also by an alias, as files of that form into a folder."""
    allowed = settings.qdrant_collections
    async with open_engine_at(None, settings) as bulk:
        real = await bulk.resolve_alias(name)
        if name == real or name not in allowed:
            check_visible(real, settings)
        if real not in (names := await bulk.names()):
            raise unknown(name, [one for one in names if visible_in(allowed, one)])
        return await export(bulk, real, folder, form, tell, replace=replace)


async def rebuild(settings: Settings) -> dict[str, tuple[int, int]]:
    """Rebuild the store from the readable points; {collection: (points left, points lost)}."""
    check_writable(settings)
    if settings.qdrant_url is not None:
        raise RequestError("Only the embedded engine is rebuilt, and QDRANT_URL names a server.")
    async with _embedded(settings) as (client, _):
        done = await client.rebuild()
        return {
            name: numbers
            for name, numbers in done.items()
            if visible_in(settings.qdrant_collections, name)
        }


async def erase_traces(client: object) -> str:
    """Remove deleted texts from the engine's files too; returns a sentence on the outcome."""
    if isinstance(client, EdgeClient):
        await client.rewrite()
        return "The store was rewritten: no file of the embedded engine contains the text."
    return "The Qdrant server may keep the text in its log and snapshots until it overwrites them."


def _check_names(chosen: Sequence[str], there: Sequence[str]) -> Sequence[str]:
    """The chosen names, or all of `there`. Raises an error for an unknown name."""
    for name in chosen:
        if name not in there:
            raise unknown(name, there)
    return chosen or there


@asynccontextmanager
async def _embedded(settings: Settings) -> AsyncIterator[tuple[Any, list[str]]]:
    """The embedded engine, and the names of its collections."""
    if settings.qdrant_url is not None:
        raise RequestError(EMBEDDED_ONLY)
    client = await open_engine(settings, PATIENCE)
    try:
        found = await client.get_collections()
        yield client, [one.name for one in found.collections]
    finally:
        await client.close()


async def assign_folder(client: WholeEngine, name: str, folder: Path) -> None:
    """Add a folder to those of a collection; does nothing if there is no such collection."""
    bulk = Bulk(client, ())
    with contextlib.suppress(UnknownCollection):
        known = marks.folders((await bulk.shape(name)).metadata)
        await bulk.set_folders(name, [*known, folder])


def check_visible(name: str, settings: Settings) -> None:
    """Refuse a collection that is not among QDRANT_COLLECTIONS."""
    if not visible_in(settings.qdrant_collections, name):
        raise RequestError(f"{name!r} is not among QDRANT_COLLECTIONS.")


def check_writable(settings: Settings) -> None:
    """Refuse to write if QDRANT_READ_ONLY is set."""
    if settings.qdrant_read_only:
        raise ConfigError("QDRANT_READ_ONLY is set: nothing can be written.")


def unknown(name: str, names: Sequence[str]) -> RequestError:
    """The error for an unknown name, with the most similar names."""
    near = near_names(name, [one for one in names if one != HISTORY], 0.0)
    return (
        UnknownCollection(name, near) if near else RequestError(f"There is no collection {name!r}.")
    )
