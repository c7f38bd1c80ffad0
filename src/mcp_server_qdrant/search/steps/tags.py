"""Texts whose tags the query names rank higher.

Tags are compared without regard to case and to what joins their words: `home lab` names home-lab,
Home_Lab and "home lab".
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from mcp_server_qdrant.core.datatypes import Hit, Payload, TagMatch, Terms, by_score
from mcp_server_qdrant.search.lift import Tokens, lifted, share, term_weights

# A tag counts more than its words in the text could earn as keywords: there they would be part of
# the meaning too, and a look-alike that mentions a project must not pass for one of its notes.
GAIN = 1.5
MOST = 0.8  # relevance that tags can give

_WORD = re.compile(r"[^\W_]+[+#]*")  # c++ and c# are not c


def folded(text: str) -> str:
    """A tag as it is compared: its words in lower case, a space between them."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", text).casefold()))


def carried(
    payload: Payload | None, named: TagMatch, fold: Callable[[str], str] = folded
) -> tuple[str, ...]:
    """The named tags of a payload: `tags` or `metadata.tags`, a string or a list."""
    payload = payload or {}
    metadata = payload.get("metadata")
    values: list[Any] = []
    for place in (payload, metadata):
        tags = place.get("tags") if isinstance(place, dict) else None
        values += tags if isinstance(tags, list) else [tags]
    texts = dict.fromkeys(value for value in values if isinstance(value, str))
    return tuple(text for text in texts if fold(text) in named.names)


def lift_tags(
    hits: Iterable[Hit],
    matches: Mapping[str, TagMatch],
    terms: Terms,
    alpha: float,
    tokens: Tokens,
) -> list[Hit]:
    """The hits, best first, those that carry a named tag raised.

    The share is the part of the query, by idf, that the tags' words are, times GAIN and the boost.
    """
    if not matches:
        return list(hits)
    weights = term_weights(terms, tokens)
    fold = cache(folded)  # the same few tags are in many hits

    @cache
    def part(tags: tuple[str, ...]) -> float:
        return share({term for tag in tags for term in tokens(fold(tag))}, weights, terms.ceiling)

    def raised(hit: Hit) -> Hit:
        named = matches.get(hit.collection)
        tags = carried(hit.payload, named, fold) if named else ()
        if not named or not tags:
            return hit
        return capped(hit, lifted(hit, "tags", part(tags) * GAIN * named.boost, alpha), tags)

    return by_score(map(raised, hits))


def capped(hit: Hit, raised: Hit, tags: tuple[str, ...]) -> Hit:
    """The raised hit, its relevance at most MOST by tags; what is beyond that counts in its score.

    A tag says what a text is about, not that it answers.
    """
    relevance = max(hit.relevance, min(raised.relevance, MOST))
    named = hit.lifted("tags", relevance) if relevance > hit.relevance else hit
    if raised.relevance > relevance > 0:
        named = named.rescored("tags", raised.relevance / relevance)
    return named._replace(tags=tags)
