"""Work at the same time, work that is tried again, and work in the background."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

from mcp_server_qdrant.core.errors import QdrantMcpError, contained

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0

AT_ONCE = 64

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Tasks:
    """The background tasks of one part of the server.

    One that fails is logged, and started again after a growing pause.
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


async def gathered(
    names: Sequence[str], ask: Callable[[str], Awaitable[T]], at_once: int = AT_ONCE
) -> tuple[dict[str, T], dict[str, QdrantMcpError]]:
    """The answers by name, and our errors by name; any other error is raised."""
    gate = asyncio.Semaphore(at_once)

    async def answer_of(name: str) -> T:
        async with gate:
            return await ask(name)

    answers = await asyncio.gather(*map(answer_of, names), return_exceptions=True)
    found: dict[str, T] = {}
    failed: dict[str, QdrantMcpError] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, QdrantMcpError):
            failed[name] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[name] = answer
    return found, failed


async def retried(
    call: Callable[[], Awaitable[T]],
    pauses: Sequence[float],
    faults: tuple[type[Exception], ...],
    passing: Callable[[Exception], bool] = lambda _: True,
) -> T:
    """The call's answer; tried again after each pause (seconds) while its fault may pass."""
    for pause in pauses:
        try:
            return await call()
        except faults as error:
            if not passing(error):
                raise
        await asyncio.sleep(pause)
    return await call()
