"""The line on which a running server answers the command `recall`."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from typing_extensions import override

from mcp_server_qdrant.app.ask import NAME, WIRE
from mcp_server_qdrant.core.errors import QdrantMcpError, contained
from mcp_server_qdrant.hosting.host import Client, Work, listening
from mcp_server_qdrant.hosting.wire import Call
from mcp_server_qdrant.tools.recall import Recall
from mcp_server_qdrant.tools.services import Open

logger = logging.getLogger(__name__)


class Answers(Work):
    """Answers each call for as long as somebody waits for it."""

    def __init__(self, recall: Recall) -> None:
        super().__init__()
        self._recall = recall

    @override
    async def do(self, client: Client, call: Call) -> str:
        try:
            async with asyncio.timeout(call.until - time.monotonic()):
                with contained():
                    return await self._recall.tell(*call.arguments)
        except (QdrantMcpError, TimeoutError) as error:
            logger.info("Nothing was recalled: %s", error)
            return ""


@asynccontextmanager
async def answering(folder: Path, services: Open) -> AsyncIterator[None]:
    """Answer meanwhile; `recall` finds this server by a file in that folder.

    A folder that cannot be used is a warning in the log.
    """
    async with AsyncExitStack() as line:
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            place = folder / NAME.format(os.getpid())
            await line.enter_async_context(listening(place, WIRE, Answers(Recall(services))))
        except OSError as error:
            logger.warning("QDRANT_RECALL_PATH cannot be used: %s.", error.strerror)
        yield
