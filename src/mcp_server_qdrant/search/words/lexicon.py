"""The vocabularies of collections, sampled in the background and cached in memory and on disk.

They have only Latin words of prose; words next to a digit or an underscore, or inside a dotted
name, are identifiers and not corrected. A lost or damaged cache file is sampled again.
"""

import asyncio
import json
import logging
import math
import re
import time
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.disk import write_atomically
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.qdrant.read.sample import MOST_TEXTS

DRIFT = 0.1
REST_SECONDS = 30.0  # between two samplings of a collection
MOST_WORDS = 50_000  # of a collection
MOST_HELD = 500_000  # words in memory, about 100 bytes each
MOST_CACHED = 64 << 20  # bytes of cache files
STORED = 25_000  # characters considered of one store
COMMON = 0.05  # share of the texts that have a language's most frequent word, at least
FREQUENT, TOLD = 256, 6  # words of a collection that are compared, and that are shown

LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_WORD = re.compile(rf"(?<![\w.])[{LATIN}]{{4,30}}(?![\w]|\.\w)")

Vocabulary = Counter[str]  # word -> number of sampled texts with it

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sampled:
    """The vocabulary of a collection with this many points; not sampled again before `rests`."""

    words: Vocabulary
    points: int
    rests: float = 0.0


@dataclass(eq=False)
class Lexicon:
    """The vocabularies of collections. Callers never wait: a missing one is scheduled.

    `texts` yields pages of a sample of a collection's texts. One collection is sampled at a time,
    with a pause after each page as long as the page took. A sample is valid until the collection
    grows or shrinks by a tenth. `folder` caches the samples; `owner` (engine and tenant) is part of
    the file names.
    """

    texts: Callable[[Target], AsyncGenerator[list[str]]]
    folder: Path | None = None
    owner: str = ""
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, _Sampled] = field(default_factory=dict)  # least recently used first
    _wanted: dict[str, Target] = field(default_factory=dict)
    _worker: asyncio.Task[None] | None = None
    tasks: Tasks = field(default_factory=Tasks)

    async def vocabularies(self, targets: Sequence[Target]) -> dict[str, Vocabulary]:
        """Collection -> vocabulary, if sampled; missing and stale ones are scheduled."""
        found: dict[str, Vocabulary] = {}
        for target in targets:
            name = target.collection
            if name not in self._known and (kept := await asyncio.to_thread(self._load, name)):
                self._known.setdefault(name, kept)
            known = self._known[name] = self._known.pop(name, _Sampled(Counter(), -1))
            if not target.failed and self._stale(target, known):
                self._wanted[name] = target
            if known.points >= 0 or known.words:
                found[name] = known.words
        if self._wanted and (self._worker is None or self._worker.done()):
            self._worker = self.tasks.start("The sampling of words", self._work)
        return found

    async def about(
        self, targets: Sequence[Target], stop_words: Callable[[str], Collection[str]]
    ) -> dict[str, str]:
        """Collection -> its most characteristic words, if it has been sampled.

        `stop_words(text)` gives the stop words of the text's language. Collections without a common
        word, which are in another alphabet, are left out.
        """
        found = await self.vocabularies(targets)
        sampled = {name: min(self._known[name].points, MOST_TEXTS) for name in found}
        most = {name: max(words.values(), default=0) for name, words in found.items()}
        names = [name for name, texts in sampled.items() if 0 <= COMMON * texts <= most[name]]
        held = {name: known.words.copy() for name, known in self._known.items()}
        return await asyncio.to_thread(_about, names, held, stop_words)

    def stored(self, collection: str, texts: Sequence[str]) -> None:
        """Add the words of newly stored texts."""
        self._entry(collection).words.update(words_of("\n".join(texts)[:STORED]))

    async def settled(self) -> None:
        """Wait until nothing is being sampled."""
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Stop sampling."""
        await self.tasks.close()

    def _entry(self, name: str) -> _Sampled:
        return self._known.setdefault(name, _Sampled(Counter(), -1))

    def _stale(self, target: Target, known: _Sampled) -> bool:
        drifted = abs(target.points - known.points) > DRIFT * known.points
        return drifted and known.rests <= self.clock()

    async def _work(self) -> None:
        """Sample the scheduled collections, one after the other."""
        while self._wanted:
            target = self._wanted.pop(next(iter(self._wanted)))
            name, rests = target.collection, self.clock() + REST_SECONDS
            self._entry(name).rests = rests
            try:
                sampled = _Sampled(await self._sample(target), target.points, rests)
            except QdrantMcpError as error:
                logger.info("The words of a collection could not be read: %s", error)
            else:
                self._known[name] = sampled
                await asyncio.to_thread(self._save, name, sampled)
            self._forget_unused()
        await asyncio.to_thread(self._delete_oldest)

    async def _sample(self, target: Target) -> Vocabulary:
        counts: Vocabulary = Counter()
        began = self.clock()
        async with aclosing(self.texts(target)) as pages:
            async for page in pages:
                await asyncio.to_thread(tally, counts, page)
                await asyncio.sleep(self.clock() - began)
                began = self.clock()
        return Counter(dict(counts.most_common(MOST_WORDS)))

    def _forget_unused(self) -> None:
        held = sum(len(known.words) for known in self._known.values())
        for name in list(self._known)[:-1]:
            if held <= MOST_HELD:
                return
            held -= len(self._known.pop(name).words)

    def path(self, folder: Path, collection: str) -> Path:
        """The cache file of a collection; its name does not reveal the collection's."""
        named = f"{self.owner}\0{collection}".encode("utf-8", "surrogatepass")
        return folder / f"{blake2b(named, digest_size=20).hexdigest()}.json"

    def _load(self, collection: str) -> _Sampled | None:
        if self.folder is None:
            return None
        with suppress(OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            kept = json.loads(self.path(self.folder, collection).read_bytes())
            counts = {str(word): int(count) for word, count in kept["counts"].items()}
            return _Sampled(Counter(counts), int(kept["points"]))
        return None

    def _save(self, collection: str, sampled: _Sampled) -> None:
        """Write a cache file atomically."""
        if self.folder is None:
            return
        held = json.dumps({"points": sampled.points, "counts": sampled.words})
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self.path(self.folder, collection), held)

    def _delete_oldest(self) -> None:
        """Delete the oldest cache files until the others fit."""
        if self.folder is None:
            return
        with suppress(OSError):
            files = [(file.stat(), file) for file in self.folder.iterdir()]
            held = sum(stat.st_size for stat, _ in files)
            for stat, file in sorted(files, key=lambda one: one[0].st_mtime_ns):
                if held <= MOST_CACHED:
                    return
                file.unlink(missing_ok=True)
                held -= stat.st_size


def words_of(text: str) -> set[str]:
    """The distinct words of a text, of 4 to 30 letters, in lower case."""
    return set(_WORD.findall(lowered(text)))


def lowered(text: str) -> str:
    """The text in lower case, NFKC-normalised."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower()


def tally(counts: Vocabulary, texts: Iterable[str]) -> None:
    """Add the number of `texts` that contain each word.

    If there are too many words, those seen once are dropped.
    """
    for text in texts:
        counts.update(words_of(text))
    if len(counts) > 4 * MOST_WORDS:
        for word in [word for word, count in counts.items() if count == 1]:
            del counts[word]


def _about(
    names: Sequence[str],
    held: Mapping[str, Vocabulary],
    stop_words: Callable[[str], Collection[str]],
) -> dict[str, str]:
    """The characteristic words of collections by class-based tf-idf.

    weight(w) = tf(w) * ln(1 + C / f(w)), where f(w) is the frequency of the word in all collections
    and C the average number of words of a collection (Grootendorst, BERTopic, 2022).
    """
    counts = {name: Counter(dict(words.most_common(FREQUENT))) for name, words in held.items()}
    everywhere = sum(counts.values(), Counter())
    average = everywhere.total() / max(len(counts), 1)
    found: dict[str, str] = {}
    for name in names:
        weights = {w: n * math.log(1 + average / everywhere[w]) for w, n in counts[name].items()}
        for word in weights.keys() & stop_words(" ".join(counts[name])):
            del weights[word]
        if best := sorted(weights, key=lambda word: (-weights[word], word)):
            found[name] = ", ".join(best[:TOLD])
    return found
