"""An HTTP service on a free port, for one test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect during a response, as some tests do."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], end: Callable[[], None]) -> Iterator[str]:
    """Serve, and yield the URL; `end` releases hanging responses."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            end()
            server.shutdown()
            thread.join()
