"""Opens the engine that the settings name."""

from pathlib import Path

from mcp_server_qdrant.app.process import HERE
from mcp_server_qdrant.encoders.bm25 import AUTO, Bm25Encoder
from mcp_server_qdrant.ingest.collections.copying import import_local_mode
from mcp_server_qdrant.qdrant.client import is_local_mode, open_client
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.engine import WholeEngine
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import reveal


async def open_folder(folder: Path, timeout: float) -> EdgeClient:
    """The embedded engine of a folder: shared in this process, or a new one for the caller.

    Raises EngineUnavailable.
    """
    process = HERE.get()
    if process is not None and process.holds(folder):
        return await process.client(timeout)
    return await EdgeClient.open(folder, timeout=timeout)


async def open_engine(settings: Settings, timeout: float) -> WholeEngine:
    """Open the engine that the settings name; collections of local mode are imported first.

    Raises EngineUnavailable, ConfigError.
    """
    folder, url = settings.local_path, settings.qdrant_url
    if url is not None:
        key = reveal(settings.qdrant_api_key)
        return await open_client(url, timeout=timeout, api_key=key)
    client = await open_folder(folder, timeout)
    try:
        if is_local_mode(folder):
            bulk = Bulk(client, settings.qdrant_content_fields)
            await import_local_mode(folder, bulk, Bm25Encoder(AUTO))
    except BaseException:
        await client.close()
        raise
    return client
