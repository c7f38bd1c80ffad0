"""The same passage is shown once.

Two passages are the same where they differ in nothing but capital initials, white space,
punctuation and Markdown: one word, one digit or one sign more or less, and they are two. Titles
agree in their numbers.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Sequence

from mcp_server_qdrant.core.datatypes import Document, Hit

MARKUP = re.compile(r"^[ \t]*(?:[#>*+•|-]+[ \t]+)+", re.MULTILINE)
QUOTES = "\"'`*«»„“”\u201a\u2018\u2019"
BEFORE, AFTER = f"{QUOTES}([{{¿¡", f"{QUOTES})]}}.,;:!…"
SIGNS = (string.punctuation + string.whitespace).encode()


def fold(
    hits: Sequence[Hit], document: Callable[[Hit], Document], shown: int, gain: float = 1.0
) -> list[Hit]:
    """The hits, of each passage the best, which names the places of the others (`also`).

    The order stays. Hits without a text are all kept. Those that no factor up to `gain` could lift
    among the best `shown` are not read.
    """
    kept: list[Hit] = []
    alike: dict[bytes, list[int]] = {}  # places of those that may be the same
    for number, hit in enumerate(hits):
        if len(kept) >= shown > 0 and hit.score * gain < kept[shown - 1].score:
            return [*kept, *hits[number:]]
        passage = document(hit)
        near = [] if passage.textless else alike.setdefault(_bare(passage.text), [])
        place = next((n for n in near if _same(passage, document(kept[n]))), None)
        if place is None:
            near.append(len(kept))
            kept.append(hit)
        else:
            also = (*kept[place].also, hit._replace(also=()), *hit.also)
            kept[place] = kept[place]._replace(also=also)
    return kept


def _bare(text: str) -> bytes:
    """The text without signs and capitals, and without letters beyond ASCII: quick to make."""
    return text.encode("ascii", "ignore").translate(None, SIGNS).lower()


def _same(first: Document, second: Document) -> bool:
    if not first.text.strip():
        return False
    if first.title and second.title and _marks(first.title) != _marks(second.title):
        return False
    own = words(first.text)
    return first.text == second.text or (bool(own) and own == words(second.text))


def words(text: str) -> list[str]:
    """The words of a text without the differences that copies may have.

    Signs inside a word and before a number stay, as does the case of all but ordinary words: "-5",
    "10.0.0.1", "C++", "MB" and "userID" are words of their own.
    """
    unmarked = MARKUP.sub("", unicodedata.normalize("NFC", text))
    bare = (word.lstrip(BEFORE).rstrip(AFTER) for word in unmarked.split())
    return [
        word.lower() if word[1:].islower() and word.isalpha() else word for word in bare if word
    ]


def _marks(title: str) -> list[str]:
    """The words of a title that are not letters only: they tell similar titles apart."""
    return [word for word in words(title) if not word.isalpha()]
