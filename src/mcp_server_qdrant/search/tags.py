"""Words of the query that are tags of a collection bring the texts that carry them.

Tags are compared without regard to case and to what joins their words: `home lab` names home-lab,
Home_Lab and "home lab". Which tags a collection has is remembered for a minute; it is looked up
anew in the background, while what was known serves. Only a collection that nothing is known of is
waited for, and not for long.
"""

import asyncio
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

from mcp_server_qdrant.core.datatypes import Hit, Payload, TagMatch, Target, Terms, by_score
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.search.steps.lift import Tokens, lifted, share, weights

CACHE_SECONDS = 60.0
COLD_SECONDS = 0.25
MOST = 1_000
AT_ONCE = 8
QUERY_WORDS = 64
LONGEST = 3

# A tag counts more than its words in the text could earn as keywords: there they would be part of
# the meaning too, and a look-alike that mentions a project must not pass for one of its notes.
GAIN = 1.5

# So many words of a query that are tags are no accident: the match counts more.
MANY = 3
MANY_BOOST = 1.5

Stored = tuple[str, str]  # payload key, value

_WORD = re.compile(r"[^\W_]+[+#]*")  # c++ and c# are not c


class Facets(Protocol):
    """What tells the tags of a collection."""

    async def tags(self, collection: str, limit: int) -> Sequence[Stored]:
        """The most frequent ones. Raises our errors."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The tags of a collection, by the name under which they are compared."""

    tags: Mapping[str, tuple[Stored, ...]]
    expires: float


class TagIndex:
    """The tags of the collections, remembered."""

    def __init__(
        self, facets: Facets, tokens: Tokens, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._facets = facets
        self._tokens = tokens
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self.tasks = Tasks()
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def of(self, query: str, targets: Sequence[Target]) -> dict[str, TagMatch]:
        """What the query names of each collection's tags."""
        names = names_in(query)
        wanted = [t.collection for t in targets if t.points and (t.dense or t.sparse)]
        if not names or not wanted:
            return {}
        stale = [name for name in wanted if self._expires(name) <= self._clock()]
        tasks = [self._looking_up(name) for name in stale if name not in self._known]
        for name in stale:
            self._looking_up(name)
        if tasks:
            await asyncio.wait(tasks, timeout=COLD_SECONDS)
        known = ((name, self._known.get(name)) for name in wanted)
        matches = {name: match(names, one.tags) for name, one in known if one}
        return {name: found for name, found in matches.items() if found}

    def lift(
        self, hits: Iterable[Hit], matches: Mapping[str, TagMatch], terms: Terms, alpha: float
    ) -> list[Hit]:
        """The hits with what the tags that the query names give them, best first."""
        return tagged(hits, matches, terms, alpha, self._tokens)

    def terms(self, matches: Mapping[str, TagMatch]) -> frozenset[int]:
        """The terms of the query that name tags, so that they need not stand in a text."""
        names = {name for one in matches.values() for name in one.names}
        return frozenset(term for name in names for term in self._tokens(name))

    def changed(self, collection: str) -> None:
        """Something was stored there: its tags are looked up at the next search."""
        self._known.pop(collection, None)
        self._under_way.pop(collection, None)  # it may have asked before the store

    def _expires(self, name: str) -> float:
        known = self._known.get(name)
        return known.expires if known else 0.0

    def _looking_up(self, name: str) -> "asyncio.Task[None]":
        task = self._under_way.get(name)
        if task is None:
            look_up = partial(self._look_up, name)
            task = self._under_way[name] = self.tasks.start("The look-up of tags", look_up)
        return task

    async def _look_up(self, name: str) -> None:
        """Ask for the tags; where that fails, what was known goes on serving."""
        before = self._known.get(name)
        tags = before.tags if before else {}
        async with self._gate:
            with suppress(QdrantMcpError):
                tags = by_name(await self._facets.tags(name, MOST))
        if self._under_way.get(name) is asyncio.current_task():
            self._known[name] = _Known(tags, self._clock() + CACHE_SECONDS)
            del self._under_way[name]

    async def close(self) -> None:
        """Stop looking things up."""
        await self.tasks.close()


def folded(text: str) -> str:
    """A tag as it is compared: its words in lower case, a space between them."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", text).casefold()))


def names_in(query: str) -> dict[str, frozenset[int]]:
    """Each word of the query and each run of up to three, with the places of their words."""
    words = folded(query).split()[:QUERY_WORDS]
    found: dict[str, frozenset[int]] = {}
    for first in range(len(words)):
        for last in range(first + 1, min(first + LONGEST, len(words)) + 1):
            name = " ".join(words[first:last])
            found[name] = found.get(name, frozenset()) | set(range(first, last))
    return found


def by_name(tags: Iterable[Stored]) -> dict[str, tuple[Stored, ...]]:
    """The tags under the names by which they are compared."""
    found: dict[str, tuple[Stored, ...]] = {}
    for key, value in tags:
        name = folded(value)
        if name:
            found[name] = (*found.get(name, ()), (key, value))
    return found


def match(
    names: Mapping[str, frozenset[int]], tags: Mapping[str, tuple[Stored, ...]]
) -> TagMatch | None:
    """What is named of these tags; it counts 1.5 where three or more words name them."""
    found = [name for name in names if name in tags]
    if not found:
        return None
    words = frozenset[int]().union(*(names[name] for name in found))
    return TagMatch(
        values=tuple(tag for name in found for tag in tags[name]),
        names=frozenset(found),
        boost=MANY_BOOST if len(words) >= MANY else 1.0,
    )


def carried(
    payload: Payload | None, named: TagMatch, fold: Callable[[str], str] = folded
) -> tuple[str, ...]:
    """The tags of a payload, string or list, `tags` or `metadata.tags`, that were named."""
    payload = payload or {}
    metadata = payload.get("metadata")
    values: list[Any] = []
    for place in (payload, metadata):
        tags = place.get("tags") if isinstance(place, dict) else None
        values += tags if isinstance(tags, list) else [tags]
    texts = dict.fromkeys(value for value in values if isinstance(value, str))
    return tuple(text for text in texts if fold(text) in named.names)


def tagged(
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
    counted = weights(terms, tokens)
    fold = cache(folded)  # the same few tags are in many hits

    @cache
    def part(tags: tuple[str, ...]) -> float:
        return share({term for tag in tags for term in tokens(fold(tag))}, counted, terms.ceiling)

    def raised(hit: Hit) -> Hit:
        named = matches.get(hit.collection)
        tags = carried(hit.payload, named, fold) if named else ()
        if not named or not tags:
            return hit
        return lifted(hit, "tags", part(tags) * GAIN * named.boost, alpha)._replace(tags=tags)

    return by_score(map(raised, hits))
