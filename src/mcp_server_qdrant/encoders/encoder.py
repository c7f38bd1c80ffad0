"""The interface of dense encoders, wherever their models run."""

from collections.abc import Collection, Sequence
from typing import Any

from mcp_server_qdrant.core.errors import EncoderUnavailable

Span = tuple[int, int]  # start and end in characters
Vector = tuple[float, ...]
BYTES_PER_TOKEN = 3  # what ingest/chunk.py counts with where there is no tokenizer


class Encoder:
    """One model. Vectors are unit vectors; whatever makes them raises EncoderUnavailable.

    As it stands here its model is elsewhere, with its tokenizer and vocabulary, always ready and
    of unknown size. A subclass encodes queries and documents at least.
    """

    name: str

    @property
    def state(self) -> str:
        """`loading` while vectors will be there soon, `ready` when they are."""
        return "ready"

    @property
    def reason(self) -> str | None:
        """In a sentence, why there are no vectors now."""
        return None

    @property
    def vector_name(self) -> str:
        """The name of its vector in collections of ours: the model's last part, lowercase.

        Ollama's tags stay, apart from `latest`: they are other models.
        """
        last = self.name.rstrip("/").split("/")[-1].lower()
        return last.removesuffix(":latest").replace(":", "-")

    def start(self) -> None:
        """Begin to load what has to be loaded."""

    async def ready(self, timeout: float) -> bool:  # noqa: ARG002
        """Wait up to so many seconds; whether vectors can be made now."""
        return self.state == "ready"

    async def encode_query(self, text: str) -> Any:
        """The query's vector, or the text in its place (`Inferred`)."""
        raise NotImplementedError

    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
        """One vector per text, in order."""
        raise NotImplementedError

    async def size(self) -> int:
        """The dimensions."""
        known = await self.known_size()
        if known is None:
            raise EncoderUnavailable(
                f"The dimensions of {self.name} are not known: set EMBEDDING_DIMENSIONS."
            )
        return known

    async def known_size(self) -> int | None:
        """The dimensions, None where a service would have to be asked."""
        return None

    def token_limit(self) -> int | None:
        """Tokens a text may have, special ones counted. None where that is not known yet."""
        return None

    async def tokenizer_json(self) -> str | None:
        """The model's tokenizer without truncation and padding. None where it is not here."""
        return None

    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:  # noqa: ARG002
        """Where a text is cut, counted by the model's tokenizer. None where that is not here."""
        return None

    async def common(self, words: Sequence[str]) -> Collection[str]:  # noqa: ARG002
        """Those of the words that the model's vocabulary has whole; none where it is not here."""
        return ()

    async def close(self) -> None:
        """Let go of what it holds."""


def counted(tokens: int, token_bytes: float) -> int:
    """A limit in tokens of so many bytes, in those of three bytes that chunks are counted in."""
    return int(tokens * token_bytes / BYTES_PER_TOKEN)
