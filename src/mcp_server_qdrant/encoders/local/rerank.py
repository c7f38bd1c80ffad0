"""Scores from a local fastembed cross-encoder."""

import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE, LocalModel
from mcp_server_qdrant.encoders.text import batches, clean


class FastEmbedReranker(LocalModel):
    """The logits of one model."""

    noun, setting = "reranker", "RERANK_MODEL_PATH"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._turn = threading.Lock()

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One logit per text, in order. Raises EncoderUnavailable.

        Nothing is read after the batch at hand once the time is over.
        """
        until = monotonic() + seconds
        self.loaded(seconds)
        query, texts = clean(query), [clean(text) for text in texts]
        scores = [0.0] * len(texts)
        late = EncoderUnavailable(f"The reranker took longer than {seconds:.2g} s.")
        if not self._turn.acquire(timeout=max(until - monotonic(), 0.0)):
            raise late
        try:
            for places in batches([len(text) for text in texts], BATCH_SIZE):
                if monotonic() > until:
                    raise late
                with self.running() as model:
                    found = model.rerank(query, [texts[place] for place in places])
                    for place, score in zip(places, found, strict=True):
                        scores[place] = float(score)
        finally:
            self._turn.release()
        return scores

    @override
    def kind(self) -> Any:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        return TextCrossEncoder

    @override
    def prepare(self, model: Any) -> None:
        list(model.rerank("warm", ["up"]))
