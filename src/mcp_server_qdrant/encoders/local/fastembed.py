"""Dense vectors from a local fastembed model."""

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE, LocalModel
from mcp_server_qdrant.encoders.text import batches, clean

if TYPE_CHECKING:
    from fastembed import TextEmbedding
    from tokenizers import Tokenizer

    from mcp_server_qdrant.encoders.chunk import Span

LOAD_SECONDS = 30.0  # that a passage waits for a model


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, and its properties.

    Tokens beyond `token_limit`, special ones counted, are cut; `tokenizer` has no truncation.
    """

    model: "TextEmbedding"
    size: int
    token_limit: int | None = None
    tokenizer: str | None = None
    counter: "Tokenizer | None" = None

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens the model will read of each text."""
        if self.counter is None:
            return [len(text) for text in texts]
        return [len(encoding) for encoding in self.counter.encode_batch_fast(texts)]

    def common(self, words: Sequence[str]) -> list[str]:
        """Those of the words that its vocabulary has whole, as common words of its language."""
        if self.counter is None:
            return []
        tokens = self.counter.encode_batch_fast(words, add_special_tokens=False)
        return [word for word, found in zip(words, tokens, strict=True) if len(found) == 1]


class FastEmbedEncoder(LocalModel[LoadedModel]):
    """Vectors of one model, L2-normalised as fastembed makes them."""

    noun, setting = "model", "EMBEDDING_MODEL_PATH"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._batch = threading.Lock()

    @override
    def report(self, known: str | None, seconds: float) -> Any:
        state, reason, *_ = super().report(known, seconds)
        loaded = self.loaded() if state == "ready" else None
        return state, reason, loaded and loaded.size, loaded and loaded.token_limit

    def query(self, text: str, seconds: float = 0.0) -> "array[float]":
        """The query's vector. Raises EncoderUnavailable."""
        with self.running(seconds) as loaded:
            return _query(loaded.model, clean(text))

    def documents(self, texts: Sequence[str]) -> "list[array[float]]":
        """One vector per text, in order. Raises EncoderUnavailable."""
        texts = [clean(text) for text in texts]
        vectors = [array("f") for _ in texts]
        with self.running(LOAD_SECONDS) as loaded:
            lengths = loaded.lengths(texts)
        for places in batches(lengths, BATCH_SIZE):
            batch = [texts[place] for place in places]
            with self._batch, self.running() as loaded:
                rows = loaded.model.passage_embed(batch, batch_size=len(batch))
                for place, row in zip(places, rows, strict=True):
                    vectors[place] = _packed(row)
        return vectors

    def common(self, words: list[str], seconds: float) -> list[str]:
        """Those of the words that the vocabulary has whole."""
        return self.loaded(seconds).common(words)

    def split(self, text: str, limit: int, overlap: int) -> "list[Span]":
        """Where a text is cut."""
        from mcp_server_qdrant.encoders.chunk import split  # a search does not wait for it

        return split(text, limit, self.tokenizer(), overlap)

    def tokenizer(self) -> str | None:
        """The tokenizer as JSON."""
        return self.loaded(LOAD_SECONDS).tokenizer

    @override
    def kind(self) -> Any:
        from fastembed import TextEmbedding

        return TextEmbedding

    @override
    def prepared(self, model: "TextEmbedding") -> LoadedModel:
        from tokenizers import Tokenizer

        size = len(_query(model, "warm up"))
        tokenizer: Tokenizer | None = getattr(model.model, "tokenizer", None)
        if tokenizer is None:
            return LoadedModel(model, size)
        limit = tokenizer.truncation["max_length"] if tokenizer.truncation else None
        counter = Tokenizer.from_str(tokenizer.to_str())
        counter.no_padding()
        counter.no_truncation()
        whole = counter.to_str()
        if limit is not None:
            counter.enable_truncation(limit)
        return LoadedModel(model, size, limit, whole, counter)


def _query(model: "TextEmbedding", text: str) -> "array[float]":
    return _packed(next(iter(model.query_embed(text))))


def _packed(row: Any) -> "array[float]":
    return array("f", row.astype("f").tobytes())
