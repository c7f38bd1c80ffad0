"""A service on a port of its own, for as long as a test takes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that goes in the middle of an answer is what some tests want."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], end: Callable[[], None]) -> Iterator[str]:
    """Its URL; `end` lets go of the answers that hang."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            end()
            server.shutdown()
            thread.join()
