"""Vectors that the Qdrant server makes itself: here a text stands for its vector."""

from collections.abc import Sequence

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.models import Inferred
from mcp_server_qdrant.encoders.encoder import Untokenized, vector_name
from mcp_server_qdrant.encoders.text import clean

# Of the models that Qdrant Cloud hosts (its documentation, "Qdrant Cloud Inference").
SIZES = {
    "sentence-transformers/all-minilm-l6-v2": 384,
    "intfloat/multilingual-e5-small": 384,
    "mixedbread-ai/mxbai-embed-large-v1": 1024,
}


class InferenceEncoder(Untokenized):
    """A model of Qdrant's inference. Whether the server has it shows when it is first used.

    `tokens` is how much of a text it may be given, as the chunks are counted without a tokenizer.
    """

    state = "ready"
    reason = None

    def __init__(self, model: str, *, dimensions: int | None = None, tokens: int = 512) -> None:
        self.name = model
        self._dimensions = dimensions
        # Hosted models have their size; OpenAI's, which Qdrant Cloud passes on, take another one.
        shortened = dimensions is not None and model.startswith("openai/")
        self._options = {"dimensions": dimensions} if shortened else None
        self._tokens = tokens

    @property
    def vector_name(self) -> str:
        """The model's last part, lowercase."""
        return vector_name(self.name)

    def identity(self) -> str | None:
        """There are no vectors here to keep."""
        return None

    def start(self) -> None:
        """There is nothing to load."""

    async def ready(self, timeout: float) -> bool:  # noqa: ARG002
        """Always, as far as is known here."""
        return True

    async def encode_query(self, text: str) -> Inferred:
        """The query in the place of its vector."""
        return Inferred(clean(text), self.name, self._options)

    async def encode_documents(self, texts: Sequence[str]) -> list[Inferred]:
        """The texts in the place of their vectors."""
        return [await self.encode_query(text) for text in texts]

    async def size(self) -> int:
        """The dimensions. Raises EncoderUnavailable where nobody said them."""
        known = await self.known_size()
        if known is None:
            raise EncoderUnavailable(
                f"How many dimensions {self.name} makes is not known: set EMBEDDING_DIMENSIONS."
            )
        return known

    async def known_size(self) -> int | None:
        """As set, or as Qdrant's documentation says."""
        return self._dimensions or SIZES.get(self.name.lower())

    def token_limit(self) -> int:
        """Tokens that a text may have."""
        return self._tokens

    def close(self) -> None:
        """There is nothing to let go of."""
