"""A local embeddings service with correct or scripted responses."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.fakes import FakeEncoder
from tests.http_stub import Scripted, serving

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
Reply = tuple[int, dict[str, str], bytes]


def words(texts: Sequence[str]) -> list[list[float]]:
    """The fake encoder's vectors, three times as long: services need not normalise."""
    fake = FakeEncoder()
    return [[3 * value for value in fake._vector(text)] for text in texts]


def as_json(value: Any, status: int = 200, **headers: str) -> Reply:
    return (
        status,
        {name.replace("_", "-"): v for name, v in headers.items()},
        json.dumps(value).encode(),
    )


def rows(vectors: Sequence[Any]) -> dict[str, Any]:
    """OpenAI's response with these embeddings."""
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    return {"object": "list", "data": data, "model": "m", "usage": {"total_tokens": 1}}


class Stub:
    """`replies` come first, one per request; then texts are embedded by `embed`.

    A reply is a function of the body; None drops the connection in the middle of a response, ...
    never responds. `limit` is the most texts per request. `requests` has (path, headers, body).
    """

    def __init__(self, embed: Embed = words) -> None:
        self.embed = embed
        self.limit: int | None = None
        self.replies: list[Any] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.times: list[float] = []
        self.over = threading.Event()
        self.url = ""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.requests]

    @property
    def inputs(self) -> list[list[str]]:
        return [body["input"] for body in self.bodies]

    def reply(self, body: dict[str, Any]) -> Any:
        if self.replies:
            given = self.replies.pop(0)
            return given(body) if callable(given) else given
        texts = body["input"]
        if self.limit is not None and len(texts) > self.limit:
            return as_json({"error": "batch size > maximum allowed batch size"}, 413)
        vectors = [list(vector)[: body.get("dimensions")] for vector in self.embed(texts)]
        return as_json(rows(vectors))


@contextmanager
def served(embed: Embed = words) -> Iterator[Stub]:
    """A stub that listens on a free port."""
    stub = Stub(embed)

    class Handler(Scripted):
        def answer(self, body: Any) -> None:
            stub.times.append(time.monotonic())
            stub.requests.append((self.path, dict(self.headers), body))
            reply = stub.reply(body)
            if reply is ...:
                stub.over.wait(30)
            if reply is ... or reply is None:
                self.close_connection = True
                self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"data": [')
                self.wfile.flush()
                return
            self.write_reply(*reply)

    with serving(Handler, stub.over.set) as url:
        stub.url = f"{url}/v1"
        yield stub
