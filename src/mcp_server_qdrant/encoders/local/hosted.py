"""The local models of this server, in a model host: one process for all servers of a person.

This process holds none of them and imports none of their libraries. A failure of the host is an
EncoderUnavailable with the reason; the next call finds or starts a host again.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.breaker import Breaker
from mcp_server_qdrant.core.errors import EncoderUnavailable, RerankerUnavailable
from mcp_server_qdrant.encoders.chunk import Span
from mcp_server_qdrant.encoders.encoder import Encoder, Vector
from mcp_server_qdrant.encoders.local.listed import SIZES, Spec
from mcp_server_qdrant.encoders.text import batches
from mcp_server_qdrant.hosting.link import Link, Service

WIRE = 9
IDLE_SECONDS = 5.0
CALL_SECONDS = 600.0
QUERY_SECONDS = 6.0
POLL_SECONDS = 10.0
RETRY_AFTER = 5.0
SLICE = 64  # texts per trip
DEFAULT_RERANKER = "Xenova/ms-marco-MiniLM-L-6-v2"
LOAD_SHARE = 0.5  # of the time a search gives, spent waiting for a reranker that is being loaded

logger = logging.getLogger(__name__)


def service(folder: Path, name: str, idle_seconds: float = IDLE_SECONDS) -> Service:
    """The model host of a folder and a name."""
    return Service(
        module="mcp_server_qdrant.encoders.local.serve",
        folder=folder.absolute(),
        name=name,
        wire=WIRE,
        options={"idle_seconds": idle_seconds},
        called="The model host",
        setting="QDRANT_CACHE_PATH",
        error=EncoderUnavailable,
        late=EncoderUnavailable,
    )


def host_name(*what: str) -> str:
    """The host for servers that agree in all this: another version or environment has its own."""
    whole = json.dumps([WIRE, *what])
    return f"model-host-{sha256(whole.encode()).hexdigest()[:16]}"


class HostedModel:
    """A model in the host: its state as this server knows it."""

    noun = "model"
    state = "idle"
    reason: str | None = None

    def __init__(self, host: Link, spec: Spec) -> None:
        self.name = spec.model
        self.reason = f"The {self.noun} {self.name} is not loaded yet."
        self._host = host
        self._spec = spec
        self._size: int | None = None
        self._limit: int | None = None
        self._breaker = Breaker(RETRY_AFTER, failures=1)
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Have it loaded in the background; after a failure, again once some time has passed."""
        if self.state in ("ready", "closed") or self._breaker.open:
            return
        if self.state == "idle":
            self.state, self.reason = "loading", f"The {self.noun} {self.name} is being loaded."
        self._follow()

    async def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a load under way; whether it can be used now."""
        if self._following is not None:
            await asyncio.wait([self._following], timeout=timeout)
        return self.state == "ready"

    async def close(self) -> None:
        """Ask for nothing any more; the host is left by its owner."""
        self.state, self.reason = "closed", f"The {self.noun} {self.name} has been closed."
        if self._following is not None:
            self._following.cancel()

    async def _call(self, operation: str, *arguments: Any, timeout: float = CALL_SECONDS) -> Any:
        if self.state != "ready":
            raise EncoderUnavailable(self.reason or "")
        try:
            return await self._host.call(operation, self._spec, *arguments, timeout=timeout)
        except EncoderUnavailable:
            if self.state != "closed":  # the host may have lost it
                self._follow()
            raise

    def _follow(self) -> None:
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._followed())

    async def _followed(self) -> None:
        """Follow the model in the host until it is ready or has failed."""
        known = None
        try:
            while known not in ("ready", "failed"):
                known, reason, size, limit = await self._host.call(
                    "report", self._spec, known, POLL_SECONDS, timeout=CALL_SECONDS
                )
                if known == "ready":
                    self._size, self._limit = size, limit
                self._become(known, reason)
        except EncoderUnavailable as error:
            self._become("failed", str(error))

    def _become(self, state: str, reason: str | None) -> None:
        if self.state == "closed":
            return
        if state == "failed":
            self._breaker.failed(reason or "")
            if (self.state, self.reason) != (state, reason):
                logger.warning(reason)
        self.state, self.reason = state, reason


class HostedEncoder(HostedModel, Encoder):
    """The vectors of one model, L2-normalised."""

    @property
    @override
    def vector_name(self) -> str:
        return f"fast-{self.name.split('/')[-1].lower()}"  # as the official server has it

    @override
    async def query_vector(self, text: str) -> Vector:
        prefix = len(self.prefixes.query)
        row = await self._call("query", text, QUERY_SECONDS, prefix, timeout=QUERY_SECONDS)
        return tuple(row)

    @override
    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        made: list[list[float]] = [[] for _ in texts]
        for places in batches([len(text) for text in texts], SLICE):
            some = [texts[place] for place in places]
            rows = await self._call("documents", some, len(self.prefixes.passage))
            for place, row in zip(places, rows, strict=True):
                made[place] = row.tolist()
        return made

    @override
    async def size(self) -> int:
        """The dimensions; a model that is not listed is loaded for them."""
        if await self.known_size() is None:
            self.start()
            await self.ready(POLL_SECONDS)
        return await super().size()

    @override
    async def known_size(self) -> int | None:
        return self._size or SIZES.get(self.name)

    @override
    def tokens(self) -> int | None:
        return self._limit if self.state == "ready" else None

    @override
    async def tokenizer_json(self) -> str | None:
        tokenizer: str | None = await self._if_ready("tokenizer")
        return tokenizer

    @override
    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:
        spans: list[Span] | None = await self._if_ready("split", text, limit, overlap)
        return spans

    @override
    async def common(self, words: Sequence[str]) -> Collection[str]:
        return await self._if_ready("common", list(words), QUERY_SECONDS) or ()

    async def _if_ready(self, operation: str, *arguments: Any) -> Any:
        with contextlib.suppress(EncoderUnavailable):
            return await self._call(operation, *arguments)
        return None


class HostedReranker(HostedModel):
    """The logits of one model, as `FastEmbedReranker` makes them."""

    noun = "reranker"
    logits = True
    length = 600  # about 130 tokens, which for 30 texts are 1.5 s of processor time

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One logit per text, in order. Raises RerankerUnavailable."""
        began = monotonic()
        self.start()
        if self.state == "downloading" or not await self.ready(LOAD_SHARE * seconds):
            raise RerankerUnavailable(self.reason or "", tried=False)
        left = seconds - (monotonic() - began)
        try:
            scores = await self._call("score", query, list(texts), left, timeout=left)
        except EncoderUnavailable as error:
            raise RerankerUnavailable(str(error)) from error
        return [float(score) for score in scores]
