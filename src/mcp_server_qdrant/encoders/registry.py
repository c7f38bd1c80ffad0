"""The dense encoders of a server: one per model, each loaded once, when first needed."""

from collections.abc import Callable, Sequence

from mcp_server_qdrant.encoders.fastembed import FastEmbedEncoder

LOAD_SECONDS = 6.0


class Registry:
    """The default encoder, and others for collections that name another model.

    `make` opens an encoder for a model; `wait` is how long in seconds a query waits for a model
    that is being loaded. One that is being downloaded is not waited for.
    """

    def __init__(
        self,
        default: FastEmbedEncoder,
        make: Callable[[str], FastEmbedEncoder],
        wait: float = LOAD_SECONDS,
    ) -> None:
        self.default = default
        self._make = make
        self._wait = wait
        self._encoders = {default.name: default}

    def of(self, model: str | None) -> FastEmbedEncoder:
        """The encoder of a model, started; None means the default one."""
        encoder = self._encoders.get(model or self.default.name)
        if encoder is None:
            assert model is not None
            encoder = self._encoders[model] = self._make(model)
        encoder.start()
        return encoder

    async def encode_query(self, model: str, text: str) -> Sequence[float]:
        """A unit vector. Raises EncoderUnavailable with the reason."""
        encoder = self.of(model)
        if encoder.state == "loading":
            await encoder.ready(self._wait)
        return await encoder.encode_query(text)

    def close(self) -> None:
        """Let all models go."""
        for encoder in self._encoders.values():
            encoder.close()
