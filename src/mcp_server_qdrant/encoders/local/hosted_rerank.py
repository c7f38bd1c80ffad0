"""The local reranker of this server, in the model host."""

import asyncio
from collections.abc import Sequence
from time import monotonic

from mcp_server_qdrant.core.errors import EncoderUnavailable, RerankerUnavailable
from mcp_server_qdrant.encoders.local.hosted import HostedModel

DEFAULT_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
START_SHARE = 0.5  # of the time a search gives, spent waiting for a host that is being started


class HostedReranker(HostedModel):
    """The logits of one model, as `FastEmbedReranker` makes them."""

    noun = "reranker"
    logits = True
    length = 600  # about 130 tokens, which for 30 texts are 1.5 s of processor time

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One logit per text, in order. Raises RerankerUnavailable."""
        began = monotonic()
        try:
            async with asyncio.timeout(START_SHARE * seconds):
                await self._host.open()
            left = seconds - (monotonic() - began)
            scores, reason = await self._ask("rerank", query, list(texts), left, timeout=left)
        except TimeoutError:
            sentence = f"The reranker {self.name} is being loaded."
            raise RerankerUnavailable(sentence, tried=False) from None
        except EncoderUnavailable as error:
            raise RerankerUnavailable(str(error)) from error
        if reason:
            raise RerankerUnavailable(reason, tried=False)
        return [float(score) for score in scores]
