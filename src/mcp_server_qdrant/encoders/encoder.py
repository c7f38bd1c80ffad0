"""The interface of dense encoders, wherever their models run."""

from collections.abc import Collection, Sequence
from typing import Any

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.chunk import BYTES_PER_TOKEN, Span
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES, Prefixes

Vector = tuple[float, ...]


class Encoder:
    """One model. Vectors are unit vectors; whatever makes them raises EncoderUnavailable.

    This base class is for a model elsewhere: always ready, of unknown size, its tokenizer and
    vocabulary not here. A subclass has at least `tokens`, and `query_vector` and `vectors`, which
    get each text behind its prefix.
    """

    name: str
    prefixes: Prefixes = NO_PREFIXES

    @property
    def state(self) -> str:
        """`loading` while vectors will be there soon, `ready` when they are."""
        return "ready"

    @property
    def reason(self) -> str | None:
        """In a sentence, why there are no vectors now."""
        return None

    @property
    def lacking(self) -> str | None:
        """In a sentence, why there will be no vectors before somebody mends it."""
        return self.reason if self.state == "failed" else None

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
        """The query's vector."""
        return await self.query_vector(self.prefixes.query + text)

    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
        """One vector per text, in order; an empty one of a text that the model cannot read."""
        return await self.vectors([self.prefixes.passage + text for text in texts])

    async def query_vector(self, text: str) -> Any:  # noqa: ARG002
        """The vector of a query as it is."""
        raise EncoderUnavailable(self.reason)

    async def vectors(self, texts: Sequence[str]) -> list[Any]:  # noqa: ARG002
        """The vectors of passages as they are."""
        raise EncoderUnavailable(self.reason)

    async def size(self) -> int:
        """The dimensions."""
        known = await self.known_size()
        if known is None:
            unknown = f"The dimensions of {self.name} are not known: set EMBEDDING_DIMENSIONS."
            raise EncoderUnavailable(self.reason or unknown)
        return known

    async def known_size(self) -> int | None:
        """The dimensions, None where a service would have to be asked."""
        return None

    def token_limit(self) -> int | None:
        """Tokens that a passage may have beside its prefix; a token has three bytes or more."""
        limit = self.tokens()
        taken = -(-len(self.prefixes.passage.encode()) // BYTES_PER_TOKEN)
        return None if limit is None else limit - taken

    def tokens(self) -> int | None:
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


class NoEncoder(Encoder):
    """Says in a sentence why there are no vectors of a model."""

    state = "failed"
    reason = None

    def __init__(self, model: str, reason: str) -> None:
        self.name = model
        self.reason = reason
