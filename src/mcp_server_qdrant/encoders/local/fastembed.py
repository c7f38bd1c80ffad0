"""Dense vectors from a local fastembed model."""

import threading
import unicodedata
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE, LocalModel
from mcp_server_qdrant.encoders.text import batches, clean

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from mcp_server_qdrant.encoders.chunk import Span

LOAD_SECONDS = 30.0  # that a passage waits for a model
UNKNOWN = "<unk>"  # the usual name of the token for what a vocabulary lacks


class FastEmbedEncoder(LocalModel):
    """Vectors of one model, L2-normalised as fastembed makes them."""

    noun, setting = "model", "EMBEDDING_MODEL_PATH"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._batch = threading.Lock()
        self._counter: Tokenizer | None = None  # which cuts as the model does, without padding
        self._unknown: int | None = None  # the id of the token for what the vocabulary lacks
        self._whole: str | None = None  # the tokenizer without truncation, as JSON

    def query(self, text: str, seconds: float = 0.0, prefix: int = 0) -> "array[float]":
        """The query's vector; the text begins with a prefix of so many characters.

        Raises EncoderUnavailable, also where the model cannot read the query.
        """
        text = clean(text)
        with self.running(seconds) as model:
            if self._readable([text], prefix)[0]:
                return _query(model, text)
        raise EncoderUnavailable(f"The model {self.name} does not know these characters.")

    def documents(self, texts: Sequence[str], prefix: int = 0) -> "list[array[float]]":
        """One vector per text, in order; an empty one of a text that the model cannot read.

        The texts begin with a prefix of so many characters. Raises EncoderUnavailable.
        """
        texts = [clean(text) for text in texts]
        vectors = [array("f") for _ in texts]
        with self.running(LOAD_SECONDS):
            readable = self._readable(texts, prefix)
        read = [place for place, length in enumerate(readable) if length]
        for some in batches([readable[place] for place in read], BATCH_SIZE):
            places = [read[one] for one in some]
            batch = [texts[place] for place in places]
            with self._batch, self.running() as model:
                rows = model.passage_embed(batch, batch_size=len(batch))
                for place, row in zip(places, rows, strict=True):
                    vectors[place] = _packed(row)
        return vectors

    def _readable(self, texts: Sequence[str], prefix: int) -> list[int]:
        """How much the model will read of each text, in tokens; 0 where it knows too little of it.

        To a model all unknown characters are the same, and so would be the vectors.
        """
        if (counter := self._counter) is None:
            return [len(text) or 1 for text in texts]
        return [
            0
            if self._unknown in one.ids
            and mostly_unknown(text, counter.encode(text), self._unknown, prefix)
            else len(one)
            for text, one in zip(texts, counter.encode_batch_fast(texts), strict=True)
        ]

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
        unknown = getattr(self._counter.model, "unk_token", None) or UNKNOWN
        self._unknown = self._counter.token_to_id(unknown)
        if tokenizer.truncation:
            self.token_limit = tokenizer.truncation["max_length"]
            self._counter.enable_truncation(self.token_limit)


def mostly_unknown(text: str, encoding: "Encoding", unknown: int, prefix: int = 0) -> bool:
    """True where the unknown token stands for half of the words and three quarters of the letters.

    Numbers, punctuation and the prefix do not count. By letters alone, one long key would outweigh
    the sentence around it; by words alone, an emoji would outweigh a word. Measured with
    all-MiniLM-L6-v2: with fewer unknown letters a text is still nearer to its paraphrase than to
    other texts, with more it is not.
    """
    tokens, letters = [0, 0], [0, 0]
    for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        if count := _letters(text[max(start, prefix) : end]):
            tokens[token == unknown] += 1
            letters[token == unknown] += count
    return 0 < tokens[1] >= tokens[0] and letters[1] >= 3 * letters[0]


def _letters(text: str) -> int:
    """The number of letters and pictures (emoji)."""
    return sum(one.isalpha() or unicodedata.category(one) == "So" for one in text)


def _query(model: Any, text: str) -> "array[float]":
    return _packed(next(iter(model.query_embed(text))))


def _packed(row: Any) -> "array[float]":
    return array("f", row.astype("f").tobytes())
