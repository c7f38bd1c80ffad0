"""Vectors that the Qdrant server makes itself: here a text stands for its vector."""

from collections.abc import Sequence

from typing_extensions import override

from mcp_server_qdrant.core.models import Inferred
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.text import clean

# Of the models that Qdrant Cloud hosts (its documentation, "Qdrant Cloud Inference").
SIZES = {
    "sentence-transformers/all-minilm-l6-v2": 384,
    "intfloat/multilingual-e5-small": 384,
    "mixedbread-ai/mxbai-embed-large-v1": 1024,
}


class InferenceEncoder(Encoder):
    """A model of Qdrant's inference. Its first use shows whether the server has it.

    `tokens` limits a text, as the chunks are counted without a tokenizer.
    """

    def __init__(self, model: str, *, dimensions: int | None = None, tokens: int = 512) -> None:
        self.name = model
        self._dimensions = dimensions
        self._limit = tokens

    @override
    async def query_vector(self, text: str) -> Inferred:
        return Inferred(clean(text), self.name)

    @override
    async def vectors(self, texts: Sequence[str]) -> list[Inferred]:
        return [await self.query_vector(text) for text in texts]

    @override
    async def known_size(self) -> int | None:
        return self._dimensions or SIZES.get(self.name.lower())

    @override
    def tokens(self) -> int:
        return self._limit
