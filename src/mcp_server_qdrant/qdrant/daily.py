"""A backup of the embedded engine's collections each day; the last few are kept."""

import asyncio
import logging
import re
import shutil
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import visible_in
from mcp_server_qdrant.qdrant.backup import MANIFEST, back_up
from mcp_server_qdrant.qdrant.edge.client import EdgeClient

KEPT = 7
FIRST_SECONDS = 60.0  # after the start, which has more urgent work
PAUSE_SECONDS = 3_600.0  # between two checks of the date

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")

logger = logging.getLogger(__name__)


async def back_up_daily(
    client: EdgeClient,
    folder: Path,
    allowed: Sequence[str],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Back up daily (UTC) into a folder in `folder` named after the day; never ends.

    `allowed` selects the collections by names and globs; empty for all. A failed backup is logged
    and retried after PAUSE_SECONDS. An old one is removed only after a newer one is complete.
    """
    await sleep(FIRST_SECONDS)
    while True:
        try:
            await back_up_today(client, folder, allowed, now())
        except QdrantMcpError as error:
            logger.warning("No daily backup was made: %s", error)
        await sleep(PAUSE_SECONDS)


async def back_up_today(
    client: EdgeClient, folder: Path, allowed: Sequence[str], now: datetime
) -> None:
    """Make the day's backup, unless it exists or there are no collections; then remove old ones.

    Raises the errors of `backup.back_up`.
    """
    today = folder / now.date().isoformat()
    found = (await client.get_collections()).collections
    names = [one.name for one in found if visible_in(allowed, one.name)]
    if not names or (today / MANIFEST).is_file():
        return
    await back_up(client, names, today, now, lambda *_: None, replace=False)
    for old in _daily_backups(folder)[:-KEPT]:
        await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)


def _daily_backups(folder: Path) -> list[Path]:
    """The complete daily backups, oldest first."""
    days = (one for one in folder.iterdir() if _DAY.fullmatch(one.name))
    return sorted(one for one in days if (one / MANIFEST).is_file())
