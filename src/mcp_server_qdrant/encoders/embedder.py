"""One encoder as the read and write paths use it: with its prefixes, and passages kept on disk."""

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from typing import Any

from mcp_server_qdrant.encoders.cache import asked_by
from mcp_server_qdrant.encoders.encoder import Encoder, Span
from mcp_server_qdrant.encoders.passages import PassageCache
from mcp_server_qdrant.encoders.prefixes import NONE, Prefixes


class Embedder:
    """An encoder that reads its prefixes before each text, and encodes no passage twice.

    What it remembers it remembers of one `owner`: how fast an answer comes tells nobody what
    another has asked or stored.
    """

    def __init__(
        self,
        inner: Encoder,
        prefixes: Prefixes = NONE,
        cache: PassageCache | None = None,
        owner: str = "",
    ) -> None:
        self.inner = inner
        self.prefixes = prefixes
        self._cache = cache
        self._owner = owner
        self._identity: str | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.inner.name

    @property
    def state(self) -> str:
        """`loading` while vectors will be there soon, `ready` when they are."""
        return self.inner.state

    @property
    def reason(self) -> str | None:
        """In a sentence, why there are no vectors now."""
        return self.inner.reason

    @property
    def vector_name(self) -> str:
        """What its vector is called in collections of ours."""
        return self.inner.vector_name

    def start(self) -> None:
        """Begin to load what has to be loaded."""
        self.inner.start()

    async def ready(self, timeout: float) -> bool:
        """Wait up to so many seconds; whether vectors can be made now."""
        return await self.inner.ready(timeout)

    async def encode_query(self, text: str) -> Any:
        """The query's vector, or what stands for it. Raises EncoderUnavailable."""
        with asked_by(self._owner):
            return await self.inner.encode_query(self.prefixes.query + text)

    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
        """One vector per text, in order. Raises EncoderUnavailable."""
        read = [self.prefixes.passage + text for text in texts]
        space = await self._space() if self._cache and read else None
        if self._cache is None or space is None:
            return await self.inner.encode_documents(read)
        known = dict(zip(read, await self._cache.get(space, read), strict=True))
        new = [text for text, vector in known.items() if vector is None]
        if new:
            made = dict(zip(new, await self.inner.encode_documents(new), strict=True))
            await self._cache.put(space, made)
            known |= made
        return [known[text] for text in read]

    async def size(self) -> int:
        """The dimensions. Raises EncoderUnavailable."""
        return await self.inner.size()

    async def known_size(self) -> int | None:
        """The dimensions, None where a service would have to be asked."""
        return await self.inner.known_size()

    def token_limit(self) -> int | None:
        """Tokens that a passage may have beside its prefix; a token has three bytes or more."""
        limit = self.inner.token_limit()
        taken = -(-len(self.prefixes.passage.encode()) // 3)
        return None if limit is None else limit - taken

    async def tokenizer_json(self) -> str | None:
        """The model's tokenizer, if it is to be had."""
        return await self.inner.tokenizer_json()

    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:
        """Where a text is cut, counted by the model's tokenizer. None where that is not here."""
        return await self.inner.split(text, limit, overlap)

    async def common(self, words: Sequence[str]) -> Collection[str]:
        """Which of the words the model's vocabulary has whole. None where it is not here."""
        return await self.inner.common(words)

    def close(self) -> Awaitable[None] | None:
        """Let the model go."""
        return self.inner.close()

    async def _space(self) -> str | None:
        if self._identity is None:
            self._identity = await asyncio.to_thread(self.inner.identity)
        if self._identity is None or not self._owner:
            return self._identity
        return f"{self._identity}\0{self._owner}"
