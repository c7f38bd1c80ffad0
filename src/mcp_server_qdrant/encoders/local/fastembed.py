"""Dense vectors from a local fastembed model."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mcp_server_qdrant.encoders.local.hosted import Spec
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE, LocalModel
from mcp_server_qdrant.encoders.text import clean

if TYPE_CHECKING:
    from fastembed import TextEmbedding
    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory, and its properties.

    Tokens beyond `token_limit`, special ones counted, are cut; `tokenizer` has no truncation.
    """

    model: "TextEmbedding"
    size: int
    token_limit: int | None = None
    tokenizer: str | None = None
    counter: "Tokenizer | None" = None

    def common(self, words: Sequence[str]) -> list[str]:
        """Those of the words that its vocabulary has whole, as common words of its language."""
        if self.counter is None:
            return []
        tokens = self.counter.encode_batch_fast(words, add_special_tokens=False)
        return [word for word, found in zip(words, tokens, strict=True) if len(found) == 1]


class FastEmbedEncoder(LocalModel[Loaded]):
    """Vectors of one model, L2-normalised as fastembed makes them."""

    noun, setting = "model", "EMBEDDING_MODEL_PATH"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._batch = threading.Lock()

    def encode_query(self, text: str) -> list[float]:
        """The query's vector. Raises EncoderUnavailable."""
        with self.running() as loaded:
            return _query(loaded.model, clean(text))

    def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order; those of like length should stand together.

        Raises EncoderUnavailable.
        """
        vectors: list[list[float]] = []
        for first in range(0, len(texts), BATCH_SIZE):
            batch = [clean(text) for text in texts[first : first + BATCH_SIZE]]
            with self._batch, self.running() as loaded:
                rows = loaded.model.passage_embed(batch, batch_size=len(batch))
                vectors += [row.tolist() for row in rows]
        return vectors

    @override
    def kind(self) -> Any:
        from fastembed import TextEmbedding

        return TextEmbedding

    @override
    def prepared(self, model: "TextEmbedding") -> Loaded:
        from tokenizers import Tokenizer

        size = len(_query(model, "warm up"))
        tokenizer: Tokenizer | None = getattr(model.model, "tokenizer", None)
        if tokenizer is None:
            return Loaded(model, size)
        limit = tokenizer.truncation["max_length"] if tokenizer.truncation else None
        counter = Tokenizer.from_str(tokenizer.to_str())
        counter.no_padding()
        counter.no_truncation()
        return Loaded(model, size, limit, counter.to_str(), counter)


def _query(model: "TextEmbedding", text: str) -> list[float]:
    vector: list[float] = next(iter(model.query_embed(text))).tolist()
    return vector
