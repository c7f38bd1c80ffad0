"""A Qdrant server over REST with faults that a test chooses.

qdrant-client's local mode keeps the points.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from qdrant_client import QdrantClient, models

BROKEN = 0  # a fault: the connection is closed without a response


class RestServer:
    """`asked` has (method, path, query, body). `faults` maps "METHOD path" to the next statuses.

    `garbage` maps paths to other responses, `always` is a response to all. Requests to a path in
    `held` wait until `release` is set. `version` is the reported version.
    """

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self._lock = threading.Lock()
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

    def answer(self, method: str, path: str, body: Any) -> Any:
        """The engine's response."""
        with self._lock:
            name, what = re.fullmatch(r"/collections/?([^/]*)/?(.*)", path).groups()
            return getattr(self, f"_{method.lower()}_{what.replace('/', '_')}")(name, body)

    def to(self, path: str) -> list[tuple[str, dict[str, str], Any]]:
        """The requests to a path: (method, query, body)."""
        return [(method, query, body) for method, at, query, body in self.asked if at == path]

    def _post_facet(self, _: str, __: Any) -> Any:
        return {"hits": []}

    def _get_(self, name: str, _: Any) -> Any:
        return self.client.get_collection(name) if name else self.client.get_collections()

    def _get_exists(self, name: str, _: Any) -> Any:
        return {"exists": self.client.collection_exists(name)}

    def _put_(self, name: str, body: Any) -> Any:
        made = models.CreateCollection.model_validate(body)
        return self.client.create_collection(
            name,
            vectors_config=made.vectors,
            sparse_vectors_config=made.sparse_vectors,
            metadata=made.metadata,
        )

    def _put_index(self, _: str, __: Any) -> Any:
        return {"operation_id": 0, "status": "completed"}

    def _put_points(self, name: str, body: Any) -> Any:
        return self.client.upsert(name, models.PointsList.model_validate(body).points)

    def _put_points_vectors(self, name: str, body: Any) -> Any:
        return self.client.update_vectors(name, models.UpdateVectors.model_validate(body).points)

    def _post_points(self, name: str, body: Any) -> Any:
        asked = models.PointRequest.model_validate(body)
        return self.client.retrieve(name, asked.ids, asked.with_payload)

    def _post_points_count(self, name: str, body: Any) -> Any:
        return self.client.count(name, models.CountRequest.model_validate(body).filter)

    def _post_points_scroll(self, name: str, body: Any) -> Any:
        asked = models.ScrollRequest.model_validate(body)
        points, offset = self.client.scroll(name, asked.filter, limit=asked.limit)
        return {"points": points, "next_page_offset": offset}

    def _post_points_delete(self, _: str, __: Any) -> Any:
        return {"operation_id": 0, "status": "completed"}

    def _post_points_query(self, name: str, body: Any) -> Any:
        return self._query(name, body)[0]

    def _post_points_query_batch(self, name: str, body: Any) -> Any:
        return self._query(name, *body["searches"])

    def _query(self, name: str, *bodies: Any) -> list[Any]:
        asked = [models.QueryRequest.model_validate(body) for body in bodies]
        return self.client.query_batch_points(name, asked)


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


@contextmanager
def rest_server() -> Iterator[RestServer]:
    """Such a server on a free port."""
    state = RestServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _do(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.headers.append(dict(self.headers))
            path = self.path.split("?", maxsplit=1)[0]
            body = json.loads(raw or b"null")
            try:
                status, said = state.before(self.command, self.path, body) or (0, None)
                found = None if status else state.answer(self.command, path, body)
                if not status:
                    status, said = 200, {"result": plain(found), "status": "ok", "time": 0.0}
            except (RuntimeError, ValueError) as error:
                missing = isinstance(error, ValueError) and "not found" in str(error)
                status = 404 if missing else 500
                said = {"status": {"error": str(error)}, "time": 0.0}
            except ConnectionError:
                self.close_connection = True
                return
            answer = json.dumps(said).encode()
            with suppress(BrokenPipeError):  # the client may have given up
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        do_GET = do_PUT = do_POST = _do  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield state
        finally:
            state.release.set()
            server.shutdown()
            thread.join()
            state.client.close()
