"""The tags of collections that a query names.

The tags of a collection are remembered for a minute. A search waits a moment for them, then goes on
with what was known before.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from mcp_server_qdrant.core.datatypes import Target, Targets
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError
from mcp_server_qdrant.core.forms import normalized
from mcp_server_qdrant.core.notation import cite, first_few, near_names
from mcp_server_qdrant.core.tasks import Tasks, gather
from mcp_server_qdrant.search.words.terms import Tokens

CACHE_SECONDS = 60.0
WAIT_SECONDS = 0.25
MOST = 1_000
NAMED = 30  # in an answer
AT_ONCE = 8
QUERY_WORDS = 64
LONGEST = 3

# With at least so many words of the query, a match of tags is not accidental and counts more.
MANY = 3
MANY_BOOST = 1.5

Stored = tuple[str, str]  # payload key, value
Facets = Callable[[str, int], Awaitable[Sequence[Stored]]]  # collection, how many at most


# The tags of a collection by their normalised name, and when this cache entry expires.
_Remembered = tuple[Mapping[str, tuple[Stored, ...]], float]
NEVER: _Remembered = {}, 0.0
_TAG_WORD = re.compile(r"[^\W_]+[+#]*")  # c++ and c# are not c


@dataclass(frozen=True, slots=True)
class TagMatch:
    """The tags of one collection that a query names.

    `values` are (payload key, value) as stored, `names` the normalised names; `boost` is the weight
    of the match.
    """

    values: tuple[tuple[str, str], ...]
    names: frozenset[str]
    boost: float = 1.0


@dataclass(eq=False)
class TagIndex:
    """The tags of the collections. `facets` gives the most frequent ones of a collection."""

    facets: Facets
    tokens: Tokens
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, _Remembered] = field(default_factory=dict)
    _under_way: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=Tasks)
    _gate: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))

    async def named(self, query: str, targets: Sequence[Target]) -> dict[str, TagMatch]:
        """The tags that the query names, by collection."""
        legs = (
            some
            for some in Targets.from_sequence(targets).groups
            if some[0].dense or some[0].sparse
        )
        wanted = [one.collection for some in legs for one in some if one.points]
        if not any(map(str.isalnum, query)):
            return {}
        now = self.clock()
        stale = [name for name in wanted if self._known.get(name, NEVER)[1] <= now]
        if tasks := [self._looking_up(name) for name in stale]:
            await asyncio.wait(tasks, timeout=WAIT_SECONDS)
        known = [(name, tags) for name in wanted if (tags := self._known.get(name, NEVER)[0])]
        names = word_runs(query) if known else {}
        return {name: found for name, tags in known if (found := match_tags(names, tags))}

    async def check(self, wanted: Sequence[str], targets: Sequence[Target]) -> None:
        """Raise RequestError, which lists the existing tags, if no text has any of these tags.

        Does nothing if some tags are unknown.
        """
        if not wanted:
            return
        names = [target.collection for target in targets]
        found, failed = await gather(names, self._all)
        if failed or any(len(tags) >= MOST for tags in found.values()):
            return
        there = Counter(value for tags in found.values() for _, value in tags)
        if there and there.keys().isdisjoint(wanted):
            near = [one for tag in wanted for one in near_names(tag, there)]
            listed = [*dict.fromkeys([*near, *(tag for tag, _ in there.most_common())])]
            raise RequestError(
                f"No text there has the tag {' or '.join(map(cite, wanted))}; there are: "
                f"{first_few(listed, NAMED, cite)}."
            )

    async def _all(self, name: str) -> Sequence[Stored]:
        """The current tags, read from the engine."""
        async with self._gate:
            return await self.facets(name, MOST)

    def terms(self, matches: Mapping[str, TagMatch]) -> frozenset[int]:
        """The terms of the query that name tags; a text need not contain them."""
        names = {name for match in matches.values() for name in match.names}
        return frozenset(term for name in names for term in self.tokens(name))

    def changed(self, collection: str) -> None:
        """Expire the cached tags of a collection after a write."""
        self._known.pop(collection, None)
        self._under_way.pop(collection, None)  # its request may precede the write

    def _looking_up(self, name: str) -> "asyncio.Task[None]":
        task = self._under_way.get(name)
        if task is None:
            look_up = partial(self._look_up, name)
            task = self._under_way[name] = self.tasks.start("The look-up of tags", look_up)
        return task

    async def _look_up(self, name: str) -> None:
        """Read the tags; if that fails, keep the cached ones."""
        tags, _ = self._known.get(name, NEVER)
        with suppress(QdrantMcpError):
            tags = group_by_name(await self._all(name))
        if self._under_way.get(name) is asyncio.current_task():
            self._known[name] = tags, self.clock() + CACHE_SECONDS
            del self._under_way[name]

    async def close(self) -> None:
        """Cancel pending look-ups."""
        await self.tasks.close()


def folded_tag(text: str) -> str:
    """The normalised name of a tag: its words in lower case, separated by spaces.

    So `home lab` names home-lab, Home_Lab and "home lab".
    """
    return " ".join(_TAG_WORD.findall(normalized(text).casefold()))


def word_runs(query: str) -> dict[str, frozenset[int]]:
    """Each word of the query and each run of up to three, with the places of their words."""
    words = folded_tag(query).split()[:QUERY_WORDS]
    found: dict[str, frozenset[int]] = {}
    for first in range(len(words)):
        for last in range(first + 1, min(first + LONGEST, len(words)) + 1):
            name = " ".join(words[first:last])
            found[name] = found.get(name, frozenset()) | set(range(first, last))
    return found


def group_by_name(tags: Iterable[Stored]) -> dict[str, tuple[Stored, ...]]:
    """Normalised name -> the tags that have it."""
    found: dict[str, tuple[Stored, ...]] = {}
    for key, value in tags:
        name = folded_tag(value)
        if name:
            found[name] = (*found.get(name, ()), (key, value))
    return found


def match_tags(
    names: Mapping[str, frozenset[int]], tags: Mapping[str, tuple[Stored, ...]]
) -> TagMatch | None:
    """The tags that the query names; three or more naming words raise the boost to 1.5."""
    found = [name for name in names if name in tags]
    if not found:
        return None
    words = frozenset[int]().union(*(names[name] for name in found))
    return TagMatch(
        values=tuple(tag for name in found for tag in tags[name]),
        names=frozenset(found),
        boost=MANY_BOOST if len(words) >= MANY else 1.0,
    )
