"""The end of a server: it takes no more calls, finishes those under way, then stops."""

import os
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from typing_extensions import override

from mcp_server_qdrant.http.load import Load

STREAMS_SECONDS = 1  # for connections to close once their streams were ended
TICKS = 10  # in a second
QUIET_TICKS = 2  # an answer over SSE is written a moment after its call is done


class Server(uvicorn.Server):
    """Keeps listening while it drains, so that health checks and refusals are heard.

    The first SIGTERM or SIGINT begins it, a second one ends the process. Calls get `seconds`, then
    they are cancelled.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        load: Load,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config)
        self._load = load
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0
        self._quiet = 0

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self._load.draining:
            os._exit(128 + sig)
        self._until = self._clock() + self._seconds
        self._load.draining = True

    @override
    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: stop or go on. Once a second end the work of withdrawn tokens."""
        if counter % TICKS == 0:
            self._load.standing.look()
        if self._load.draining:
            self._quiet = self._quiet + 1 if self._load.calls.count == 0 else 0
            if self._quiet >= QUIET_TICKS or self._clock() >= self._until:
                self._load.end_streams()
                self.should_exit = True
        return await super().on_tick(counter)
