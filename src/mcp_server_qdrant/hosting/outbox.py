"""A host's replies to one client: many threads answer, one sends at a time."""

import threading
from collections import deque
from typing import Any

from mcp_server_qdrant.hosting import wire


class Outbox:
    """Replies to one client, sent in the order in which they were given."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._frames: deque[bytes] = deque()
        self._sending = threading.Lock()

    def send(self, replies: list[Any]) -> None:
        """Send a frame, or leave it to the thread that is sending.

        Raises OSError where the client has gone; its line is hung up then.
        """
        self._frames.append(wire.pack(replies))
        while self._frames and self._sending.acquire(blocking=False):
            try:
                while self._frames:
                    self._link.send_bytes(self._frames.popleft())
            except OSError:
                # Part of a frame may be out: nothing may follow it.
                self._frames.clear()
                wire.hang_up(self._link)
                raise
            finally:
                self._sending.release()
