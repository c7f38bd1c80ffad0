"""The encoder that is none: keyword search only, or a model that this server may not use."""

from collections.abc import Sequence
from typing import Any

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.encoder import Untokenized, vector_name


class NoEncoder(Untokenized):
    """Says in a sentence why there are no vectors of a model."""

    state = "failed"

    def __init__(self, model: str, reason: str) -> None:
        self.name = model
        self.reason = reason

    @property
    def vector_name(self) -> str:
        """The vector that it does not fill."""
        return vector_name(self.name)

    def identity(self) -> str | None:
        """There is nothing to keep."""
        return None

    def start(self) -> None:
        """There is nothing to load."""

    async def ready(self, timeout: float) -> bool:  # noqa: ARG002
        """Never."""
        return False

    async def encode_query(self, text: str) -> Any:  # noqa: ARG002
        """Raises EncoderUnavailable, always."""
        raise EncoderUnavailable(self.reason)

    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:  # noqa: ARG002
        """Raises EncoderUnavailable, always."""
        raise EncoderUnavailable(self.reason)

    async def size(self) -> int:
        """Raises EncoderUnavailable, always."""
        raise EncoderUnavailable(self.reason)

    async def known_size(self) -> int | None:
        """Not known."""
        return None

    def token_limit(self) -> int | None:
        """Not known."""
        return None

    def close(self) -> None:
        """There is nothing to let go of."""
