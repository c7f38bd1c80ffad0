"""An encoder as the read and write paths use it: with its prefixes, and passages kept on disk."""

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from mcp_server_qdrant.encoders.cache import QueryCache
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.passages import PassageCache
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES, Prefixes


class Embedder:
    """An encoder that puts its prefixes before each text, and encodes none twice that is kept.

    `cache` keeps passages, `queries` queries.

    It remembers for one `owner`: the time of an answer tells nobody what another has asked or
    stored.
    """

    def __init__(
        self,
        inner: Encoder,
        prefixes: Prefixes = NO_PREFIXES,
        cache: PassageCache | None = None,
        queries: QueryCache | None = None,
        owner: str = "",
    ) -> None:
        self.inner = inner
        self.prefixes = prefixes
        self._cache = cache
        self._queries = queries
        self._owner = owner
        # Prefixes and cache have no bearing on these.
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
        texts = [self.prefixes.passage + text for text in texts]
        space = await asyncio.to_thread(getattr, self, "_space") if self._cache and texts else None
        if self._cache is None or space is None:
            return await self.inner.encode_documents(texts)
        known = dict(zip(texts, await self._cache.get(space, texts), strict=True))
        new = [text for text, vector in known.items() if vector is None]
        if new:
            made = dict(zip(new, await self.inner.encode_documents(new), strict=True))
            await self._cache.put(space, made)
            known |= made
        return [known[text] for text in texts]

    def token_limit(self) -> int | None:
        """Tokens that a passage may have beside its prefix; a token has three bytes or more."""
        limit = self.inner.token_limit()
        taken = -(-len(self.prefixes.passage.encode()) // 3)
        return None if limit is None else limit - taken

    @cached_property
    def _space(self) -> str | None:
        """The key of its vectors on disk; None where none are kept. May read the disk."""
        identity = self.inner.identity()
        return f"{identity}\0{self._owner}" if identity and self._owner else identity
