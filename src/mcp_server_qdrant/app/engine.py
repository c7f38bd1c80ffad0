"""From the settings to the engine."""

import asyncio
import importlib

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.qdrant.client import is_local_mode, open_client
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import revealed


async def open_engine(
    settings: Settings, timeout: float, host: Link | None = None
) -> AsyncQdrantBase:
    """The engine that the settings name, with what local mode left in its folder.

    `host` is the line to the embedded one where there is one already.
    Raises EngineUnavailable, ConfigError.
    """
    client = await open_client(
        url=settings.qdrant_url,
        api_key=revealed(settings.qdrant_api_key),
        local_path=settings.local_path,
        timeout=timeout,
        host=host,
    )
    try:
        if settings.qdrant_url is None and is_local_mode(settings.local_path):
            module = "mcp_server_qdrant.app.local_import"  # few need it
            found = await asyncio.to_thread(importlib.import_module, module)
            await found.import_local_mode(settings, client)
    except BaseException:
        await client.close()
        raise
    return client
