"""The dense encoders of a server: one per model, each loaded once, when first needed."""

from collections.abc import Callable
from copy import copy
from typing import Any

from mcp_server_qdrant.encoders.cache import QueryCache
from mcp_server_qdrant.encoders.embedder import Embedder
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.local.hosted import ModelHost
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES, Prefixes

LOAD_SECONDS = 6.0
# Ends the name of a model for collections whose passages were encoded without its prefix.
PLAIN = " without prefixes"


class Registry:
    """The default encoder, and others for collections that name another model.

    `make` opens the encoder of a model; `wait` is how long in seconds a query waits for a model
    that is being loaded. A download is not waited for. `prefixes` gives those of a model; the
    vectors of `query_cache` queries are kept for each. `host` holds the local models.
    """

    def __init__(
        self,
        default: Encoder,
        make: Callable[[str], Encoder],
        wait: float = LOAD_SECONDS,
        *,
        prefixes: Callable[[str], Prefixes] = lambda _: NO_PREFIXES,
        query_cache: int = 0,
        host: ModelHost | None = None,
    ) -> None:
        self._make = make
        self._wait = wait
        self._prefixes = prefixes
        self.host = host
        self._query_cache = query_cache
        self._queries: dict[str, QueryCache] = {}
        self._owner = ""
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
            if name not in self._queries and self._query_cache:
                self._queries[name] = QueryCache(self._query_cache)
            embedder = self._embedders[model] = Embedder(
                self._encoders[name],
                self.prefixes(model),
                self._queries.get(name),
                self._owner,
            )
        return embedder

    def for_owner(self, owner: str) -> "Registry":
        """The same models, with nothing remembered of others' texts."""
        view = copy(self)
        view._owner, view._embedders = owner, {}  # noqa: SLF001
        view.default = view.known(self.default.name)
        return view

    def prefixes(self, model: str) -> Prefixes:
        """The texts put before those that a model reads."""
        return NO_PREFIXES if model.endswith(PLAIN) else self._prefixes(model)

    def of(self, model: str | None) -> Embedder:
        """The encoder of a model, started; None means the default one."""
        embedder = self.default if model is None else self.known(model)
        embedder.start()
        return embedder

    async def encode_query(self, model: str, text: str) -> Any:
        """A unit vector, or the text in its place. Raises EncoderUnavailable with the reason."""
        encoder = self.of(model)
        if encoder.state == "loading":
            await encoder.ready(self._wait)
        return await encoder.encode_query(text)

    async def close(self) -> None:
        """Let all models go."""
        for encoder in self._encoders.values():
            await encoder.close()
        if self.host is not None:
            await self.host.close()
