"""No encoder: keyword search only, or a model that this server may not use."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.encoder import Encoder


class NoEncoder(Encoder):
    """Says in a sentence why there are no vectors of a model."""

    state = "failed"
    reason = None

    def __init__(self, model: str, reason: str) -> None:
        self.name = model
        self.reason = reason

    @override
    async def encode_query(self, text: str) -> Any:
        raise EncoderUnavailable(self.reason)

    @override
    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
        raise EncoderUnavailable(self.reason)

    @override
    async def size(self) -> int:
        raise EncoderUnavailable(self.reason)
