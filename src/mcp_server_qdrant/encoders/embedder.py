"""An encoder as the read and write paths use it: with its prefixes, and recent queries kept."""

from collections.abc import Sequence
from typing import Any

from mcp_server_qdrant.encoders.cache import QueryCache
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES, Prefixes


class Embedder:
    """An encoder that puts its prefixes before each text; `queries` keeps vectors of queries.

    It remembers for one `owner`: nobody can tell by the time of an answer what another has asked.
    """

    def __init__(
        self,
        inner: Encoder,
        prefixes: Prefixes = NO_PREFIXES,
        queries: QueryCache | None = None,
        owner: str = "",
    ) -> None:
        self.inner = inner
        self.prefixes = prefixes
        self._queries = queries
        self._owner = owner
        # Prefixes have no bearing on these.
        self.name, self.vector_name = inner.name, inner.vector_name
        self.start, self.ready = inner.start, inner.ready
        self.size, self.known_size = inner.size, inner.known_size
        self.tokenizer_json, self.split, self.common = (
            inner.tokenizer_json,
            inner.split,
            inner.common,
        )

    @property
    def state(self) -> str:
        """`loading` while vectors will be there soon, `ready` when they are."""
        return self.inner.state

    @property
    def reason(self) -> str | None:
        """In a sentence, why there are no vectors now."""
        return self.inner.reason

    async def encode_query(self, text: str) -> Any:
        """The query's vector, or the text in its place. Raises EncoderUnavailable."""
        text = self.prefixes.query + text
        if self._queries is None:
            return await self.inner.encode_query(text)
        return await self._queries.get((self._owner, text), lambda: self.inner.encode_query(text))

    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
        """One vector per text, in order. Raises EncoderUnavailable."""
        return await self.inner.encode_documents([self.prefixes.passage + text for text in texts])

    def token_limit(self) -> int | None:
        """Tokens that a passage may have beside its prefix; a token has three bytes or more."""
        limit = self.inner.token_limit()
        taken = -(-len(self.prefixes.passage.encode()) // 3)
        return None if limit is None else limit - taken
