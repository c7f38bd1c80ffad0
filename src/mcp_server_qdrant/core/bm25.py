"""The BM25 of this server's vectors, and the languages that the engine has."""

from collections.abc import Mapping
from typing import NamedTuple

K1 = 1.2  # term frequency saturation, and so the largest score that a term allows
B = 0.75
AVERAGE_LENGTH = 256  # words, in every collection: so the scores of all compare


class Markers(NamedTuple):
    """Terms that no text has: `foreign` of vectors of texts that are not English, and language."""

    foreign: tuple[int, ...]
    languages: Mapping[int, str]


NO_MARKERS = Markers((), {})
ENGLISH = "english"  # the language of texts without markers
NEUTRAL = "none"  # neither stems nor drops stop words
# fmt: off
LANGUAGES = (
    "arabic", "azerbaijani", "basque", "bengali", "catalan", "chinese", "danish", "dutch",
    "english", "finnish", "french", "german", "greek", "hebrew", "hinglish", "hungarian",
    "indonesian", "italian", "japanese", "kazakh", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "slovene", "spanish", "swedish", "tajik", "turkish", NEUTRAL,
)
# fmt: on
