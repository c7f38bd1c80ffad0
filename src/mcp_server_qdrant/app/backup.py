"""Backups of the engine that the settings name, as far as its allow-list lets them be seen."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from mcp_server_qdrant.app.upkeep import (
    PATIENCE,
    check_visible,
    check_writable,
    import_local_mode,
    unknown,
    visible,
)
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.client import LOCAL
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.upkeep import backup, manifest
from mcp_server_qdrant.qdrant.upkeep.backup import Archive, EdgeArchive, ServerArchive, Tell
from mcp_server_qdrant.qdrant.upkeep.snapshots import Snapshots
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import revealed


async def back_up(
    settings: Settings,
    folder: Path,
    chosen: Sequence[str],
    now: datetime,
    tell: Tell,
    *,
    replace: bool,
) -> dict[str, int]:
    """Copy the chosen collections, or all, into a folder: their numbers of points."""
    async with _archive(settings) as (archive, names):
        seen = [name for name in names if visible(name, settings)]
        for name in chosen:
            if name not in seen:
                raise unknown(name, seen)
        return await backup.back_up(archive, chosen or seen, folder, now, tell, replace=replace)


async def restore(
    settings: Settings, folder: Path, chosen: Sequence[str], tell: Tell, *, replace: bool
) -> dict[str, int]:
    """Bring the chosen collections, or all, back from a folder: their numbers of points."""
    check_writable(settings)
    found = manifest.read(folder)
    saved = found.collections
    for name in chosen:
        if name not in saved:
            raise unknown(name, list(saved))
    wanted = {name: saved[name] for name in chosen or saved}
    for name in wanted:
        check_visible(name, settings)
    async with _archive(settings) as (archive, names):
        backup.check(archive, folder, found.engine, wanted, names, replace=replace)
        return await backup.restore(archive, folder, wanted, tell, replace=replace)


@asynccontextmanager
async def _archive(settings: Settings) -> AsyncIterator[tuple[Archive, list[str]]]:
    """The engine, and all its collections."""
    if settings.qdrant_url == LOCAL:
        raise RequestError("The trial engine keeps nothing: there is nothing to back up.")
    if settings.qdrant_url is not None:
        snapshots = Snapshots(settings.qdrant_url, revealed(settings.qdrant_api_key))
        try:
            yield ServerArchive(snapshots), await snapshots.names()
        finally:
            await snapshots.close()
        return
    client = await EdgeClient.open(settings.local_path, timeout=PATIENCE)
    try:
        await import_local_mode(settings, client)
        found = await client.get_collections()
        yield EdgeArchive(client, settings.local_path), [one.name for one in found.collections]
    finally:
        await client.close()
