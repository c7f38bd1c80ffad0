"""BM25 sparse vectors by Qdrant's own encoder; no model is needed.

A document's weight of a term is tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / AVERAGE_LENGTH)),
a query's is 1; the engine supplies the IDF. The id of a term is abs(murmur3(stem)), as fastembed's
Qdrant/bm25 has it.

A compound that tells something (`1.2.12`, `2026-11-12`, `src/main.py`) is a term beside its pieces,
so that a text that has it is told from one that has the pieces somewhere. The words of a text's day
are terms of it too.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from datetime import date
from functools import cache

from qdrant_edge import (
    Bm25,
    Bm25Config,
    DisabledStemmer,
    StopwordsSet,
    TokenizerType,
)

from mcp_server_qdrant.core.bm25 import (
    AVERAGE_LENGTH,
    ENGLISH,
    K1,
    LANGUAGES,
    NEUTRAL,
    NO_MARKERS,
    B,
)
from mcp_server_qdrant.core.datatypes import Sparse
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.exact import LONGEST, compounds
from mcp_server_qdrant.encoders.text import clean

WORD = re.compile(r"[^\W_]+")

# Scripts written without spaces, or, as Hangul, with particles joined to the words. Han, kana and
# Hangul become pairs of characters, as Lucene's CJKBigramFilter has it; the alphabets become
# triples of letters.
PAIRED = re.compile(
    r"[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af]+"
)
TRIPLED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")

MONTHS = {
    language: months
    for language, *months in map(
        str.split,
        """\
danish januar februar marts april maj juni juli august september oktober november december
dutch januari februari maart april mei juni juli augustus september oktober november december
english January February March April May June July August September October November December
french janvier février mars avril mai juin juillet août septembre octobre novembre décembre
german Januar Februar März April Mai Juni Juli August September Oktober November Dezember
italian gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre \
novembre dicembre
norwegian januar februar mars april mai juni juli august september oktober november desember
portuguese janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
russian января февраля марта апреля мая июня июля августа сентября октября ноября декабря
spanish enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
swedish januari februari mars april maj juni juli augusti september oktober november december
""".splitlines(),
    )
}


class Bm25Encoder:
    """Sparse vectors of texts in one language; "none" neither stems nor drops stop words."""

    markers = NO_MARKERS

    def __init__(self, language: str = "english") -> None:
        self.language = language.strip().lower()
        if self.language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise ConfigError(
                f"There is no BM25 for the language {language!r}; choose of: {known}."
            )
        neutral = self.language == NEUTRAL
        self._model = Bm25(
            Bm25Config(
                k=K1,
                b=B,
                avg_len=AVERAGE_LENGTH,
                tokenizer=TokenizerType.Word,
                language=None if neutral else self.language,
                stemmer=DisabledStemmer() if neutral else None,
                stopwords=StopwordsSet() if neutral else None,
            )
        )

    def tokens(self, text: str) -> list[int]:
        """The distinct terms of a query, each of weight 1."""
        terms = self._model.embed_query(_prepared(text)).indices
        return list(dict.fromkeys([*terms, *self.compounds(text)])) if terms else terms

    def reader(self, text: str) -> Callable[[str], Collection[int]]:  # noqa: ARG002 - there is one
        """The function that gives the distinct terms of a text like this, or of a part of it."""
        return self.tokens

    def language_of(self, text: str) -> str | None:  # noqa: ARG002 - there is one
        """The language of a text where it is certain and matters."""
        return None

    def words(
        self,
        query: str,
        languages: Collection[str] = (),  # noqa: ARG002 - there is one
    ) -> Sequence[tuple[int, ...]]:
        """The terms that each word of a query is searched as, in texts of these languages too."""
        return [(term,) for term in self.tokens(query)]

    def compounds(self, text: str) -> list[int]:
        """The terms of the compounds of a text."""
        found = compounds(text)
        return _whole_words().embed_query(" ".join(found)).indices if found else []

    def encode_document(self, text: str, day: date | None = None) -> Sparse:
        """The distinct terms of a document with their BM25 weights, and those of its day.

        Compounds and the day's words count as if they were there once. They do not make the text
        longer: the weights of its words are as they always were.
        """
        vector = self._model.embed_document(_prepared(text))
        indices, values = vector.indices, vector.values
        named = self.tokens(words_of(day, self.language)) if day else []
        others = dict.fromkeys([*self.compounds(text), *named]) if indices else ()
        more = [term for term in others if term not in indices]
        return Sparse((*indices, *more), (*values, *[min(values, default=0.0)] * len(more)))

    def terms(self, text: str) -> dict[int, str]:
        """The word of the text, as written, that makes each term of its query vector."""
        found: dict[int, str] = {}
        for piece in _prepared(text).split():
            own = set(self._model.embed_query(piece).indices)
            # The whole piece stands for a term that no word of ours makes.
            for word in (*WORD.findall(piece), piece):
                for term in self._model.embed_query(word).indices:
                    if term in own:
                        found.setdefault(term, word)
        return found


@cache
def _whole_words() -> Bm25:
    """Makes the term of whatever stands between two spaces, as it is."""
    return Bm25(
        Bm25Config(
            tokenizer=TokenizerType.Whitespace,
            stemmer=DisabledStemmer(),
            stopwords=StopwordsSet(),
            max_token_len=LONGEST,
        )
    )


def _prepared(text: str) -> str:
    """The text composed and compatible (ligatures, wide forms), its unspaced scripts in pieces."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", clean(text))
    text = PAIRED.sub(lambda run: _pieces(run.group(), 2), text)
    return TRIPLED.sub(lambda run: _pieces("".join(WORD.findall(run.group())), 3), text)


def _pieces(run: str, length: int) -> str:
    """All stretches of `length` characters, or the run itself when it is shorter."""
    count = max(len(run) - length + 1, 1)
    return " " + " ".join(run[start : start + length] for start in range(count)) + " "


def words_of(day: date, language: str) -> str:
    """A day as people ask for it, 2023-05-08 or 8 May 2023; with English months unless known."""
    months = MONTHS.get(language, MONTHS[ENGLISH])
    month = months[day.month - 1]
    short = month[:3] if months is MONTHS[ENGLISH] else ""
    return f"{day} {day:%Y-%m} {day.day} {month} {short} {day.year}"
