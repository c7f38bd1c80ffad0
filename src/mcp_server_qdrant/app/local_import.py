"""Collections of the official server, in the folder of the embedded engine, become the engine's."""

import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.encoders.multilingual import bm25_of
from mcp_server_qdrant.ingest.collections.copying import bring_in
from mcp_server_qdrant.ingest.collections.upgrade import Upgrades
from mcp_server_qdrant.qdrant.local_mode import LocalFiles, import_due
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.environment import Settings

logger = logging.getLogger(__name__)


async def import_local_mode(settings: Settings, client: AsyncQdrantBase) -> None:
    """Import collections of the official server in the engine's folder, once."""
    bulk = Bulk(client, settings.qdrant_content_fields)
    upgrades = upgrades_of(settings, bulk)

    async def upgrade(name: str) -> None:
        with contextlib.suppress(RequestError):  # it has keywords of its own
            await upgrades.keywords(name)

    async with import_due(settings.local_path) as journal:
        if journal is None:
            return
        try:
            source = LocalFiles(settings.local_path)
        except EngineFailure as error:
            logger.warning("%s", error)
            return
        await bring_in(source, bulk, journal, upgrade, datetime.now(UTC))


def upgrades_of(
    settings: Settings, bulk: Bulk, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Upgrades:
    """Upgrades of the collections of an engine, with this server's keywords."""
    return Upgrades(bulk, bm25_of(settings.bm25_language), progress)
