"""An HTTP service on a free port, for one test."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect during a response, as some tests do."""


class Scripted(BaseHTTPRequestHandler):
    """Has `answer` respond to the JSON of each POST; logs nothing."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet: a second one would wait for the client's ACK

    def do_POST(self) -> None:
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, body: Any) -> None:
        raise NotImplementedError

    def write_reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


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
