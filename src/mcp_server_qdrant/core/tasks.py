"""Parallel work, retries and background tasks."""

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

    A failed task is logged and restarted with exponential backoff. `faults` maps the names of
    failed tasks that wait for their restart to a sentence.
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
        """Start a task; `died` gets the sentence if it fails."""
        task = asyncio.ensure_future(self._run_with_restarts(name, work, died))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def close(self) -> None:
        """Cancel all tasks."""
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _run_with_restarts(
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


async def gather(
    names: Sequence[str], ask: Callable[[str], Awaitable[T]], at_once: int = AT_ONCE
) -> tuple[dict[str, T], dict[str, QdrantMcpError]]:
    """Call `ask` for all names; (results, our errors) by name. Other errors are raised."""
    if len(names) == 1:  # called directly, without waiting for other tasks
        try:
            return {names[0]: await ask(names[0])}, {}
        except QdrantMcpError as error:
            return {}, {names[0]: error}
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


async def retry(
    call: Callable[[], Awaitable[T]],
    pauses: Sequence[float],
    faults: tuple[type[Exception], ...],
    is_transient: Callable[[Exception], bool] = lambda _: True,
) -> T:
    """Call, retrying after each pause (seconds) while `is_transient` says that the error is."""
    for pause in pauses:
        try:
            return await call()
        except faults as error:
            if not is_transient(error):
                raise
        await asyncio.sleep(pause)
    return await call()
