"""Sketches in the background, in memory and on disk."""

import asyncio
import math
from typing import Any

import numpy as np

from mcp_server_qdrant.core.datatypes import DenseLeg, Target
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.core.maps import Drawn
from mcp_server_qdrant.search.sketches.disk import FILE, SketchCache
from mcp_server_qdrant.search.sketches.keeper import COMPARED_SECONDS, REST_SECONDS, Sketches
from tests.support import Clock


def target(name: str, points: int = 4, model: str = "m") -> Target:
    return Target(name, points, DenseLeg("d", 2, "cosine", model), None)


class Draw:
    """Draws the same points of each collection, and counts."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.broken: set[str] = set()

    async def __call__(self, of: Target, count: int) -> Drawn:
        self.drawn.append(of.collection)
        if of.collection in self.broken:
            raise EngineFailure("damaged")
        vectors = np.array([[1.0, 0.0]] * 4, np.float32)
        names = (of.collection,) * 4
        letters = ("letters",) * 4
        return Drawn((1, 2, 3, 4), names, letters, letters, ({},) * 4, vectors)


async def no_probe(asked: Any) -> list[Any]:
    return [{} for _ in asked]


async def no_pause(_: float) -> None:
    pass


def keeper(
    draw: Draw,
    disk: SketchCache | None = None,
    clock: Clock | None = None,
    seconds: float = math.inf,
) -> Sketches:
    return Sketches(draw, no_probe, lambda word: [1], disk, seconds, clock or Clock(), no_pause)


async def held(sketches: Sketches, *targets: Target) -> set[str]:
    """The sketches that are there, after those that are due were drawn."""
    await sketches.of(targets)
    await sketches.settled()
    found = {*await sketches.of(targets)}
    await sketches.settled()
    return found


async def test_a_sketch_serves_while_points_model_and_texts_are_the_same():
    draw, clock = Draw(), Clock()
    sketches = keeper(draw, clock=clock)

    assert await sketches.of([target("a")]) == {}  # nobody waits
    assert await held(sketches, target("a"), target("b")) == {"a", "b"}
    assert draw.drawn == ["a", "b"]
    for other in (target("a", points=5), target("a", model="n")):
        assert await sketches.of([other]) == {}
    sketches.changed("b")
    assert {*await sketches.of([target("a"), target("b")])} == {"a"}
    assert draw.drawn == ["a", "b"], "they rest"

    clock.now += REST_SECONDS
    assert await held(sketches, target("a"), target("b")) == {"a", "b"}
    assert draw.drawn == ["a", "b", "b"]


async def test_what_cannot_be_drawn_rests_and_the_others_are_drawn():
    draw = Draw()
    draw.broken = {"a"}

    assert await held(keeper(draw), target("a"), target("b")) == {"b"}
    assert draw.drawn == ["a", "b"]


async def test_what_is_written_while_it_is_drawn_is_not_kept(tmp_path):
    draw = Draw()
    sketches = keeper(draw, SketchCache(tmp_path, "e"))

    async def drawn(of: Target, count: int) -> Drawn:
        found = await draw(of, count)
        sketches.changed("a")
        return found

    sketches.draw = drawn
    assert await held(sketches, target("a")) == set()
    await sketches.close()
    assert SketchCache(tmp_path, "e").load() == {}


async def test_what_is_written_while_it_is_saved_is_not_kept(tmp_path):
    disk = SketchCache(tmp_path, "e")
    sketches = keeper(Draw(), disk)
    save = disk.save

    def saving(*row: Any) -> None:
        async def written() -> None:
            drawing = {*sketches.tasks._running}
            sketches.changed("a")
            await asyncio.wait(sketches.tasks._running - drawing)

        asyncio.run_coroutine_threadsafe(written(), loop).result()
        save(*row)

    loop, disk.save = asyncio.get_running_loop(), saving
    assert await held(sketches, target("a")) == set()
    await sketches.close()
    assert SketchCache(tmp_path, "e").load() == {}


async def test_sketches_outlast_the_server_but_not_a_write_and_are_one_engines_own(tmp_path):
    first = keeper(Draw(), SketchCache(tmp_path, "e"))
    await held(first, target("a"), target("b"))
    draw = Draw()
    second = keeper(draw, SketchCache(tmp_path, "e"))

    assert {*await second.of([target("a"), target("b")])} == {"a", "b"}
    assert (await second.about([target("a")])) == {"a": "letters"}
    assert await keeper(Draw(), SketchCache(tmp_path, "f")).of([target("a")]) == {}
    assert draw.drawn == []
    assert b"letters" in (tmp_path / FILE).read_bytes()

    second.changed("a")
    await second.settled()
    await _forgotten(second)
    third = keeper(Draw(), SketchCache(tmp_path, "e"))
    assert {*await third.of([target("a"), target("b")])} == {"b"}


async def test_what_another_process_wrote_to_is_dropped_and_what_it_drew_is_taken_over(tmp_path):
    clock, draw = Clock(), Draw()
    ours = keeper(draw, SketchCache(tmp_path, "e"), clock)
    their_clock = Clock()
    theirs = keeper(Draw(), SketchCache(tmp_path, "e"), their_clock)
    both = [target("a"), target("b")]
    await held(ours, *both)
    assert {*await theirs.of(both)} == {"a", "b"}
    for _ in range(2):  # also the second time
        theirs.changed("a")
        await _forgotten(theirs)
        assert {*await ours.of(both)} == {"a", "b"}
        await compared(ours, clock)
        assert {*await ours.of(both)} == {"b"}
        their_clock.now += REST_SECONDS
        await held(theirs, *both)
        await compared(ours, clock)
        assert {*await ours.of(both)} == {"a", "b"}
    assert draw.drawn == ["a", "b"]


async def compared(sketches: Sketches, clock: Clock) -> None:
    """Let time pass until the disk is looked at again."""
    clock.now += COMPARED_SECONDS
    await sketches.of([target("b")])
    await _forgotten(sketches)


async def test_what_was_drawn_before_another_process_wrote_is_not_kept(tmp_path):
    theirs = keeper(Draw(), SketchCache(tmp_path, "e"))
    draw = Draw()
    ours = keeper(draw, SketchCache(tmp_path, "e"))

    async def drawn(of: Target, count: int) -> Drawn:
        found = await draw(of, count)
        theirs.changed("a")
        await _forgotten(theirs)
        return found

    ours.draw = drawn
    assert await held(ours, target("a")) == set()
    await ours.close()
    assert SketchCache(tmp_path, "e").load() == {}


async def test_a_fault_in_one_collection_leaves_the_others_to_be_drawn():
    async def drawn(of: Target, count: int) -> Drawn:
        if of.collection == "a":
            raise ZeroDivisionError
        return await Draw()(of, count)

    sketches = keeper(Draw())
    sketches.draw = drawn
    assert await held(sketches, target("a"), target("b")) == {"b"}


async def test_an_old_sketch_serves_while_a_new_one_is_drawn():
    clock, draw = Clock(), Draw()
    sketches = keeper(draw, clock=clock, seconds=600)
    await held(sketches, target("a"))
    clock.now += 600

    assert {*await sketches.of([target("a")])} == {"a"}
    await sketches.settled()
    assert await held(sketches, target("a")) == {"a"}
    assert draw.drawn == ["a", "a"]


async def _forgotten(sketches: Sketches) -> None:
    running = [*sketches.tasks._running]
    for task in running:
        await task


async def test_a_damaged_row_is_drawn_again(tmp_path):
    cache = SketchCache(tmp_path, "e")
    await held(keeper(Draw(), cache), target("a"))
    cache._file.once(lambda file: file.execute("UPDATE sketches SET sketch = sketch || 'x'"))

    assert cache.load() == {}
