"""A Qdrant server with inference, as far as its REST interface is needed here.

qdrant-client's local mode keeps the points; every `{"text", "model"}` in the place of a vector is
recorded and becomes the fake encoder's vector of the text.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient, models

from tests.support import dense

REFUSAL = "Service internal error: InferenceService is not initialized."


class InferenceServer:
    """`documents` are the inference objects received; `down` refuses them, as without inference."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.documents: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.down = False
        self.url = ""
        self._lock = threading.Lock()

    def before(self, method: str, target: str, body: Any) -> tuple[int, Any] | None:
        """Status and body of an answer that is not the engine's, if this request gets one."""
        return (200, {"title": "qdrant", "version": "1.20.0"}) if target == "/" else None

    def answer(self, method: str, path: str, body: Any) -> Any:
        with self._lock:
            name, what = re.fullmatch(r"/collections/?([^/]*)/?(.*)", path).groups()
            return getattr(self, f"_{method.lower()}_{what.replace('/', '_')}")(
                name, self._encoded(body)
            )

    def _encoded(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._encoded(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if {"text", "model"} <= set(value):
            if self.down:
                raise RuntimeError(REFUSAL)
            self.documents.append(value)
            return dense(value["text"])
        return {key: self._encoded(inner) for key, inner in value.items()}

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
def served(state: Any = None) -> Iterator[Any]:
    """The server, on a port of its own."""
    state = state or InferenceServer()

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
            with suppress(BrokenPipeError):  # who asked may have given up
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
            server.shutdown()
            thread.join()
            state.client.close()
