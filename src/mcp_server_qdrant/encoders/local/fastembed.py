"""Dense vectors from a local fastembed model."""

import threading
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE, LocalModel
from mcp_server_qdrant.encoders.text import batches, clean

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mcp_server_qdrant.encoders.chunk import Span

LOAD_SECONDS = 30.0  # that a passage waits for a model


class FastEmbedEncoder(LocalModel):
    """Vectors of one model, L2-normalised as fastembed makes them."""

    noun, setting = "model", "EMBEDDING_MODEL_PATH"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._batch = threading.Lock()
        self._counter: Tokenizer | None = None  # which cuts as the model does, without padding
        self._whole: str | None = None  # the tokenizer without truncation, as JSON

    def query(self, text: str, seconds: float = 0.0) -> "array[float]":
        """The query's vector. Raises EncoderUnavailable."""
        with self.running(seconds) as model:
            return _query(model, clean(text))

    def documents(self, texts: Sequence[str]) -> "list[array[float]]":
        """One vector per text, in order. Raises EncoderUnavailable."""
        texts = [clean(text) for text in texts]
        vectors = [array("f") for _ in texts]
        with self.running(LOAD_SECONDS):
            lengths = self._lengths(texts)
        for places in batches(lengths, BATCH_SIZE):
            batch = [texts[place] for place in places]
            with self._batch, self.running() as model:
                rows = model.passage_embed(batch, batch_size=len(batch))
                for place, row in zip(places, rows, strict=True):
                    vectors[place] = _packed(row)
        return vectors

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens the model will read of each text."""
        if self._counter is None:
            return [len(text) for text in texts]
        return [len(encoding) for encoding in self._counter.encode_batch_fast(texts)]

    def common(self, words: list[str], seconds: float = 0.0) -> list[str]:
        """Those of the words that its vocabulary has whole, as common words of its language."""
        self.loaded(seconds)
        if self._counter is None:
            return []
        tokens = self._counter.encode_batch_fast(words, add_special_tokens=False)
        return [word for word, found in zip(words, tokens, strict=True) if len(found) == 1]

    def split(self, text: str, limit: int, overlap: int) -> "list[Span]":
        """Where a text is cut."""
        from mcp_server_qdrant.encoders.chunk import split  # a search does not wait for it

        return split(text, limit, self.tokenizer(), overlap)

    def tokenizer(self) -> str | None:
        """The tokenizer as JSON, without truncation and padding."""
        self.loaded(LOAD_SECONDS)
        return self._whole

    @override
    def kind(self) -> Any:
        from fastembed import TextEmbedding

        return TextEmbedding

    @override
    def prepare(self, model: Any) -> None:
        from tokenizers import Tokenizer

        self.size = len(_query(model, "warm up"))
        tokenizer: Tokenizer | None = getattr(model.model, "tokenizer", None)
        if tokenizer is None:
            return
        self._counter = Tokenizer.from_str(tokenizer.to_str())
        self._counter.no_padding()
        self._counter.no_truncation()
        self._whole = self._counter.to_str()
        if tokenizer.truncation:
            self.token_limit = tokenizer.truncation["max_length"]
            self._counter.enable_truncation(self.token_limit)


def _query(model: Any, text: str) -> "array[float]":
    return _packed(next(iter(model.query_embed(text))))


def _packed(row: Any) -> "array[float]":
    return array("f", row.astype("f").tobytes())
