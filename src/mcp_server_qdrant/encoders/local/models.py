"""The local models of a process, shared and reference-counted; callers may be in several loops."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

from typing_extensions import override

from mcp_server_qdrant.core.context import seconds_left
from mcp_server_qdrant.core.errors import EncoderUnavailable, RerankerUnavailable
from mcp_server_qdrant.encoders.chunk import Span, split
from mcp_server_qdrant.encoders.encoder import Encoder, Vector
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.model import (
    CALL_SECONDS,
    QUERY_SECONDS,
    LocalModel,
    Spec,
    batches,
)
from mcp_server_qdrant.encoders.local.rerank import FastEmbedReranker
from mcp_server_qdrant.encoders.local.turns import Turns

LOAD_SECONDS = 10.0  # to wait for a load to learn the dimensions
SLICE = 64  # texts per turn
DEFAULT_RERANKER = "Xenova/ms-marco-MiniLM-L-6-v2"
LOAD_SHARE = 0.5  # of a search's reranking time, to wait for a loading reranker

M = TypeVar("M", bound=LocalModel)
T = TypeVar("T")


class Models:
    """One model per spec, shared by all its users and released with the last one."""

    def __init__(self) -> None:
        self._models: WeakValueDictionary[tuple[type[LocalModel], Spec], LocalModel]
        self._models = WeakValueDictionary()
        self._lock = threading.Lock()

    def encoder(self, spec: Spec) -> "LocalEncoder":
        """A reference to an embedding model, not started."""
        return LocalEncoder(self._model(FastEmbedEncoder, spec))

    def reranker(self, spec: Spec) -> "LocalReranker":
        """A reference to a reranker, not started."""
        return LocalReranker(self._model(FastEmbedReranker, spec))

    async def close(self) -> None:
        """Release all models, even if they are in use."""
        for model in [*self._models.values()]:
            model.close()

    def _model(self, kind: type[M], spec: Spec) -> M:
        with self._lock:
            model = self._models.get((kind, spec))
            if model is None or model.state == "closed":
                model = self._models[kind, spec] = kind(spec)
        return cast("M", model)


class Local(Generic[M]):
    """A reference to a shared model."""

    def __init__(self, model: M) -> None:
        self.name = model.name
        self._model = model

    @property
    def state(self) -> str:
        """`loading` while it loads, `ready` when it can be used."""
        return self._model.state

    @property
    def reason(self) -> str | None:
        """A sentence on why it cannot be used now."""
        return self._model.reason

    def start(self) -> None:
        """Start loading in the background; after a failure, retry once some time has passed."""
        self._model.start()

    async def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a pending load; True if it can be used now."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(self._model.loading), timeout)
        return self.state == "ready"

    async def close(self) -> None:
        """Release the reference; the model is unloaded with the last one."""
        self._model = self._model.closed_copy()

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
            late = f"The {model.noun} {model.name} took longer than {seconds:.2g} s."
            if turns.leave_hanging():
                model.fail(late)
            raise EncoderUnavailable(late) from None


class LocalEncoder(Local[FastEmbedEncoder], Encoder):
    """The vectors of one model, L2-normalised."""

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
        return (await supported_models()).get(self.name.lower(), {}).get("dim")

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


class LocalReranker(Local[FastEmbedReranker]):
    """The logits of one model."""

    logits = True
    length = 600  # about 130 tokens; 30 texts take 1.5 s of processor time

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One logit per text, in order. Raises RerankerUnavailable."""
        until = monotonic() + seconds
        self.start()
        if self.state == "downloading" or not await self.ready(LOAD_SHARE * seconds):
            raise RerankerUnavailable(self.reason or "", tried=False)
        work = self._model.score, query, texts, until
        try:
            return await self._do(*work, seconds=until - monotonic())
        except EncoderUnavailable as error:
            raise RerankerUnavailable(str(error)) from error


async def supported_models() -> Mapping[str, Mapping[str, Any]]:
    """The embedding models as described by fastembed; empty if it cannot be imported."""
    with contextlib.suppress(ImportError):
        return await asyncio.to_thread(FastEmbedEncoder.supported_models)
    return {}
