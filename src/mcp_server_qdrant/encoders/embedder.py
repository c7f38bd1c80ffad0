"""An encoder as the read and write paths use it: with its prefixes, and passages kept on disk."""

import asyncio
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.encoders.cache import remembered_for
from mcp_server_qdrant.encoders.encoder import Encoder, Span
from mcp_server_qdrant.encoders.passages import PassageCache
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES, Prefixes


class Embedder(Encoder):
    """An encoder that puts its prefixes before each text, and encodes no passage twice.

    It remembers for one `owner`: the time of an answer tells nobody what another has asked or
    stored.
    """

    def __init__(
        self,
        inner: Encoder,
        prefixes: Prefixes = NO_PREFIXES,
        cache: PassageCache | None = None,
        owner: str = "",
    ) -> None:
        self.name = inner.name
        self.inner = inner
        self.prefixes = prefixes
        self._cache = cache
        self._owner = owner

    @property
    @override
    def state(self) -> str:
        return self.inner.state

    @property
    @override
    def reason(self) -> str | None:
        return self.inner.reason

    @property
    @override
    def vector_name(self) -> str:
        return self.inner.vector_name

    @override
    def start(self) -> None:
        self.inner.start()

    @override
    async def ready(self, timeout: float) -> bool:
        return await self.inner.ready(timeout)

    @override
    async def encode_query(self, text: str) -> Any:
        with remembered_for(self._owner):
            return await self.inner.encode_query(self.prefixes.query + text)

    @override
    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
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

    @override
    async def size(self) -> int:
        return await self.inner.size()

    @override
    async def known_size(self) -> int | None:
        return await self.inner.known_size()

    @override
    def token_limit(self) -> int | None:
        """Tokens that a passage may have beside its prefix; a token has three bytes or more."""
        limit = self.inner.token_limit()
        taken = -(-len(self.prefixes.passage.encode()) // 3)
        return None if limit is None else limit - taken

    @override
    async def tokenizer_json(self) -> str | None:
        return await self.inner.tokenizer_json()

    @override
    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:
        return await self.inner.split(text, limit, overlap)

    @override
    async def common(self, words: Sequence[str]) -> Collection[str]:
        return await self.inner.common(words)

    @cached_property
    def _space(self) -> str | None:
        """The key of its vectors on disk; None where none are kept. May read the disk."""
        identity = self.inner.identity()
        return f"{identity}\0{self._owner}" if identity and self._owner else identity
