"""The vocabularies of collections: sampled in the background, kept in memory and on disk."""

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.search.words.cache import WordCache
from mcp_server_qdrant.search.words.vocabulary import Vocabulary, tally

DRIFT = 0.1
REST_SECONDS = 30.0
LONGEST_REST = 3_600.0  # of a collection whose sampling fails time and again
LOAD_SECONDS = 0.1
SLICE = 25_000
MOST_STORED = 5_000
MOST_HELD = 2_000_000
FREQUENT, TOLD = 256, 6  # words of a collection that are compared, and shown

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    """The words of one collection: its sample, and those that this process stored since."""

    sample: Vocabulary | None = None
    points: int = 0
    stored: Counter[str] = field(default_factory=Counter)
    recent: Vocabulary | None = None
    looked_for: bool = False
    rests: float = 0.0
    pause: float = REST_SECONDS

    def vocabularies(self) -> list[Vocabulary]:
        if self.recent is None and self.stored:
            self.recent = Vocabulary.of(self.stored)
        return [words for words in (self.sample, self.recent) if words is not None]

    def size(self) -> int:
        return len(self.stored) + (len(self.sample) if self.sample else 0)


class Lexicon:
    """The words of collections. Nothing waits for a sample: it is there, or it is scheduled.

    `texts` gives a sample of a collection's texts by the page. One collection is sampled at a time,
    in slices of about a millisecond, with a pause as long after each. A sample serves until its
    collection has grown or shrunk by a tenth.
    """

    def __init__(
        self,
        texts: Callable[[Target], AsyncGenerator[list[str]]],
        disk: WordCache | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._texts = texts
        self._disk = disk
        self._clock = clock
        self._pause = pause
        self._entries: dict[str, _Entry] = {}
        self._wanted: dict[str, Target] = {}
        self._worker: asyncio.Task[None] | None = None
        self.tasks = Tasks()

    async def of(self, targets: Sequence[Target]) -> Mapping[str, Sequence[Vocabulary]]:
        """Collection -> its vocabularies, as far as they are there; the others are scheduled.

        A slow disk delays this by a tenth of a second at most.
        """
        await self._look_on_disk([target.collection for target in targets])
        found: dict[str, list[Vocabulary]] = {}
        for target in targets:
            entry = self._used(target.collection)
            if not target.failed and self._stale(target, entry):
                self._wanted[target.collection] = target
            if known := entry.vocabularies():
                found[target.collection] = known
        if self._wanted and (self._worker is None or self._worker.done()):
            self._worker = self.tasks.start("The sampling of words", self._work)
        return found

    async def about(
        self, targets: Sequence[Target], telling: Callable[[str], bool]
    ) -> dict[str, str]:
        """Collection -> the `telling` words that tell it from the others, as far as known."""
        found = await self.of(targets)
        held = {name: entry.vocabularies() for name, entry in self._entries.items()}
        return await asyncio.to_thread(_about, [*found], held, telling)

    def stored(self, collection: str, texts: Sequence[str]) -> None:
        """Know the words of texts that were just stored: of the first 25,000 characters."""
        entry = self._used(collection)
        if len(entry.stored) < MOST_STORED:
            tally(entry.stored, next(slices(texts), []))
            entry.recent = None

    async def settled(self) -> None:
        """Wait until nothing is being sampled."""
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Stop sampling."""
        await self.tasks.close()

    def _used(self, collection: str) -> _Entry:
        """The entry of a collection, moved to the end: the longest unused one comes first."""
        entry = self._entries.pop(collection) if collection in self._entries else _Entry()
        self._entries[collection] = entry
        return entry

    def _stale(self, target: Target, entry: _Entry) -> bool:
        if entry.rests > self._clock():
            return False
        drifted = abs(target.points - entry.points) > DRIFT * entry.points
        return entry.sample is None or drifted or len(entry.stored) >= MOST_STORED

    async def _look_on_disk(self, names: Sequence[str]) -> None:
        fresh = [name for name in names if not self._used(name).looked_for]
        if self._disk is None or not fresh:
            return
        for name in fresh:
            self._entries[name].looked_for = True
            self._entries[name].rests = math.inf
        load = partial(self._load, self._disk, fresh)
        task = self.tasks.start("The reading of words from the disk", load)
        await asyncio.wait([task], timeout=LOAD_SECONDS)

    async def _load(self, disk: WordCache, names: Sequence[str]) -> None:
        for name in names:
            kept = await asyncio.to_thread(disk.load, name)
            entry = self._used(name)
            entry.rests = 0.0
            if kept is not None:
                entry.sample, entry.points = kept
        self._forget_unused()

    async def _work(self) -> None:
        """Sample the wanted collections, one after the other."""
        while self._wanted:
            target = self._wanted.pop(next(iter(self._wanted)))
            entry = self._used(target.collection)
            entry.rests = self._clock() + entry.pause
            entry.pause = min(2 * entry.pause, LONGEST_REST)
            known = Counter(entry.stored)
            try:
                sample = await self._sampled(target, Counter(known))
            except QdrantMcpError as error:
                logger.info("The words of a collection could not be read: %s", error)
            else:
                entry.sample, entry.points = sample, target.points
                entry.stored -= known
                entry.recent = None
                entry.pause = REST_SECONDS
                entry.rests = self._clock() + REST_SECONDS
                if self._disk is not None:
                    await asyncio.to_thread(
                        self._disk.save, target.collection, sample, target.points
                    )
            self._forget_unused()

    async def _sampled(self, target: Target, counts: Counter[str]) -> Vocabulary:
        """The words of a sample of the collection, counted on top of `counts`."""
        began = self._clock()
        async with contextlib.aclosing(self._texts(target)) as pages:
            async for page in pages:
                for group in slices(page):
                    await asyncio.to_thread(tally, counts, group)
                    await self._pause(self._clock() - began)
                    began = self._clock()
        return await asyncio.to_thread(Vocabulary.of, counts)

    def _forget_unused(self) -> None:
        held = sum(entry.size() for entry in self._entries.values())
        for name in list(self._entries)[:-1]:
            if held <= MOST_HELD:
                return
            held -= self._entries.pop(name).size()


def _about(
    names: Sequence[str],
    held: Mapping[str, Sequence[Vocabulary]],
    telling: Callable[[str], bool],
) -> dict[str, str]:
    """The words of collections by class-based tf-idf.

    weight(w) = tf(w) * ln(1 + C / f(w)), where f(w) is how often all collections together have
    the word and C how many words a collection has on average (Grootendorst, BERTopic, 2022).
    """
    counts = {name: _frequent(vocabularies) for name, vocabularies in held.items() if vocabularies}
    everywhere = sum(counts.values(), Counter())
    average = everywhere.total() / max(len(counts), 1)
    found: dict[str, str] = {}
    for name in names:
        weights = {w: n * math.log(1 + average / everywhere[w]) for w, n in counts[name].items()}
        best = sorted(weights, key=lambda word: (-weights[word], word))
        found[name] = ", ".join(islice(filter(telling, best), TOLD))
    return found


def _frequent(vocabularies: Sequence[Vocabulary]) -> Counter[str]:
    """The most frequent words of a collection."""
    counts: Counter[str] = Counter()
    for vocabulary in vocabularies:
        counts.update(vocabulary.frequent(FREQUENT))
    return counts


def slices(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in groups of about 25,000 characters; a longer one is cut to that."""
    group, size = list[str](), 0
    for text in texts:
        group.append(text[:SLICE])
        size += len(group[-1])
        if size >= SLICE:
            yield group
            group, size = [], 0
    if group:
        yield group
