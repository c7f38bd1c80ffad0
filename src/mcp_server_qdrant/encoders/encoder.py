"""The interface of dense encoders, local or remote."""

from collections.abc import Collection, Sequence
from typing import Any

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.chunk import BYTES_PER_TOKEN, Span
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES, Prefixes

Vector = tuple[float, ...]


class Encoder:
    """One model. Vectors are unit vectors; methods that make them raise EncoderUnavailable.

    The defaults of this base class are for a remote model: always ready, of unknown size, without a
    tokenizer and a vocabulary. A subclass must have `tokens`, `query_vector` and `vectors`; texts
    are passed with their prefix.
    """

    name: str
    prefixes: Prefixes = NO_PREFIXES

    @property
    def state(self) -> str:
        """`loading` while the model loads, `ready` when vectors can be made."""
        return "ready"

    @property
    def reason(self) -> str | None:
        """A sentence on why no vectors can be made now."""
        return None

    @property
    def lacking(self) -> str | None:
        """A sentence on what the operator must fix before vectors can be made."""
        return self.reason if self.state == "failed" else None

    @property
    def vector_name(self) -> str:
        """The name of its vector in our collections: the model's last part in lowercase.

        Ollama's tags, except `latest`, are kept: they are different models.
        """
        last = self.name.rstrip("/").split("/")[-1].lower()
        return last.removesuffix(":latest").replace(":", "-")

    def start(self) -> None:
        """Start loading the model."""

    async def ready(self, timeout: float) -> bool:  # noqa: ARG002
        """Wait up to `timeout` seconds; True if vectors can be made now."""
        return self.state == "ready"

    async def encode_query(self, text: str) -> Any:
        """The query's vector."""
        return await self.query_vector(self.prefixes.query + text)

    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
        """One vector per text, in order; empty for a text that the model cannot read."""
        return await self.vectors([self.prefixes.passage + text for text in texts])

    async def query_vector(self, text: str) -> Any:  # noqa: ARG002
        """The vector of a query that already has its prefix."""
        raise EncoderUnavailable(self.reason)

    async def vectors(self, texts: Sequence[str]) -> list[Any]:  # noqa: ARG002
        """The vectors of passages that already have their prefix."""
        raise EncoderUnavailable(self.reason)

    async def size(self) -> int:
        """The dimensions."""
        known = await self.known_size()
        if known is None:
            unknown = f"The dimensions of {self.name} are not known."
            raise EncoderUnavailable(self.reason or unknown)
        return known

    async def known_size(self) -> int | None:
        """The dimensions; None if the service would have to be asked."""
        return None

    def token_limit(self) -> int | None:
        """Token limit of a passage without its prefix, estimated at three bytes per token."""
        limit = self.tokens()
        taken = -(-len(self.prefixes.passage.encode()) // BYTES_PER_TOKEN)
        return None if limit is None else limit - taken

    def tokens(self) -> int | None:
        """Token limit of a text, including special tokens. None if not known yet."""
        return None

    async def tokenizer_json(self) -> str | None:
        """The model's tokenizer without truncation and padding; None if not available."""
        return None

    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:  # noqa: ARG002
        """Split a text with the model's tokenizer; None if that is not available."""
        return None

    async def common(self, words: Sequence[str]) -> Collection[str]:  # noqa: ARG002
        """The words that are single tokens in the model's vocabulary; empty if not available."""
        return ()

    async def close(self) -> None:
        """Release its resources."""


class NoEncoder(Encoder):
    """Takes the place of a model that is not available; `reason` says why."""

    state = "failed"
    reason = None

    def __init__(self, model: str, reason: str) -> None:
        self.name = model
        self.reason = reason
