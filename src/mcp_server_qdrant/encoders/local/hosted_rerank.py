"""The local reranker of this server, in the model host."""

import asyncio
import contextlib
from collections.abc import Sequence
from time import monotonic

from mcp_server_qdrant.core.errors import EncoderUnavailable, RerankerUnavailable
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.encoders.local.hosted import ModelHost, Spec

DEFAULT_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
LOAD_SECONDS = 60.0
START_SHARE = 0.5  # of the time a search gives, spent waiting for a host that is being started


class HostedReranker:
    """The logits of one model, as `FastEmbedReranker` makes them."""

    logits = True
    length = 600  # about 130 tokens, which for 30 texts are 1.5 s of processor time

    def __init__(self, host: ModelHost, spec: Spec) -> None:
        self.name = spec.model
        self._host = host
        self._spec = spec
        self._starting: asyncio.Task[bool] | None = None

    def start(self) -> None:
        """Have it loaded in the background."""
        if self._starting is None or self._starting.done():
            self._starting = Tasks().start(f"The loading of {self.name}", self._load)

    async def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a load under way; whether it can score now."""
        if self._starting is None:
            return False
        done, _ = await asyncio.wait([self._starting], timeout=timeout)
        return bool(done) and self._starting.result()

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One logit per text, in order. Raises RerankerUnavailable."""
        began = monotonic()
        try:
            async with asyncio.timeout(START_SHARE * seconds):
                await self._host.open()
            left = seconds - (monotonic() - began)
            scores, reason, tried = await self._host.call(
                "rerank", self._spec, query, list(texts), left, timeout=left
            )
        except TimeoutError:
            sentence = f"The reranker {self.name} is being loaded."
            raise RerankerUnavailable(sentence, tried=False) from None
        except EncoderUnavailable as error:
            raise RerankerUnavailable(str(error)) from error
        if reason:
            raise RerankerUnavailable(reason, tried=tried)
        return [float(score) for score in scores]

    async def close(self) -> None:
        """Ask for nothing any more."""
        if self._starting is not None:
            self._starting.cancel()

    async def _load(self) -> bool:
        """Whether it could be loaded; if not, the first call says why."""
        with contextlib.suppress(EncoderUnavailable):
            _, reason, _ = await self._host.call("rerank", self._spec, "", [], LOAD_SECONDS)
            return not reason
        return False
