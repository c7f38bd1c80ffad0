"""The BM25 parameters of this server's vectors, and the engine's languages."""

from collections.abc import Mapping
from typing import NamedTuple

K1 = 1.2  # term frequency saturation, which bounds the score of a term
B = 0.75
AVERAGE_LENGTH = 256  # words, fixed for all collections so that scores are comparable


class Markers(NamedTuple):
    """Artificial terms in vectors of non-English texts: `foreign`, and one per language."""

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
