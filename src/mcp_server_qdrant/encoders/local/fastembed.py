"""Dense vectors from a local fastembed model."""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.forms import clean
from mcp_server_qdrant.core.lean import importing
from mcp_server_qdrant.encoders.local.model import (
    BATCH_SIZE,
    CALL_SECONDS,
    QUERY_SECONDS,
    LocalModel,
    Spec,
    batches,
    trim_memory,
)
from mcp_server_qdrant.encoders.local.turns import Turns

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

UNKNOWN = "<unk>"  # the usual unknown token


class FastEmbedEncoder(LocalModel):
    """The vectors of one model, L2-normalised by fastembed.

    Queries run in `turns`; passages run in separate turns, in parallel.
    """

    noun, seconds = "model", QUERY_SECONDS

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.passages = Turns(CALL_SECONDS)
        self.whole_tokenizer: str | None = None  # without truncation and padding, as JSON
        self._tokenizer: Tokenizer | None = None
        self._unknown: int | None = None  # the id of the unknown token

    def query(self, text: str, prefix: int = 0) -> tuple[float, ...]:
        """The query's vector; the text starts with a prefix of `prefix` characters.

        Raises EncoderUnavailable, also if the model cannot read the query.
        """
        text = clean(text)
        with self.running() as model:
            if self._readable([text], prefix)[0]:
                return tuple(_query(model, text))
        raise EncoderUnavailable(f"The model {self.name} does not know these characters.")

    def documents(self, texts: Sequence[str], prefix: int = 0) -> list[list[float]]:
        """One vector per text, in order; empty for a text that the model cannot read.

        The texts start with a prefix of `prefix` characters. Raises EncoderUnavailable.
        """
        texts = [clean(text) for text in texts]
        vectors: list[list[float]] = [[] for _ in texts]
        with self.running() as model:
            readable = self._readable(texts, prefix)
            read = [place for place, length in enumerate(readable) if length]
            for some in batches([readable[place] for place in read], BATCH_SIZE):
                places = [read[one] for one in some]
                batch = [texts[place] for place in places]
                rows = model.passage_embed(batch, batch_size=len(batch))
                for place, row in zip(places, rows, strict=True):
                    vectors[place] = _floats(row)
        trim_memory()
        return vectors

    def _readable(self, texts: Sequence[str], prefix: int) -> list[int]:
        """The tokens that the model will read of each text; 0 if too many are unknown.

        Unknown characters all look the same to a model, so such texts would get equal vectors.
        """
        if (tokenizer := self._tokenizer) is None:
            return [len(text) or 1 for text in texts]
        return [
            0
            if self._unknown in one.ids
            and mostly_unknown(text, tokenizer.encode(text), self._unknown, prefix)
            else sum(one.attention_mask)
            for text, one in zip(texts, tokenizer.encode_batch_fast(texts), strict=True)
        ]

    def common(self, words: Sequence[str]) -> list[str]:
        """The words that are single tokens in its vocabulary: common words of its language."""
        if self._tokenizer is None:
            return []
        tokens = self._tokenizer.encode_batch_fast(words, add_special_tokens=False)
        return [
            word for word, one in zip(words, tokens, strict=True) if sum(one.attention_mask) == 1
        ]

    @staticmethod
    @override
    def model_class() -> Any:
        with importing:
            from fastembed import TextEmbedding

        return TextEmbedding

    @override
    def prepare(self, model: Any) -> None:
        _query(model, "warm up")
        tokenizer: Tokenizer | None = getattr(model.model, "tokenizer", None)
        if tokenizer is None:
            return
        cut, filled = tokenizer.truncation, tokenizer.padding
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.whole_tokenizer = tokenizer.to_str()
        if filled:
            tokenizer.enable_padding(**filled)
        if cut:
            self.token_limit = cut["max_length"]
            tokenizer.enable_truncation(**cut)
        unknown = getattr(tokenizer.model, "unk_token", None) or UNKNOWN
        self._unknown = tokenizer.token_to_id(unknown)
        self._tokenizer = tokenizer


def mostly_unknown(text: str, encoding: "Encoding", unknown: int, prefix: int = 0) -> bool:
    """True if half of the words and three quarters of the letters are unknown tokens.

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
    """The number of letters and emoji."""
    return sum(one.isalpha() or unicodedata.category(one) == "So" for one in text)


def _query(model: Any, text: str) -> list[float]:
    return _floats(next(iter(model.query_embed(text))))


def _floats(row: Any) -> list[float]:
    floats: list[float] = row.astype("f").tolist()
    return floats
