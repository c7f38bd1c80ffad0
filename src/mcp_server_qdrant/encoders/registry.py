"""The dense encoders of a server: one per model, each loaded once, when first needed."""

import inspect
from collections.abc import Callable
from typing import Any

from mcp_server_qdrant.encoders.embedder import Embedder
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.local.hosted import ModelHost
from mcp_server_qdrant.encoders.passages import PassageCache
from mcp_server_qdrant.encoders.prefixes import NONE, Prefixes

LOAD_SECONDS = 6.0
# After a model's name: for collections whose passages were encoded without the prefix it is for.
PLAIN = " without prefixes"


class Registry:
    """The default encoder, and others for collections that name another model.

    `make` opens an encoder for a model; `wait` is how long in seconds a query waits for a model
    that is being loaded. One that is being downloaded is not waited for. `prefixes` says what a
    model reads before its texts; `cache` keeps the vectors of passages; `host` holds the models.
    """

    def __init__(
        self,
        default: Encoder,
        make: Callable[[str], Encoder],
        wait: float = LOAD_SECONDS,
        *,
        prefixes: Callable[[str], Prefixes] = lambda _: NONE,
        cache: PassageCache | None = None,
        host: ModelHost | None = None,
        owner: str = "",
    ) -> None:
        self._make = make
        self._wait = wait
        self._prefixes = prefixes
        self._cache = cache
        self.host = host
        self._owner = owner
        self._encoders = {default.name: default}
        self._embedders: dict[str, Embedder] = {}
        self.default = self.known(default.name)

    def known(self, model: str) -> Embedder:
        """The encoder of a model, not started."""
        embedder = self._embedders.get(model)
        if embedder is None:
            name = model.removesuffix(PLAIN)
            if name not in self._encoders:
                self._encoders[name] = self._make(name)
            prefixes = self.prefixes(model)
            embedder = Embedder(self._encoders[name], prefixes, self._cache, self._owner)
            self._embedders[model] = embedder
        return embedder

    def for_owner(self, owner: str) -> "Registry":
        """The same models, with nothing remembered of others' texts."""
        view = Registry(
            self.default.inner,
            self._make,
            self._wait,
            prefixes=self._prefixes,
            cache=self._cache,
            host=self.host,
            owner=owner,
        )
        view._encoders = self._encoders
        return view

    def prefixes(self, model: str) -> Prefixes:
        """What is put before the texts of a model."""
        return NONE if model.endswith(PLAIN) else self._prefixes(model)

    def of(self, model: str | None) -> Embedder:
        """The encoder of a model, started; None means the default one."""
        embedder = self.default if model is None else self.known(model)
        embedder.start()
        return embedder

    async def encode_query(self, model: str, text: str) -> Any:
        """A unit vector, or what stands for it. Raises EncoderUnavailable with the reason."""
        encoder = self.of(model)
        if encoder.state == "loading":
            await encoder.ready(self._wait)
        return await encoder.encode_query(text)

    async def close(self) -> None:
        """Let all models go."""
        for encoder in self._encoders.values():
            closing = encoder.close()
            if inspect.isawaitable(closing):
                await closing
        if self.host is not None:
            await self.host.close()
        if self._cache is not None:
            await self._cache.close()
