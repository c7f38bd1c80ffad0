"""The tags of collections that a query names.

The tags of a collection are remembered for a minute. A search waits a second for them at most, then
goes on with what was known before.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError
from mcp_server_qdrant.core.notation import called, near_names, some
from mcp_server_qdrant.qdrant.read.query import in_time
from mcp_server_qdrant.search.query import TagMatch
from mcp_server_qdrant.search.relevance import folded_tag
from mcp_server_qdrant.search.texts import Tokens

CACHE_SECONDS = 60.0
WAIT_SECONDS = 1.0
CHECK_SECONDS = 5.0
MOST = 1_000
NAMED = 30  # in an answer
QUERY_WORDS = 64
LONGEST = 3

# So many words of a query that name tags are no accident: the match counts more.
MANY = 3
MANY_BOOST = 1.5

Stored = tuple[str, str]  # payload key, value
Facets = Callable[[str, int], Awaitable[Sequence[Stored]]]  # collection, how many at most


@dataclass(slots=True)
class _Remembered:
    """The tags of a collection by the name under which they are compared; they serve `until`."""

    tags: Mapping[str, tuple[Stored, ...]] = field(default_factory=dict)
    until: float = 0.0


class TagIndex:
    """The tags of the collections. `facets` gives the most frequent ones of a collection."""

    def __init__(
        self, facets: Facets, tokens: Tokens, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._facets = facets
        self._tokens = tokens
        self._clock = clock
        self._known: dict[str, _Remembered] = {}

    async def named(self, query: str, targets: Sequence[Target]) -> dict[str, TagMatch]:
        """The tags that the query names, by collection."""
        if not any(map(str.isalnum, query)):
            return {}
        wanted = [t.collection for t in targets if t.points and (t.dense or t.sparse)]
        known = {name: self._known.setdefault(name, _Remembered()) for name in wanted}
        await self._look_up({n: one for n, one in known.items() if one.until <= self._clock()})
        if not any(one.tags for one in known.values()):
            return {}
        names = names_in(query)
        matches = {name: match(names, one.tags) for name, one in known.items()}
        return {name: found for name, found in matches.items() if found}

    async def _look_up(self, stale: Mapping[str, _Remembered]) -> None:
        """Ask for the tags; where that fails, or takes too long, the old ones go on serving."""
        answers = await self._all([*stale], WAIT_SECONDS)
        for one, answer in zip(stale.values(), answers, strict=True):
            one.until = self._clock() + CACHE_SECONDS
            if not isinstance(answer, QdrantMcpError):
                one.tags = by_name(answer)

    async def _all(
        self, names: Sequence[str], seconds: float
    ) -> list[Sequence[Stored] | QdrantMcpError]:
        """The tags of each collection as the engine counts them now."""

        async def ask(some: Sequence[str]) -> Sequence[Sequence[Stored]]:
            return [await self._facets(name, MOST) for name in some]

        return await in_time([[name] for name in names], ask, seconds)

    async def check(self, wanted: Sequence[str], targets: Sequence[Target]) -> None:
        """Raise RequestError where no text has any of these tags, naming those that there are.

        Nothing is said where not all tags are known.
        """
        if not wanted:
            return
        there: Counter[str] = Counter()
        for answer in await self._all([target.collection for target in targets], CHECK_SECONDS):
            if isinstance(answer, QdrantMcpError) or len(answer) >= MOST:
                return
            there.update(value for _, value in answer)
        if there and there.keys().isdisjoint(wanted):
            near = [one for tag in wanted for one in near_names(tag, there)]
            listed = dict.fromkeys([*near, *(tag for tag, _ in there.most_common())])
            raise RequestError(
                f"No text there has the tag {' or '.join(map(called, wanted))}; there are: "
                f"{some([*map(called, listed)], NAMED)}."
            )

    def terms(self, matches: Mapping[str, TagMatch]) -> frozenset[int]:
        """The terms of the query that name tags, so that they need not stand in a text."""
        names = {name for match in matches.values() for name in match.names}
        return frozenset(term for name in names for term in self._tokens(name))

    def changed(self, collection: str) -> None:
        """Something was stored there: its tags are looked up at the next search.

        What a search under way is told is of before the store, and not remembered.
        """
        self._known.pop(collection, None)


def names_in(query: str) -> dict[str, frozenset[int]]:
    """Each word of the query and each run of up to three, with the places of their words."""
    words = folded_tag(query).split()[:QUERY_WORDS]
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
        name = folded_tag(value)
        if name:
            found[name] = (*found.get(name, ()), (key, value))
    return found


def match(
    names: Mapping[str, frozenset[int]], tags: Mapping[str, tuple[Stored, ...]]
) -> TagMatch | None:
    """The tags that are named; they count 1.5 times where three or more words name them."""
    found = [name for name in names if name in tags]
    if not found:
        return None
    words = frozenset[int]().union(*(names[name] for name in found))
    return TagMatch(
        values=tuple(tag for name in found for tag in tags[name]),
        names=frozenset(found),
        boost=MANY_BOOST if len(words) >= MANY else 1.0,
    )
