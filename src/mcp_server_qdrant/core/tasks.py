"""Background tasks: one that fails is logged, reported, and started again after a growing pause."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeVar

from mcp_server_qdrant.core.errors import QdrantMcpError, contained

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Tasks:
    """The background tasks of one part of the server.

    `faults` maps the name of each that failed, and was not started again yet, to a sentence on it.
    """

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._running: set[asyncio.Task[Any]] = set()
        self.faults: dict[str, str] = {}

    def start(
        self,
        name: str,
        work: Callable[[], Awaitable[T]],
        died: Callable[[str], None] = lambda _: None,
    ) -> asyncio.Task[T]:
        """Begin some work; `died` gets the sentence, too."""
        task = asyncio.ensure_future(self._lasting(name, work, died))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def close(self) -> None:
        """End all of them."""
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _lasting(
        self, name: str, work: Callable[[], Awaitable[T]], died: Callable[[str], None]
    ) -> T:
        pause = FIRST_PAUSE
        while True:
            began = self._clock()
            try:
                with contained():
                    return await work()
            except QdrantMcpError as error:
                if self._clock() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                reason = str(error).rstrip(".")
                sentence = f"{name} stopped: {reason}; it starts again in {pause:.0f} s"
                logger.error("%s.", sentence, exc_info=error.__cause__)  # noqa: TRY400
            self.faults[name] = sentence
            died(sentence)
            await self._sleep(pause)
            self.faults.pop(name, None)
            pause = min(2 * pause, LONGEST_PAUSE)
