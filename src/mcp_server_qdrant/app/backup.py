"""Backups of the embedded engine, as far as the allow-list lets its collections be seen."""

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
from mcp_server_qdrant.qdrant import backup
from mcp_server_qdrant.qdrant.backup import Tell
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.settings.environment import Settings

EMBEDDED_ONLY = (
    "Backups are of the embedded engine, and QDRANT_URL names a server: make snapshots there, "
    "or copy its collections to a folder with `mcp-server-qdrant copy NAME --to FOLDER`."
)


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
    async with _engine(settings) as (client, names):
        seen = [name for name in names if visible(name, settings)]
        for name in chosen:
            if name not in seen:
                raise unknown(name, seen)
        return await backup.back_up(client, chosen or seen, folder, now, tell, replace=replace)


async def restore(
    settings: Settings, folder: Path, chosen: Sequence[str], tell: Tell, *, replace: bool
) -> dict[str, int]:
    """Bring the chosen collections, or all, back from a folder: their numbers of points."""
    check_writable(settings)
    saved = backup.saved_in(folder)
    for name in chosen:
        if name not in saved:
            raise unknown(name, list(saved))
    wanted = {name: saved[name] for name in chosen or saved}
    for name in wanted:
        check_visible(name, settings)
    async with _engine(settings) as (client, names):
        backup.check_free(wanted, names, replace=replace)
        root = settings.local_path
        return await backup.restore(client, root, folder, wanted, tell, replace=replace)


@asynccontextmanager
async def _engine(settings: Settings) -> AsyncIterator[tuple[EdgeClient, list[str]]]:
    """The engine, and all its collections."""
    if settings.qdrant_url is not None:
        raise RequestError(EMBEDDED_ONLY)
    client = await EdgeClient.open(settings.local_path, timeout=PATIENCE)
    try:
        await import_local_mode(settings, client)
        found = await client.get_collections()
        yield client, [one.name for one in found.collections]
    finally:
        await client.close()
