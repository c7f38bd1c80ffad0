"""Runs a model's work one piece at a time; callers take turns."""

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from time import monotonic
from typing import Any, TypeVar

from mcp_server_qdrant.core.context import caller, current_connection
from mcp_server_qdrant.core.errors import EncoderUnavailable, QdrantMcpError, contained

IDLE_SECONDS = 60.0  # until an idle thread ends

T = TypeVar("T")
Job = tuple[Future[Any], Callable[[], Any]]

logger = logging.getLogger(__name__)


class Turns:
    """Runs work in a thread of its own, for callers in any event loop.

    Work that takes longer than `limit` seconds counts as hanging: its thread is abandoned, and a
    new one does the rest.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._queues: dict[Hashable, deque[Job]] = {}  # by caller, in turn order
        self._thread: threading.Thread | None = None
        self._began = math.inf  # when the current work began

    async def do(self, work: Callable[[], T], seconds: float) -> T:
        """Run the work in its turn. Raises TimeoutError after `seconds`.

        Work is skipped if its caller no longer waits.
        """
        future: Future[T] = Future()
        who = caller()
        with self._changed:
            queue = (current_connection(), who and who.name)
            self._queues.setdefault(queue, deque()).append((future, work))
            if self._thread is None or self._hangs:
                self._replace()
            self._changed.notify_all()
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)

    def leave_hanging(self) -> bool:
        """Abandon the current work if it hangs; True if it does."""
        with self._changed:
            if hangs := self._hangs:
                self._replace()
        return hangs

    @property
    def _hangs(self) -> bool:
        return monotonic() - self._began >= self._limit

    def _replace(self) -> None:
        """Start a new thread for the waiting work. A pool's thread would block the exit."""
        thread = threading.Thread(target=self._work, name="model", daemon=True)
        thread.start()
        self._thread, self._began = thread, math.inf

    def _work(self) -> None:
        while (job := self._next()) is not None:
            future, work = job
            if future.set_running_or_notify_cancel():
                try:
                    with contained(_unforeseen):
                        future.set_result(work())
                except QdrantMcpError as error:
                    future.set_exception(error)
            del job, future, work  # do not keep a model or a result alive while idle

    def _next(self) -> Job | None:
        """Wait for the next work of this thread; None if it must end."""
        me = threading.current_thread()
        with self._changed:
            if self._thread is me:
                self._began = math.inf
                self._changed.wait_for(lambda: self._queues or self._thread is not me, IDLE_SECONDS)
            if self._thread is not me:  # this thread was abandoned
                return None
            if not self._queues:
                self._thread = None
                return None
            self._began = monotonic()
            who = next(iter(self._queues))
            queue = self._queues.pop(who)
            job = queue.popleft()
            if queue:
                self._queues[who] = queue  # back to the end of the queue
            return job


def _unforeseen(fault: str) -> EncoderUnavailable:
    logger.exception("A call failed")
    return EncoderUnavailable(f"The model failed: an unexpected {fault}.")
