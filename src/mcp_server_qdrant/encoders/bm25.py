"""BM25 sparse vectors by Qdrant's own encoder; no model is needed.

A document's weight of a term is tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / AVERAGE_LENGTH)),
a query's is 1; the engine supplies the IDF. The id of a term is abs(murmur3(stem)), as in
fastembed's Qdrant/bm25.

A specific compound (`1.2.12`, `2026-11-12`, `src/main.py`, `C++`) is a term in addition to its
pieces, so that texts with the compound rank above texts with scattered pieces. The parts of
`getUserName` and `40kg` are terms as well, and so are the words of a text's date.

With the language "auto" each text is stemmed in its own language, or in English if that is
uncertain. The vector of a non-English text also has two artificial terms, *markers*: one for
"foreign", and one for its language. Probes for them tell which languages a collection has. A query
word is searched in the stems of these languages, English and the query's own; the stems count as
one term. Vectors of English texts have no markers, so old vectors stay valid.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache

from qdrant_edge import Bm25, Bm25Config, DisabledStemmer, StopwordsSet, TokenizerType

from mcp_server_qdrant.core.bm25 import (
    AVERAGE_LENGTH,
    ENGLISH,
    K1,
    LANGUAGES,
    NEUTRAL,
    NO_MARKERS,
    B,
    Markers,
)
from mcp_server_qdrant.core.datatypes import Sparse
from mcp_server_qdrant.core.exact import LONGEST, compounds
from mcp_server_qdrant.core.forms import PAIRED, TRIPLED, clean, compound_words, normalized
from mcp_server_qdrant.encoders.language import SURE, detect, probabilities

AUTO = "auto"
FOREIGN = "foreign"
WORD = re.compile(r"[^\W_]+")

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
    """Sparse vectors of texts in one language, or with "auto" in each text's own.

    "none" neither stems nor drops stop words. With "auto", `tokens` returns English stems; `words`
    includes them.
    """

    def __init__(self, language: str = ENGLISH) -> None:
        named = language.strip().lower()
        self._auto = named == AUTO
        self.language = ENGLISH if self._auto else named
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
        self._encoders: dict[str, Bm25Encoder] = {self.language: self}
        self.markers = _markers() if self._auto else NO_MARKERS

    def stems(self, text: str) -> list[int]:
        """The distinct terms of the words of a text, as fastembed has them."""
        return self._model.embed_query(_normalise(text)).indices

    def tokens(self, text: str) -> list[int]:
        """The distinct terms of a query, each of weight 1."""
        terms = self.stems(_with_parts(text))
        return list(dict.fromkeys([*terms, *self.compounds(text)])) if terms else terms

    def term_reader(self, text: str) -> Callable[[str], Collection[int]]:
        """A function from a text, or a part of it, to its terms, in the whole text's language."""
        if len(self._encoders) == 1:  # no other language stored or searched yet: use English
            return self.tokens
        return self._encoder_for(self.language_of(text)).tokens

    def language_of(self, text: str) -> str | None:
        """The language of a text if it is certain and matters; "none": it has no stemmer."""
        return detect(text) if self._auto else None

    def words(self, query: str, languages: Collection[str] = ()) -> Sequence[tuple[int, ...]]:
        """The terms to search for each word of a query, including stems in these languages.

        Stop words are those of the query's language; if that is uncertain, it is English or one of
        `languages`.
        """
        if not (self._auto and languages):
            return [(term,) for term in self.tokens(query)]
        searched = dict.fromkeys((ENGLISH, *languages))
        shares = probabilities(query)
        own = next(iter(shares), ENGLISH)
        if shares.get(own, 0.0) < SURE:
            own = max(searched, key=lambda language: shares.get(language, 0.0))
        others = [self._encoder_for(language) for language in searched if language != own]
        words: dict[str, dict[int, None]] = {}
        for term, word in self._encoder_for(own).terms(query).items():
            words.setdefault(word, {})[term] = None
        for word, terms in words.items():
            terms.update(dict.fromkeys(term for one in others for term in one.stems(word)))
        return _without_repeats([*words.values(), *((term,) for term in self.compounds(query))])

    def compounds(self, text: str) -> list[int]:
        """The terms of the compounds of a text."""
        found = compounds(text)
        return _whole_words().embed_query(" ".join(found)).indices if found else []

    def compound_terms(self, query: str) -> Mapping[int, Collection[int]]:
        """Term of a compound or a compound word in the query -> the terms of its parts.

        Those of compounds have no entry of parts: the vectors of all texts contain them.
        """
        found: dict[int, Collection[int]] = dict.fromkeys(self.compounds(query), ())
        for whole, parts in compound_words(query):
            for one in self._encoders.values():
                found.update(dict.fromkeys(one.stems(whole), one.stems(" ".join(parts))))
        return found

    def encode_document(self, text: str, day: date | None = None) -> Sparse:
        """The distinct terms of a document and of its date, with their BM25 weights.

        Compounds, parts of words and words of the date count as occurring once. They do not count
        towards the text's length, so they do not change the weights of its words.
        """
        language = self.language_of(text) or self.language
        if language != self.language:
            return self._add_markers(
                self._encoder_for(language).encode_document(text, day), language
            )
        vector = self._model.embed_document(_normalise(text))
        indices, values = vector.indices, vector.values
        named = self.tokens(date_words(day, self.language)) if day else []
        parts = self.stems(_parts(text))
        others = dict.fromkeys([*self.compounds(text), *parts, *named]) if indices else ()
        more = [term for term in others if term not in indices]
        return Sparse((*indices, *more), (*values, *[min(values, default=0.0)] * len(more)))

    def _add_markers(self, vector: Sparse, language: str) -> Sparse:
        if not vector.indices:
            return vector
        marks = (*self.markers.foreign, _marker(language))
        return Sparse((*vector.indices, *marks), (*vector.values, 1.0, 1.0))

    def terms(self, text: str) -> dict[int, str]:
        """Term of the query vector -> the word of the text that it comes from."""
        found: dict[int, str] = {}
        for piece in _normalise(_with_parts(text)).split():
            own = set(self._model.embed_query(piece).indices)
            # A term that matches none of our words gets the whole piece.
            for word in (*WORD.findall(piece), piece):
                for term in self._model.embed_query(word).indices:
                    if term in own:
                        found.setdefault(term, word)
        return found

    def _encoder_for(self, language: str | None) -> "Bm25Encoder":
        """The encoder for a language; this one by default."""
        language = language or self.language
        if language not in self._encoders:
            self._encoders[language] = Bm25Encoder(language)
        return self._encoders[language]


def _markers() -> Markers:
    languages = {_marker(name): name for name in LANGUAGES if name != ENGLISH}
    return Markers((_marker(FOREIGN),), languages)


def _marker(name: str) -> int:
    return _whole_words().embed_query(f"xxlanguage{name}").indices[0]


def _without_repeats(words: Iterable[Iterable[int]]) -> list[tuple[int, ...]]:
    """The terms of each word, without terms of earlier words."""
    seen: set[int] = set()
    apart = []
    for terms in words:
        own = tuple(term for term in terms if term not in seen)
        seen.update(own)
        if own:
            apart.append(own)
    return apart


@cache
def _whole_words() -> Bm25:
    """An encoder that turns everything between two spaces into one term."""
    return Bm25(
        Bm25Config(
            tokenizer=TokenizerType.Whitespace,
            stemmer=DisabledStemmer(),
            stopwords=StopwordsSet(),
            max_token_len=LONGEST,
        )
    )


def _normalise(text: str) -> str:
    """The text NFKC-normalised, with unspaced scripts split into n-grams."""
    if text.isascii():
        return text
    text = normalized(clean(text))
    text = PAIRED.sub(lambda run: _pieces(run.group(), 2), text)
    return TRIPLED.sub(lambda run: _pieces("".join(WORD.findall(run.group())), 3), text)


def _parts(text: str) -> str:
    """The parts of the compound words of a text."""
    return " ".join(part for _, parts in compound_words(clean(text)) for part in parts)


def _with_parts(query: str) -> str:
    """The query, followed by the parts of its compound words."""
    parts = _parts(query)
    return f"{query} {parts}" if parts else query


def _pieces(run: str, length: int) -> str:
    """All n-grams of `length` characters, or the run itself if it is shorter."""
    count = max(len(run) - length + 1, 1)
    return " " + " ".join(run[start : start + length] for start in range(count)) + " "


def date_words(day: date, language: str) -> str:
    """A date as people write it: 2023-05-08 and 8 May 2023; English months by default."""
    months = MONTHS.get(language, MONTHS[ENGLISH])
    month = months[day.month - 1]
    short = month[:3] if months is MONTHS[ENGLISH] else ""
    return f"{day} {day:%Y-%m} {day.day} {month} {short} {day.year}"
