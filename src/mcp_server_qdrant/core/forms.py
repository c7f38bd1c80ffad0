"""Normalises the spellings of a word for search; stored texts are never changed.

Unicode forms, invisible characters, scripts without spaces, camel case, numbers with units.
"""

import re
import unicodedata
from collections.abc import Iterator

# Scripts written without spaces, or, as Hangul, with particles joined to the words.
_PAIRED = r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
_TRIPLED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
PAIRED, TRIPLED = re.compile(f"[{_PAIRED}]+"), re.compile(f"[{_TRIPLED}]+")
SPACED = rf"[^\W{_PAIRED}{_TRIPLED}]"  # a word character of any other script
LETTER = rf"[^\W_{_PAIRED}{_TRIPLED}]"  # the same without the underscore
_UNSPACED = re.compile(f"[{_PAIRED}{_TRIPLED}]+")
# Soft hyphens, direction marks, variation selectors and zero-width characters, except the joiners
# that shape the letters of some scripts.
_UNSEEN = re.compile(
    r"[\xad\u034f\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
    r"|(?<![\u0620-\u06d3\u0750-\u077f\u0900-\u109f\u1780-\u17b3\u1820-\u18aa])[\u200c\u200d]"
)
_SIGNS = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-") | {"\u2018": "'", "\u2019": "'"}
)
_SMALL, _LARGE = "a-zß-öø-ÿ", "A-ZÀ-ÖØ-Þ"
_SEAM = re.compile(
    rf"(?<=[{_SMALL}0-9])(?=[{_LARGE}])|(?<=[{_LARGE}])(?=[{_LARGE}][{_SMALL}]{{2}})"
)
# The same boundary, but matched from its rarest character, which makes the search faster.
_HAS_SEAM = re.compile(rf"[{_LARGE}](?:(?<=[{_SMALL}0-9].)|(?=[{_LARGE}][{_SMALL}]{{2}}))")
_SEAMED = re.compile(rf"(?<!{LETTER}){LETTER}++(?:\0{LETTER}++)+")
_UNIT = re.compile(
    rf"(?<!{LETTER})([0-9]++)((?!st|nd|rd|th|(?<=[0-9]{{4}})s)[^\W\d_]{{1,4}})(?!{LETTER})"
)
_NUMBERED = re.compile(r"[0-9][^\W\d_]")
_LONGEST, _SHORT = 64, 8  # characters


def clean(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, which no encoder accepts."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def normalized(text: str) -> str:
    """The text in NFKC, without invisible characters."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _UNSEEN.sub("", text))


def comparable(text: str) -> str:
    """The normalised text in lowercase, with ASCII hyphens and apostrophes."""
    if text.isascii():
        return text.lower()
    return normalized(text).translate(_SIGNS).lower()


def spaced(text: str) -> str:
    """The text with a space around each run of a script that is written without spaces."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def compound_words(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each word made of several, with its parts: `getUserName` has three, `40kg` two.

    Names such as iPhone and GitHub are single words: a part has at least two letters, and a word
    that begins with a capital at least eight.
    """
    text = spaced(normalized(text))
    seams = _SEAMED.finditer(_SEAM.sub("\0", text)) if _HAS_SEAM.search(text) else ()
    for found in seams:
        parts = found.group().split("\0")
        whole = "".join(parts)
        long = len(whole) >= _SHORT or whole[0].islower()
        if long and len(whole) <= _LONGEST and min(map(len, parts)) > 1:
            yield whole, parts
    for unit in _UNIT.finditer(text) if _NUMBERED.search(text) else ():
        yield unit.group(), [*unit.groups()]
