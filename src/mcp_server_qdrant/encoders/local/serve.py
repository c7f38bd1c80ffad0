"""The model host: the process that holds the local models of all servers of a person.

One copy of each model serves five clients as well as one, with any engine; a server itself loads no
machine learning libraries. Queries are encoded in a thread of their own, callers in turns; other
work beside them.

    python -m mcp_server_qdrant.encoders.local.serve RENDEZVOUS VERSION OPTIONS
"""

import asyncio
import logging
import sys
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable, contained
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.rerank import FastEmbedReranker
from mcp_server_qdrant.hosting.host import Client, Work, operation, serve
from mcp_server_qdrant.hosting.wire import Call

THREADS = 64  # work other than queries at once; some only waits for a model

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
            work = partial(operation(model, call.operation), *arguments)
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


if __name__ == "__main__":
    serve(sys.argv[1:], lambda *_: Models())
