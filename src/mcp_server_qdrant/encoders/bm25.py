"""BM25 sparse vectors by Qdrant's own encoder; no model is needed.

A document's weight of a term is tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / AVERAGE_LENGTH)),
a query's is 1; the engine supplies the IDF. The id of a term is abs(murmur3(stem)), as fastembed's
Qdrant/bm25 has it.

A compound that tells something (`1.2.12`, `2026-11-12`, `src/main.py`) is a term beside its pieces,
so that a text that has it is told from one that has the pieces somewhere. The words of a text's day
are terms of it too.

In the language "auto" each text is stemmed in its own, which is English where that is not certain.
The vector of a text in another one also has two terms that no text has, *markers*: one that says
so, and one for its language. Probes for them tell which languages a collection holds. A word of a
query is asked as each of these languages, English and the query's own would stem it; these forms
count as one term. Vectors of English texts have no marker: they are as they always were.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
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
    Markers,
)
from mcp_server_qdrant.core.datatypes import Sparse
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.exact import LONGEST, compounds
from mcp_server_qdrant.encoders.language import SURE, likely, sure
from mcp_server_qdrant.encoders.text import clean

AUTO = "auto"
FOREIGN = "foreign"
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
    """Sparse vectors of texts in one language, or of each in its own: "auto".

    "none" neither stems nor drops stop words. `tokens` of "auto" are English, and so among those of
    `words`.
    """

    def __init__(self, language: str = ENGLISH) -> None:
        named = language.strip().lower()
        if named not in (AUTO, *LANGUAGES):
            known = ", ".join(LANGUAGES)
            raise ConfigError(
                f"There is no BM25 for the language {language!r}; choose of: {known}."
            )
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

    def tokens(self, text: str) -> list[int]:
        """The distinct terms of a query, each of weight 1."""
        terms = self._model.embed_query(_prepared(text)).indices
        return list(dict.fromkeys([*terms, *self.compounds(text)])) if terms else terms

    def reader(self, text: str) -> Callable[[str], Collection[int]]:
        """The function that gives the terms of a text, or of a part of it in that of the whole."""
        if len(self._encoders) == 1:  # neither stored nor searched yet: English will do
            return self.tokens
        return self._of(self.language_of(text)).tokens

    def language_of(self, text: str) -> str | None:
        """The language of a text where it is certain and matters; "none": it has no stemmer."""
        return sure(text) if self._auto else None

    def words(self, query: str, languages: Collection[str] = ()) -> Sequence[tuple[int, ...]]:
        """The terms that each word of a query is searched as, in texts of these languages too.

        Stop words are those of the query's own language, which is English or one of `languages`
        where it is not certain.
        """
        if not (self._auto and languages):
            return [(term,) for term in self.tokens(query)]
        searched = dict.fromkeys((ENGLISH, *languages))
        shares = likely(query)
        own = next(iter(shares), ENGLISH)
        if shares.get(own, 0.0) < SURE:
            own = max(searched, key=lambda language: shares.get(language, 0.0))
        others = [self._of(language) for language in searched if language != own]
        words: dict[str, dict[int, None]] = {}
        for term, word in self._of(own).terms(query).items():
            words.setdefault(word, {})[term] = None
        for word, terms in words.items():
            terms.update(dict.fromkeys(term for one in others for term in one.tokens(word)))
        return _apart([*words.values(), *((term,) for term in self.compounds(query))])

    def compounds(self, text: str) -> list[int]:
        """The terms of the compounds of a text."""
        found = compounds(text)
        return _whole_words().embed_query(" ".join(found)).indices if found else []

    def encode_document(self, text: str, day: date | None = None) -> Sparse:
        """The distinct terms of a document with their BM25 weights, and those of its day.

        Compounds and the day's words count as if they were there once. They do not make the text
        longer: the weights of its words are as they always were.
        """
        language = self.language_of(text) or self.language
        if language != self.language:
            return self._marked(self._of(language).encode_document(text, day), language)
        vector = self._model.embed_document(_prepared(text))
        indices, values = vector.indices, vector.values
        named = self.tokens(words_of(day, self.language)) if day else []
        others = dict.fromkeys([*self.compounds(text), *named]) if indices else ()
        more = [term for term in others if term not in indices]
        return Sparse((*indices, *more), (*values, *[min(values, default=0.0)] * len(more)))

    def _marked(self, vector: Sparse, language: str) -> Sparse:
        if not vector.indices:
            return vector
        marks = (*self.markers.foreign, _marker(language))
        return Sparse((*vector.indices, *marks), (*vector.values, 1.0, 1.0))

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

    def _of(self, language: str | None) -> "Bm25Encoder":
        """The encoder of a language, by default this one."""
        language = language or self.language
        if language not in self._encoders:
            self._encoders[language] = Bm25Encoder(language)
        return self._encoders[language]


def _markers() -> Markers:
    languages = {_marker(name): name for name in LANGUAGES if name != ENGLISH}
    return Markers((_marker(FOREIGN),), languages)


def _marker(name: str) -> int:
    return _whole_words().embed_query(f"xxlanguage{name}").indices[0]


def _apart(words: Iterable[Iterable[int]]) -> list[tuple[int, ...]]:
    """The terms of each word; a term of two words is the first one's."""
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
