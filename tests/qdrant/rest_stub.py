"""A Qdrant server that is asked over REST and misbehaves as a test says."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.qdrant.inference_stub import InferenceServer, served

BROKEN = 0  # a fault: the connection is closed without an answer


class RestServer(InferenceServer):
    """`asked` are (method, path, query, body). `faults` maps "METHOD path" to statuses to come.

    `garbage` is what paths answer instead, `always` what all do. Requests of a path in `held` wait
    until `release` is set. `version` is what it says it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.faults: dict[str, list[int]] = {}
        self.garbage: dict[str, Any] = {}
        self.always: Any = None
        self.held: set[str] = set()
        self.reached = threading.Semaphore(0)
        self.release = threading.Event()
        self.version = "1.20.0"

    def before(self, method: str, target: str, body: Any) -> tuple[int, Any] | None:
        split = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.asked.append((method, split.path, query, body))
        if split.path in self.held:
            self.reached.release()
            self.release.wait(60)
        if faults := self.faults.get(f"{method} {split.path}"):
            status = faults.pop(0)
            if status == BROKEN:
                raise ConnectionAbortedError
            return status, {"status": {"error": f"refused with {status}"}, "time": 0.0}
        if self.always is not None:
            return 200, self.always
        if split.path in self.garbage:
            return 200, self.garbage[split.path]
        if target == "/":
            return 200, {"title": "qdrant", "version": self.version}
        return None

    def to(self, path: str) -> list[tuple[str, dict[str, str], Any]]:
        """(method, query, body) of what was asked of a path."""
        return [(method, query, body) for method, at, query, body in self.asked if at == path]

    def _post_facet(self, _: str, __: Any) -> Any:
        return {"hits": []}


@contextmanager
def rest_server() -> Iterator[RestServer]:
    """One on a port of its own."""
    with served(RestServer()) as server:
        try:
            yield server
        finally:
            server.release.set()
