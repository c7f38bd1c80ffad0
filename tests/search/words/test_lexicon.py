"""Vocabularies made in the background."""

import asyncio
import threading

import pytest

from mcp_server_qdrant.core.datatypes import DenseLeg, Target
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.search.words import lexicon
from mcp_server_qdrant.search.words.lexicon import REST_SECONDS, SLICE, Lexicon, slices
from mcp_server_qdrant.search.words.vocabulary import Vocabulary
from tests.support import Clock


def target(name: str = "notes", points: int = 10, **fields) -> Target:
    return Target(name, points, DenseLeg("d", 4, "cosine", "m"), None, **fields)


class Texts:
    """Collections of texts, in pages of two; reading waits for `gate` where there is one."""

    def __init__(self, **collections: list[str]) -> None:
        self.collections = collections
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.read: list[str] = []
        self.reading = 0

    async def __call__(self, target):
        self.read.append(target.collection)
        self.reading += 1
        assert self.reading == 1  # one at a time
        try:
            if self.gate:
                await self.gate.wait()
            if self.failure:
                raise self.failure
            texts = self.collections[target.collection]
            for first in range(0, len(texts), 2):
                yield texts[first : first + 2]
        finally:
            self.reading -= 1


class Disk:
    """What was saved; loading waits for `gate` where there is one."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Vocabulary, int]] = {}
        self.loads: list[str] = []
        self.gate: threading.Event | None = None

    def load(self, collection):
        self.loads.append(collection)
        if self.gate:
            self.gate.wait()
        return self.kept.get(collection)

    def save(self, collection, vocabulary, points):
        self.kept[collection] = vocabulary, points


class Pauses:
    """Pauses that are over at once, and how long they would have been."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


async def known(lexicon: Lexicon, word: str, *targets: Target) -> list[str]:
    """The collections that have the word now."""
    found = await lexicon.of(targets or [target()])
    return [name for name, several in found.items() if any(word in one for one in several)]


async def sampled(lexicon: Lexicon, *targets: Target) -> None:
    await lexicon.of(targets or [target()])
    await lexicon.settled()


async def test_a_vocabulary_is_not_there_at_first_and_soon_is():
    words = Lexicon(Texts(notes=["boundary layer", "heat", "layer"]), pause=Pauses())

    assert await words.of([target()]) == {}

    await words.settled()
    ((vocabulary,),) = (await words.of([target()])).values()
    assert dict(vocabulary.within("layer", 0)) == {"layer": 2}


async def test_nothing_waits_while_a_collection_is_read():
    texts = Texts(notes=["boundary"])
    texts.gate = asyncio.Event()
    words = Lexicon(texts, pause=Pauses())

    assert await words.of([target()]) == {}
    assert await words.of([target()]) == {}

    texts.gate.set()
    await words.settled()
    assert await known(words, "boundary") == ["notes"]
    assert texts.read == ["notes"]


async def test_collections_are_read_one_after_the_other():
    texts = Texts(a=["alpha"], b=["bravo"], c=["charlie"])
    words = Lexicon(texts, pause=Pauses())
    several = [target(name) for name in "abc"]
    await sampled(words, *several)

    assert texts.read == ["a", "b", "c"]
    assert await known(words, "bravo", *several) == ["b"]


async def test_after_each_slice_there_is_as_long_a_pause_as_it_took():
    clock, pauses = Clock(), Pauses()

    class Slow(Texts):
        async def __call__(self, target):
            async for page in super().__call__(target):
                clock.now += 0.25
                yield page

    long = "wing " * (SLICE // 5)
    words = Lexicon(Slow(notes=[long, long, "heat"]), clock=clock, pause=pauses)
    await sampled(words)

    assert pauses.taken == [0.25, 0.0, 0.25]


@pytest.mark.parametrize(("points", "again"), [(110, 1), (90, 1), (111, 2), (89, 2)])
async def test_a_collection_that_changed_by_more_than_a_tenth_is_read_again(points, again):
    clock = Clock()
    texts = Texts(notes=["boundary"])
    words = Lexicon(texts, clock=clock, pause=Pauses())
    await sampled(words, target(points=100))
    clock.now += REST_SECONDS
    await sampled(words, target(points=points))

    assert len(texts.read) == again


async def test_what_was_known_serves_while_it_is_read_again():
    clock = Clock()
    texts = Texts(notes=["boundary"])
    words = Lexicon(texts, clock=clock, pause=Pauses())
    await sampled(words, target(points=100))
    clock.now += REST_SECONDS
    texts.gate = asyncio.Event()

    assert await known(words, "boundary", target(points=200)) == ["notes"]
    await words.close()


async def test_a_collection_is_not_read_twice_within_half_a_minute():
    clock = Clock()
    texts = Texts(notes=["boundary"])
    words = Lexicon(texts, clock=clock, pause=Pauses())
    for points, seconds in ((1, 0.0), (2, REST_SECONDS - 1), (3, 1.0)):
        clock.now += seconds
        await sampled(words, target(points=points))

    assert len(texts.read) == 2


async def test_a_collection_that_cannot_be_read_is_tried_again_later_and_stops_no_other():
    clock = Clock()
    texts = Texts(notes=["boundary"])
    texts.failure = EngineFailure("down")
    words = Lexicon(texts, clock=clock, pause=Pauses())
    await sampled(words)
    await sampled(words)
    assert (texts.read, await known(words, "boundary")) == (["notes"], [])

    texts.failure = None
    clock.now += REST_SECONDS
    await sampled(words)
    assert await known(words, "boundary") == ["notes"]


async def test_a_sampling_that_dies_is_begun_anew_and_rests_longer_each_time():
    clock, seen = Clock(), []

    async def sleep(seconds: float) -> None:
        seen.append((seconds, *words.tasks.faults))

    texts = Texts(notes=["boundary"], more=["harbour"])
    words = Lexicon(texts, clock=clock, pause=Pauses())
    words.tasks = Tasks(sleep=sleep)
    texts.failure = OverflowError()
    for rest in (REST_SECONDS, 2 * REST_SECONDS, 4 * REST_SECONDS):
        await sampled(words)
        clock.now += rest - 1
        await sampled(words)  # it rests
        clock.now += 1
    assert (texts.read, seen) == (["notes"] * 3, [(1.0, "The sampling of words")] * 3)

    texts.failure = None
    await sampled(words, target(), target("more"))
    assert await known(words, "boundary", target(), target("more")) == ["notes"]


async def test_a_disk_that_raises_what_nobody_foresaw_is_asked_again_and_nothing_waits_for_it():
    async def sleep(_: float) -> None:
        disk.fault = None

    class Broken(Disk):
        fault: Exception | None = ValueError()

        def load(self, collection):
            if self.fault:
                raise self.fault
            return super().load(collection)

    disk = Broken()
    words = Lexicon(Texts(notes=["boundary"]), disk, pause=Pauses())
    words.tasks = Tasks(sleep=sleep)
    await sampled(words)

    assert await known(words, "boundary") == ["notes"]


async def test_a_collection_that_the_catalog_could_not_read_is_not_read():
    texts = Texts(notes=["boundary"])
    await sampled(Lexicon(texts, pause=Pauses()), target(failed=True))

    assert texts.read == []


async def test_what_is_stored_is_known_at_once():
    words = Lexicon(Texts(notes=["boundary"]), pause=Pauses())
    words.stored("notes", ["a zeppelin lands"])
    assert await known(words, "zeppelin") == ["notes"]

    words.stored("notes", ["harbour"])
    assert await known(words, "harbour") == ["notes"]


async def test_what_is_stored_outlives_a_sample_that_does_not_hold_it():
    """A large collection is read in part, and a text may be stored while it is read."""
    texts = Texts(notes=["boundary"])
    texts.gate = asyncio.Event()
    words = Lexicon(texts, pause=Pauses())
    words.stored("notes", ["zeppelin"])
    await words.of([target()])
    await asyncio.sleep(0)
    words.stored("notes", ["harbour"])
    texts.gate.set()
    await words.settled()

    for word in ("boundary", "zeppelin", "harbour"):
        assert await known(words, word) == ["notes"]


async def test_much_that_is_stored_makes_the_collection_be_read_again(monkeypatch):
    monkeypatch.setattr(lexicon, "MOST_STORED", 2)
    clock = Clock()
    texts = Texts(notes=["boundary"])
    words = Lexicon(texts, clock=clock, pause=Pauses())
    await sampled(words)
    words.stored("notes", ["zeppelin harbour"])
    words.stored("notes", ["castle"])  # full until the next sample
    assert await known(words, "castle") == []

    clock.now += REST_SECONDS
    texts.collections["notes"] = ["castle"]
    await sampled(words)
    assert await known(words, "castle") == ["notes"]
    assert await known(words, "harbour") == ["notes"]


async def test_a_vocabulary_is_kept_on_disk_and_serves_the_next_process_at_once():
    disk = Disk()
    await sampled(Lexicon(Texts(notes=["boundary"]), disk, pause=Pauses()), target(points=7))
    assert disk.kept["notes"][1] == 7

    texts = Texts(notes=[])
    words = Lexicon(texts, disk, pause=Pauses())
    assert await known(words, "boundary", target(points=7)) == ["notes"]
    await words.settled()
    assert texts.read == []


async def test_the_disk_is_looked_at_once():
    disk = Disk()
    words = Lexicon(Texts(a=[], b=["bravo"]), disk, pause=Pauses())
    await sampled(words, target("a"))
    await sampled(words, target("a"), target("b"))

    assert disk.loads == ["a", "b"]


async def test_a_vocabulary_from_disk_is_made_anew_where_the_collection_grew_since():
    disk = Disk()
    disk.kept["notes"] = Vocabulary.of({"boundary": 1}), 10
    words = Lexicon(Texts(notes=["zeppelin"]), disk, pause=Pauses())

    assert await known(words, "boundary", target(points=20)) == ["notes"]
    await words.settled()
    assert await known(words, "zeppelin", target(points=20)) == ["notes"]
    assert disk.kept["notes"][1] == 20


async def test_a_disk_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(lexicon, "LOAD_SECONDS", 0.001)
    disk = Disk()
    disk.kept["notes"] = Vocabulary.of({"boundary": 1}), 10
    disk.gate = threading.Event()
    texts = Texts(notes=["zeppelin"])
    words = Lexicon(texts, disk, pause=Pauses())
    try:
        assert await words.of([target()]) == {}
        assert await words.of([target()]) == {}
    finally:
        disk.gate.set()
    await asyncio.wait(words.tasks._running)

    assert await known(words, "boundary") == ["notes"]
    assert texts.read == []


async def test_the_words_of_collections_not_used_for_long_are_forgotten(monkeypatch):
    monkeypatch.setattr(lexicon, "MOST_HELD", 5)
    words = Lexicon(
        Texts(a=["alpha adam aaron"], b=["bravo bert"], c=["charlie conrad"]), pause=Pauses()
    )
    await sampled(words, target("a"))
    await sampled(words, target("b"))
    await sampled(words, target("c"))

    assert list(words._entries) == ["b", "c"]


async def test_closing_ends_what_is_under_way():
    texts = Texts(notes=["boundary"])
    texts.gate = asyncio.Event()
    words = Lexicon(texts, pause=Pauses())
    await words.of([target()])
    await asyncio.sleep(0)
    await words.close()

    assert texts.reading == 0
    await Lexicon(texts).close()  # nor is there anything to end where nothing began


def test_texts_are_counted_in_slices_and_cut():
    long = "x" * (SLICE + 5)

    assert [list(map(len, some)) for some in slices(["a", long, "b", "c"])] == [[1, SLICE], [1, 1]]
    assert list(slices([])) == []
