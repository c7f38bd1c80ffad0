"""Scores from a local fastembed cross-encoder."""

from collections.abc import Sequence
from time import monotonic
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.forms import clean
from mcp_server_qdrant.core.lean import importing
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE, LocalModel, batches


class FastEmbedReranker(LocalModel):
    """The logits of one model."""

    noun, seconds = "reranker", 60.0

    def score(self, query: str, texts: Sequence[str], until: float) -> list[float]:
        """One logit per text, in order. Raises EncoderUnavailable.

        Stops after the current batch at the time `until` (monotonic clock).
        """
        query, texts = clean(query), [clean(text) for text in texts]
        scores = [0.0] * len(texts)
        with self.running() as model:
            for places in batches([len(text) for text in texts], BATCH_SIZE):
                if monotonic() > until:
                    raise EncoderUnavailable("The reranker took too long.")
                found = model.rerank(query, [texts[place] for place in places])
                for place, score in zip(places, found, strict=True):
                    scores[place] = float(score)
        return scores

    @staticmethod
    @override
    def model_class() -> Any:
        with importing:
            from fastembed.rerank.cross_encoder import TextCrossEncoder

        return TextCrossEncoder

    @override
    def prepare(self, model: Any) -> None:
        list(model.rerank("warm", ["up"]))
