"""The dense encoders of a server: one per model, each loaded once, when first needed."""

from collections.abc import Callable
from copy import copy
from typing import Any

from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES
from mcp_server_qdrant.hosting.link import Link

LOAD_SECONDS = 6.0  # that a query waits for a model that is being loaded, not downloaded
# Ends the name of a model for collections whose passages were encoded without its prefix.
PLAIN = " without prefixes"


class Registry:
    """The default encoder, and others for collections that name another model.

    `make` opens the encoder of a model, with its prefixes; `host` holds the local models.
    """

    def __init__(
        self, default: Encoder, make: Callable[[str], Encoder], host: Link | None = None
    ) -> None:
        self._make = make
        self.host = host
        self.default = default
        self._encoders = {default.name: default}

    def known(self, model: str) -> Encoder:
        """The encoder of a model, not started."""
        if model not in self._encoders:
            if model.endswith(PLAIN):
                encoder = copy(self.known(model.removesuffix(PLAIN)))
                encoder.prefixes = NO_PREFIXES
            else:
                encoder = self._make(model)
            self._encoders[model] = encoder
        return self._encoders[model]

    def of(self, model: str | None) -> Encoder:
        """The encoder of a model, started; None means the default one."""
        encoder = self.default if model is None else self.known(model)
        encoder.start()
        return encoder

    async def encode_query(self, model: str, text: str) -> Any:
        """A unit vector. Raises EncoderUnavailable with the reason."""
        encoder = self.of(model)
        if encoder.state == "loading":
            await encoder.ready(LOAD_SECONDS)
        return await encoder.encode_query(text)

    async def close(self) -> None:
        """Let all models go."""
        for encoder in self._encoders.values():
            await encoder.close()
        if self.host is not None:
            await self.host.close()
