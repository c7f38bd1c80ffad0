"""The model host: the process that holds the local models of all servers of a person.

One copy of each model serves five clients as well as one, with any engine; a server itself loads no
machine learning libraries. Queries are encoded in a thread of their own, callers in turns; other
work beside them.

    python -m mcp_server_qdrant.encoders.local.serve RENDEZVOUS VERSION OPTIONS
"""

import asyncio
import logging
import sys
import time
from array import array
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable, contained
from mcp_server_qdrant.encoders.chunk import Span, split
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.rerank import FastEmbedReranker
from mcp_server_qdrant.hosting.host import Client, Work, operation, serve
from mcp_server_qdrant.hosting.wire import Call

THREADS = 64  # work other than queries at once; some only waits for a model
LOAD_SECONDS = 30.0  # that a passage waits for a model

logger = logging.getLogger(__name__)

Model = FastEmbedEncoder | FastEmbedReranker


class Models(Work):
    """Every model that a client has asked for, loaded once, and let go with its last client."""

    def __init__(self) -> None:
        super().__init__()
        self._models: WeakValueDictionary[Spec, Model] = WeakValueDictionary()
        self._held: WeakKeyDictionary[Client, dict[Spec, Model]] = WeakKeyDictionary()
        self._query_thread = ThreadPoolExecutor(1)
        self._threads = ThreadPoolExecutor(THREADS)
        self._operations = Operations()

    @override
    def queue(self, call: Call) -> Hashable:
        return "queries" if call.operation == "query" else call.number

    @override
    async def do(self, client: Client, call: Call) -> Any:
        spec, *arguments = call.arguments
        with contained(_unforeseen):
            model = self.of(spec, client)
            quick = call.operation == "query" and model.state == "ready"
            threads = self._query_thread if quick else self._threads
            work = partial(operation(self._operations, call.operation), model, *arguments)
            return await asyncio.get_running_loop().run_in_executor(threads, work)

    def of(self, spec: Spec, client: Client) -> Model:
        """The client's model, which is being loaded at least."""
        model = self._models.get(spec)
        if model is None:
            kind = FastEmbedReranker if spec.kind == "rerank" else FastEmbedEncoder
            model = self._models[spec] = kind(spec)
        self._held.setdefault(client, {})[spec] = model
        model.start()
        return model


def _unforeseen(fault: str) -> EncoderUnavailable:
    logger.exception("A call failed")
    return EncoderUnavailable(f"The model host failed: an unexpected {fault}.")


class Operations:
    """What clients may ask of a model. Each blocks; some wait for the model."""

    def state(self, model: Model, known: str | None, seconds: float) -> Any:
        """State, reason, size and token limit, as soon as the state is not the known one."""
        model.wait_while(known, seconds)
        state, reason, size, limit = model.state, model.reason, None, None
        if state == "ready" and isinstance(model, FastEmbedEncoder):
            size, limit = model.loaded().size, model.loaded().token_limit
        return state, reason, size, limit

    def query(self, model: FastEmbedEncoder, text: str, seconds: float) -> bytes:
        """The vector of a query."""
        model.loaded(seconds)
        return array("f", model.encode_query(text)).tobytes()

    def documents(self, model: FastEmbedEncoder, texts: Sequence[str]) -> list[bytes]:
        """The vectors of passages."""
        model.loaded(LOAD_SECONDS)
        return [array("f", row).tobytes() for row in model.encode_documents(texts)]

    def common(self, model: FastEmbedEncoder, words: list[str], seconds: float) -> list[str]:
        """Those of the words that the vocabulary has whole."""
        return model.loaded(seconds).common(words)

    def split(self, model: FastEmbedEncoder, text: str, limit: int, overlap: int) -> list[Span]:
        """Where a text is cut."""
        return split(text, limit, self.tokenizer(model), overlap)

    def tokenizer(self, model: FastEmbedEncoder) -> str | None:
        """The tokenizer as JSON."""
        return model.loaded(LOAD_SECONDS).tokenizer

    def rerank(
        self, model: FastEmbedReranker, query: str, texts: Sequence[str], seconds: float
    ) -> list[float]:
        """One logit per text."""
        began = time.monotonic()
        model.loaded(seconds)
        return model.score(query, texts, seconds - (time.monotonic() - began))


if __name__ == "__main__":
    serve(sys.argv[1:], lambda *_: Models())
