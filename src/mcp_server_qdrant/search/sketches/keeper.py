"""The sketches of collections: drawn in the background, kept in memory and on disk."""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from mcp_server_qdrant.core.access import calling
from mcp_server_qdrant.core.bm25 import Probed
from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import QdrantMcpError, contained
from mcp_server_qdrant.core.maps import Drawn
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.search.sketches.disk import Kept, SketchCache
from mcp_server_qdrant.search.sketches.sketch import Sketch, about
from mcp_server_qdrant.search.words.postings import Postings

SAMPLE = 255
MOST_POSTINGS = 8_000  # of a collection of which all are kept
PROBED, ALIKE = 8, 0.001
LOAD_SECONDS = 0.1
COMPARED_SECONDS = 5.0
REST_SECONDS = 60.0  # of a collection that was drawn, or could not be

logger = logging.getLogger(__name__)

Probe = Callable[
    [Sequence[tuple[Target, Probed]]], Awaitable[Sequence[Mapping[int, float] | QdrantMcpError]]
]


@dataclass(slots=True)
class _Entry:
    """A collection's sketch, its row on disk, until when it is fresh, and the collection rests."""

    sketch: Sketch | None = None
    row: int = 0
    fresh: float = 0.0
    rests: float = 0.0
    writes: int = 0


@dataclass(eq=False)
class Sketches:
    """What a search knows of collections before it asks them. Nothing waits for a sketch.

    `draw` gives a random sample of a collection, `probe` the engine's idf of terms, `stems` the
    terms of a word. One collection is drawn at a time, with a pause as long after it. A sketch
    serves until the number of points differs, or something is stored, here or by another process
    with the same disk. After so many seconds it is drawn anew, and serves meanwhile.
    """

    draw: Callable[[Target, int], Awaitable[Drawn]]
    probe: Probe
    stems: Callable[[str], Collection[int]]
    disk: SketchCache | None = None
    seconds: float = math.inf
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    tasks: Tasks = field(default_factory=Tasks)
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _kept: dict[bytes, Kept] = field(default_factory=dict)  # on disk, not used yet
    _forgotten: dict[str, int] = field(default_factory=dict)  # writes to be told on disk
    _compared: float = -math.inf
    _seen: int = 0  # the newest row that was read
    _wanted: dict[str, Target] = field(default_factory=dict)
    _loading: "asyncio.Task[None] | None" = None
    _worker: "asyncio.Task[None] | None" = None

    async def of(self, targets: Sequence[Target]) -> dict[str, Sketch]:
        """Collection -> its sketch where that still holds; the others are drawn in the background.

        A slow disk delays this by a tenth of a second at most.
        """
        if self.disk is not None and self._loading is None:
            self._loading = self.tasks.start("The reading of sketches", self._load)
        if self._loading is not None and not self._loading.done():
            await asyncio.wait([self._loading], timeout=LOAD_SECONDS)
            if not self._loading.done():
                return {}
        found, now = {}, self.clock()
        if self.disk is not None and self._compared + COMPARED_SECONDS <= now:
            self._compared = now
            self.tasks.start("The comparison of sketches", self._compare)
        for target in targets:
            if target.dense is None or not target.points:
                continue
            entry = self._entry(target.collection)
            holds = entry.sketch is not None and _holds(entry.sketch, target)
            if entry.sketch is not None and holds:
                found[target.collection] = entry.sketch
            if not (holds and now < entry.fresh) and entry.rests <= now:
                self._wanted[target.collection] = target
        if self._wanted and (self._worker is None or self._worker.done()):
            with calling(None):  # on nobody's account
                self._worker = self.tasks.start("The sketching of collections", self._work)
        return found

    async def about(self, targets: Sequence[Target]) -> dict[str, str]:
        """Collection -> the words that tell it from the others, as far as they are known."""
        found = await self.of(targets)
        known = [entry.sketch for entry in self._entries.values() if entry.sketch]
        words: Counter[str] = Counter()
        for sketch in known:
            words.update(sketch.words)
        return {name: about(sketch, words, len(known)) for name, sketch in found.items()}

    def changed(self, collection: str) -> None:
        """Something was written there: it is asked until it is drawn anew."""
        entry = self._entry(collection)
        entry.sketch, entry.row = None, 0
        entry.writes += 1
        if self.disk is not None:
            if collection not in self._forgotten:
                forget = partial(self._forget, self.disk, collection)
                self.tasks.start("The forgetting of a sketch", forget)
            self._forgotten[collection] = entry.writes

    async def _forget(self, disk: SketchCache, collection: str) -> None:
        """Tell other processes of the writes, also of those that come meanwhile."""
        told = 0
        while told != self._forgotten[collection]:
            told = self._forgotten[collection]
            await asyncio.to_thread(disk.forget, collection)
        del self._forgotten[collection]

    async def settled(self) -> None:
        """Wait until nothing is being drawn."""
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Stop drawing; other processes are still told of the writes."""
        await self.tasks.close()
        if self.disk is not None:
            for collection in self._forgotten:
                await asyncio.to_thread(self.disk.forget, collection)

    async def _load(self) -> None:
        assert self.disk is not None
        self._kept = await asyncio.to_thread(self.disk.load)
        self._seen = max((row for _, row in self._kept.values()), default=0)

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            key = self.disk.key(name) if self.disk else b""
            sketch, row = self._kept.pop(key, (None, 0))
            entry = self._entries[name] = _Entry(sketch, row, self.clock() + self.seconds)
        return entry

    async def _compare(self) -> None:
        """Take over what other processes drew, and drop what they wrote to."""
        assert self.disk is not None
        before = {name: (entry.row, entry.writes) for name, entry in self._entries.items()}
        rows = await asyncio.to_thread(self.disk.rows)
        if not rows or max(rows.values()) <= self._seen:
            return
        drawn = await asyncio.to_thread(self.disk.load, self._seen)
        self._seen = max(rows.values())
        self._kept = {key: kept for key, kept in self._kept.items() if rows.get(key) == kept[1]}
        self._kept |= drawn
        for name, known in before.items():
            entry, key = self._entries[name], self.disk.key(name)
            row = rows.get(key, 0)
            if (entry.row, entry.writes) == known and row > entry.row:
                sketch, _ = self._kept.pop(key, (None, row))
                entry.sketch, entry.row, entry.fresh = sketch, row, self.clock() + self.seconds

    async def _work(self) -> None:
        """Draw the wanted collections, one after the other."""
        while self._wanted:
            target = self._wanted.pop(next(iter(self._wanted)))
            began = self.clock()
            entry = self._entry(target.collection)
            entry.rests = began + REST_SECONDS
            try:
                with contained():
                    await self._draw(target, entry)
            except QdrantMcpError as error:
                logger.info("A collection could not be sketched: %s", error)
            await self.pause(self.clock() - began)

    async def _draw(self, target: Target, entry: _Entry) -> None:
        """Draw one collection; it is not kept if it is written to meanwhile."""
        name, writes, began = target.collection, entry.writes, self.clock()
        before = await asyncio.to_thread(self.disk.row, name) if self.disk else 0
        drawn = await self.draw(target, SAMPLE)
        postings = await self._postings(target, drawn)
        sketch = await asyncio.to_thread(self._sketch, target, drawn, postings)
        row: int | None = None
        if self.disk is not None and entry.writes == writes:
            row = await asyncio.to_thread(self.disk.save, name, sketch, before)
        if entry.writes == writes and row != 0:
            entry.sketch, entry.row, entry.fresh = sketch, row or 0, began + self.seconds

    async def _postings(self, target: Target, drawn: Drawn) -> Postings | None:
        """Those of all terms, where all were read and the engine weighs them alike.

        It may count deleted points for a while, and each shard by itself.
        """
        leg, weighed = target.sparse, drawn.weighed
        whole = leg is not None and leg.idf and len(weighed) == target.documents > 0
        if not whole or sum(len(point.terms) for point in weighed) > MOST_POSTINGS:
            return None
        found = await asyncio.to_thread(Postings.of, weighed)
        counts = Counter(chain.from_iterable(point.terms for point in weighed))
        rarest = [term for term, _ in counts.most_common()[-PROBED:]]
        (known,) = await self.probe([(target, rarest)])
        if isinstance(known, QdrantMcpError):
            raise known
        expected = found.idf(rarest)
        alike = all(abs(known.get(term, 0.0) - idf) < ALIKE for term, idf in expected.items())
        return found if alike else None

    def _sketch(self, target: Target, drawn: Drawn, postings: Postings | None) -> Sketch:
        texts = [
            f"{title}\n{text}" for title, text in zip(drawn.titles, drawn.snippets, strict=True)
        ]
        space, points = _space(target), target.points
        return Sketch.of(space, points, drawn.vectors, texts, self.stems, postings)


def _holds(sketch: Sketch, target: Target) -> bool:
    same = sketch.points == target.points and sketch.model == _space(target)
    return same and len(sketch.shares) > 0


def _space(target: Target) -> str:
    """The vectors that a sketch is of: another model, or another vector, makes others."""
    assert target.dense is not None
    sparse = target.sparse.vector if target.sparse else ""
    return f"{target.dense.model}\0{target.dense.vector}\0{sparse}"
