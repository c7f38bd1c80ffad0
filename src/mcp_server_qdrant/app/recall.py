"""The line on which a running server answers the command `recall`."""

import asyncio
import logging
import os
import time
from contextlib import ExitStack
from pathlib import Path

from typing_extensions import override

from mcp_server_qdrant.app.ask import NAME, WIRE
from mcp_server_qdrant.core.errors import QdrantMcpError, contained
from mcp_server_qdrant.hosting.host import Client, Listener, Work
from mcp_server_qdrant.hosting.wire import Call
from mcp_server_qdrant.tools.recall import Recall
from mcp_server_qdrant.tools.services import Open

logger = logging.getLogger(__name__)


class Answers(Work):
    """Answers each call for as long as somebody waits for it."""

    def __init__(self, recall: Recall) -> None:
        self._recall = recall
        self._under_way: set[asyncio.Task[None]] = set()

    @override
    def heard(self, client: Client, call: Call) -> None:
        task = asyncio.ensure_future(self._answer(client, call))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _answer(self, client: Client, call: Call) -> None:
        text = ""
        try:
            async with asyncio.timeout(call.until - time.monotonic()):
                with contained():
                    text = await self._recall.of(*call.arguments)
        except (QdrantMcpError, TimeoutError) as error:
            logger.info("Nothing was recalled: %s", error)
        client.send([(call.number, True, text)])


def answering(folder: Path, services: Open) -> ExitStack:
    """Answer until this is closed, found by a file in that folder; not where that cannot be."""
    line = ExitStack()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = folder / NAME.format(os.getpid())
        line.enter_context(Listener(place, WIRE, Answers(Recall(services))).listening())
    except OSError as error:
        logger.warning("QDRANT_RECALL_PATH cannot be used: %s.", error.strerror)
    return line
