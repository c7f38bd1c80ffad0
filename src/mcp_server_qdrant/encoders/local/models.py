"""The local models of a process, shared and reference-counted; callers may be in several loops."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from typing_extensions import override

from mcp_server_qdrant.core.context import seconds_left
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.chunk import Span, split
from mcp_server_qdrant.encoders.encoder import Encoder, Vector
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.model import CALL_SECONDS, QUERY_SECONDS, Spec
from mcp_server_qdrant.encoders.local.turns import Turns
from mcp_server_qdrant.encoders.text import batches

LOAD_SECONDS = 10.0  # to wait for a load to learn the dimensions
SLICE = 64  # texts per turn

T = TypeVar("T")


class Models:
    """One model per spec, shared by all its users and released with the last one."""

    def __init__(self) -> None:
        self._models: WeakValueDictionary[Spec, FastEmbedEncoder] = WeakValueDictionary()
        self._lock = threading.Lock()

    def encoder(self, spec: Spec) -> "LocalEncoder":
        """A reference to an embedding model, not started."""
        with self._lock:
            model = self._models.get(spec)
            if model is None or model.state == "closed":
                model = self._models[spec] = FastEmbedEncoder(spec)
        return LocalEncoder(model)

    async def close(self) -> None:
        """Release all models, even if they are in use."""
        for model in [*self._models.values()]:
            model.close()


class LocalEncoder(Encoder):
    """A reference to a shared model; its vectors are L2-normalised."""

    def __init__(self, model: FastEmbedEncoder) -> None:
        self.name = model.name
        self._model = model

    @property
    @override
    def state(self) -> str:
        return self._model.state

    @property
    @override
    def reason(self) -> str | None:
        return self._model.reason

    @override
    def start(self) -> None:
        """Start loading in the background; after a failure, retry once some time has passed."""
        self._model.start()

    @override
    async def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a pending load; True if it can be used now."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(self._model.loading), timeout)
        return self.state == "ready"

    @override
    async def close(self) -> None:
        """Release the reference; the model is unloaded with the last one."""
        self._model = self._model.closed()

    async def _do(
        self, work: Callable[..., T], *arguments: Any, seconds: float, turns: Turns | None = None
    ) -> T:
        """Run work on the model in the caller's turn. Raises EncoderUnavailable."""
        model = self._model
        if model.state != "ready":
            raise EncoderUnavailable(model.reason or "")
        turns, seconds = turns or model.turns, min(seconds, seconds_left() or seconds)
        try:
            return await turns.do(partial(work, *arguments), seconds)
        except TimeoutError:
            late = f"The model {model.name} took longer than {seconds:.2g} s."
            if turns.leave_hanging():
                model.fail(late)
            raise EncoderUnavailable(late) from None

    @property
    @override
    def vector_name(self) -> str:
        return f"fast-{self.name.split('/')[-1].lower()}"  # as in the official server

    @override
    async def query_vector(self, text: str) -> Vector:
        prefix = len(self.prefixes.query)
        return await self._do(self._model.query, text, prefix, seconds=QUERY_SECONDS)

    @override
    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        model, prefix = self._model, len(self.prefixes.passage)
        made: list[list[float]] = [[] for _ in texts]
        for places in batches([len(text) for text in texts], SLICE):
            some = [texts[place] for place in places]
            rows = await self._do(
                model.documents, some, prefix, seconds=CALL_SECONDS, turns=model.passages
            )
            for place, row in zip(places, rows, strict=True):
                made[place] = row
        return made

    @override
    async def size(self) -> int:
        """The dimensions; for an unknown model, a load is tried to get the error."""
        if await self.known_size() is None:
            self.start()
            await self.ready(LOAD_SECONDS)
        return await super().size()

    @override
    async def known_size(self) -> int | None:
        return (await served()).get(self.name.lower(), {}).get("dim")

    @override
    def tokens(self) -> int | None:
        return self._model.token_limit if self.state == "ready" else None

    @override
    async def tokenizer_json(self) -> str | None:
        return self._model.whole_tokenizer if self.state == "ready" else None

    @override
    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:
        tokenizer = await self.tokenizer_json()
        if tokenizer is None:
            return None
        return await asyncio.to_thread(split, text, limit, tokenizer, overlap)

    @override
    async def common(self, words: Sequence[str]) -> Collection[str]:
        with contextlib.suppress(EncoderUnavailable):
            return await self._do(self._model.common, words, seconds=QUERY_SECONDS)
        return ()


async def served() -> Mapping[str, Mapping[str, Any]]:
    """The embedding models as described by fastembed; empty if it cannot be imported."""
    with contextlib.suppress(ImportError):
        return await asyncio.to_thread(FastEmbedEncoder.served)
    return {}
