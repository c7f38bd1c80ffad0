"""A local reranking service with scripted responses."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.http_stub import Scripted, serving

Reply = tuple[int, dict[str, str], bytes]


def shared_words(query: str, text: str) -> float:
    """The share of the query's words that a text has."""
    wanted = set(query.lower().split())
    return len(wanted & set(text.lower().split())) / len(wanted)


def as_json(value: Any, status: int = 200, **headers: str) -> Reply:
    return status, {"Content-Type": "application/json", **headers}, json.dumps(value).encode()


def cohere(body: dict[str, Any]) -> Reply:
    """Reply like Cohere and Infinity: best first; unknown fields are refused."""
    if "documents" not in body:
        return as_json({"message": "documents is required"}, 422)
    rows = [
        {"index": index, "relevance_score": shared_words(body["query"], text)}
        for index, text in enumerate(body["documents"])
    ]
    rows.sort(key=lambda row: -row["relevance_score"])
    return as_json({"id": "x", "results": rows[: body["top_n"]], "meta": {}})


def jina(body: dict[str, Any]) -> Reply:
    """Reply like Jina: the same with usage, and with the texts unless declined."""
    _, headers, answer = cohere(body)
    whole = json.loads(answer) | {"model": body["model"], "usage": {"total_tokens": 9}}
    if body.get("return_documents", True):
        for row in whole["results"]:
            row["document"] = {"text": body["documents"][row["index"]]}
    return 200, headers, json.dumps(whole).encode()


def tei(body: dict[str, Any]) -> Reply:
    """Reply like Text Embeddings Inference."""
    if "texts" not in body:
        return 422, {}, b"Failed to deserialize the JSON body: missing field `texts`"
    rows = [
        {"index": index, "score": shared_words(body["query"], text)}
        for index, text in enumerate(body["texts"])
    ]
    return as_json(sorted(rows, key=lambda row: -row["score"]))


class Stub:
    """Answers with `reply(body)`; None hangs. `requests` has (path, headers, body)."""

    def __init__(self) -> None:
        self.reply: Callable[[dict[str, Any]], Reply | None] = cohere
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.over = threading.Event()
        self.url = ""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.requests]


@contextmanager
def served() -> Iterator[Stub]:
    """A stub that listens on a free port."""
    stub = Stub()

    class Handler(Scripted):
        def answer(self, body: Any) -> None:
            stub.requests.append((self.path, dict(self.headers), body))
            reply = stub.reply(body)
            if reply is None:
                stub.over.wait(30)
                self.close_connection = True
                return
            self.write_reply(*reply)

    with serving(Handler, stub.over.set) as url:
        stub.url = url
        yield stub
