"""Inside the model host: the models, and a client's session.

Each client has a thread, in which its queries are encoded at once, its callers taking turns;
whatever can take long has a thread of its own, so that the client's next query is heard meanwhile.
"""

import asyncio
import contextlib
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.errors import (
    EncoderUnavailable,
    QdrantMcpError,
    RequestError,
    RerankerUnavailable,
)
from mcp_server_qdrant.encoders.encoder import Span
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.hosted import Spec
from mcp_server_qdrant.encoders.local.rerank import FastEmbedReranker
from mcp_server_qdrant.encoders.local.turns import Turns
from mcp_server_qdrant.hosting import wire
from mcp_server_qdrant.hosting.outbox import Outbox
from mcp_server_qdrant.hosting.shares import Shares

_LOOK_SECONDS = 0.02
LOAD_SECONDS = 30.0  # that a passage waits for a model

Split = Callable[[str, int, str | None, int], list[Span]]
Model = FastEmbedEncoder | FastEmbedReranker


class Models:
    """Every model that a client has asked for, loaded once; let go some time after its last one.

    `split(text, limit, tokenizer, overlap)` cuts a text.
    """

    busy = False

    def __init__(self, split: Split, idle_seconds: float) -> None:
        self.split = split
        self._idle_seconds = idle_seconds
        self._models: dict[Spec, Model] = {}
        self._users: dict[Spec, set[Session]] = {}
        self._left: dict[Spec, float] = {}
        self._lock = threading.Lock()
        self._turns = Turns()

    def start(self) -> None:
        """Nothing is loaded before it is asked for."""

    def session(self, link: Any) -> "Session":
        """For a client."""
        return Session(link, self)

    def left(self, session: "Session") -> None:
        """Its models may be let go, unless others use them."""
        with self._lock:
            session.ended = True
            for spec, users in self._users.items():
                users.discard(session)
                if not users:
                    self._left.setdefault(spec, time.monotonic())

    def tend(self) -> None:
        """Let go of what nobody has used for a while."""
        with self._lock:
            until = time.monotonic() - self._idle_seconds
            for spec in [spec for spec, since in self._left.items() if since < until]:
                _shut(self._models.pop(spec))
                del self._users[spec], self._left[spec]

    def end(self) -> None:
        """Nothing is written anywhere."""

    def of(self, spec: Spec, session: "Session") -> Model:
        """The model, which is being loaded at least."""
        with self._lock:
            if spec not in self._models:
                self._models[spec] = self._made(spec)
                self._users[spec] = set()
            if not session.ended:
                self._users[spec].add(session)
                self._left.pop(spec, None)
            model = self._models[spec]
        if model.state != "ready":
            model.start()
        return model

    def _made(self, spec: Spec) -> Model:
        where: dict[str, Any] = {
            "cache_dir": Path(spec.cache_dir) if spec.cache_dir else None,
            "model_path": Path(spec.model_path) if spec.model_path else None,
            "threads": spec.threads,
        }
        if spec.kind == "rerank":
            return FastEmbedReranker(spec.model, **where)
        return FastEmbedEncoder(spec.model, **where, query_cache_size=0, turns=self._turns)


def _shut(model: Model) -> None:
    if isinstance(model, FastEmbedEncoder):
        model.close()
    else:
        asyncio.run(model.close())


class Session:
    """One client."""

    def __init__(self, link: Any, models: Models) -> None:
        self._link = link
        self._models = models
        self.ended = False
        self._outbox = Outbox(link)
        self._queries: Shares[wire.Call] = Shares()
        self._slow: dict[str, Callable[..., Any]] = {
            "query": self._query,
            "state": self._state,
            "documents": self._documents,
            "size": self._size,
            "common": self._common,
            "split": self._split,
            "tokenizer": self._tokenizer,
            "rerank": self._rerank,
        }

    def run(self) -> None:
        """Serve until the client goes (EOFError, OSError)."""
        while True:
            self._hear()
            while self._queries:
                caller, call = self._queries.take()
                began = time.monotonic()
                self._do(call)
                self._queries.charge(caller, time.monotonic() - began)
                while self._link.poll():
                    self._hear()

    def _hear(self) -> None:
        """Take the next frame."""
        for call in wire.calls(self._link.recv_bytes()):
            if call.operation == "ping":
                self._send((call.number, True, None))
            elif call.operation == "query" and self._there(call.arguments[0]):
                self._queries.put(call.caller, call)
            else:
                threading.Thread(target=self._do, args=(call,), daemon=True).start()

    def _do(self, call: wire.Call) -> None:
        number, operation, arguments, *_ = call
        if call.late:
            self._send(call.dropped)
            return
        try:
            if operation not in self._slow:
                raise RequestError(f"The model host knows no operation {operation!r}.")
            reply = (number, True, self._slow[operation](*arguments))
        except QdrantMcpError as error:
            reply = (number, False, wire.error_out(error))
        self._send(reply)

    def _send(self, reply: wire.Reply) -> None:
        with contextlib.suppress(OSError):  # a client that has gone is no matter
            self._outbox.send([reply])

    def _encoder(self, plain: tuple[Any, ...]) -> FastEmbedEncoder:
        model = self._models.of(Spec(*plain), self)
        if not isinstance(model, FastEmbedEncoder):
            raise RequestError("That model makes no vectors.")
        return model

    def _there(self, plain: tuple[Any, ...]) -> bool:
        return self._encoder(plain).state == "ready"

    def _loaded(self, plain: tuple[Any, ...], seconds: float) -> FastEmbedEncoder:
        """The encoder, after a wait for it; one that is being downloaded is not waited for."""
        encoder = self._encoder(plain)
        until = time.monotonic() + seconds
        while encoder.state == "loading" and time.monotonic() < until:
            encoder.settle(_LOOK_SECONDS)
        if encoder.state != "ready":
            raise EncoderUnavailable(encoder.reason or f"The model {encoder.name} is not there.")
        return encoder

    def _state(self, plain: tuple[Any, ...], known: str | None, seconds: float) -> Any:
        """State, reason, size and token limit, as soon as the state is another than is known."""
        encoder = self._encoder(plain)
        until = time.monotonic() + seconds
        while encoder.state == known and time.monotonic() < until:
            encoder.settle(_LOOK_SECONDS)
        size = encoder.loaded_size
        return encoder.state, encoder.reason, size, encoder.token_limit()

    def _query(self, plain: tuple[Any, ...], text: str, seconds: float) -> bytes:
        return array("f", self._loaded(plain, seconds).encode_now(text)).tobytes()

    def _documents(self, plain: tuple[Any, ...], texts: list[str]) -> list[bytes]:
        encoder = self._loaded(plain, LOAD_SECONDS)
        rows = asyncio.run(encoder.encode_documents(texts))
        return [array("f", row).tobytes() for row in rows]

    def _size(self, plain: tuple[Any, ...]) -> int:
        return asyncio.run(self._encoder(plain).size())

    def _common(self, plain: tuple[Any, ...], words: list[str], seconds: float) -> list[str]:
        return self._loaded(plain, seconds).whole(words)

    def _split(self, plain: tuple[Any, ...], text: str, limit: int, overlap: int) -> list[Span]:
        tokenizer = self._loaded(plain, LOAD_SECONDS).tokenizer
        return self._models.split(text, limit, tokenizer, overlap)

    def _tokenizer(self, plain: tuple[Any, ...]) -> str | None:
        return self._loaded(plain, LOAD_SECONDS).tokenizer

    def _rerank(
        self, plain: tuple[Any, ...], query: str, texts: list[str], seconds: float
    ) -> tuple[list[float], str, bool]:
        """The logits; or none, the reason, and whether it was tried."""
        model = self._models.of(Spec(*plain), self)
        if not isinstance(model, FastEmbedReranker):
            raise RequestError("That model is no reranker.")
        if not texts:
            asyncio.run(model.ready(seconds))
            return [], model.reason, False
        try:
            # Who gives up ends the work after the batch at hand.
            scoring = asyncio.wait_for(model.score(query, texts, seconds), seconds)
            return asyncio.run(scoring), "", True
        except TimeoutError:
            return [], f"The reranker took longer than {seconds:.2g} s.", True
        except RerankerUnavailable as error:
            return [], str(error), error.tried
