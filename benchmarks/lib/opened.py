"""Services on an empty embedded engine with the real model, in this process."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.settings.environment import Settings


@asynccontextmanager
async def opened(model: Path, **more: Any) -> AsyncIterator[Services]:
    """The services, with the model loaded from its folder; engine and cache go at the end.

    `more` are further settings.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = Settings(
            qdrant_local_path=Path(folder) / "engine",
            qdrant_cache_path=Path(folder) / "cache",
            embedding_model_path=model.resolve(),
            **more,
        )
        services = await open_lazily(settings)
        try:
            assert await services.encoders.default.ready(60)
            yield services
        finally:
            await services.close()
