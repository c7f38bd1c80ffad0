"""The layout by neighbours: similar texts are close, and what comes later is put among its like."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mcp_server_qdrant.core.datatypes import DenseLeg, Sample, Target
from mcp_server_qdrant.projection import map as maps
from mcp_server_qdrant.projection.neighbours import (
    NONE,
    find_regions,
    lay_out_neighbours,
    place_among,
)
from mcp_server_qdrant.projection.panels import lay_out, normalise
from mcp_server_qdrant.projection.shapes import Neighbours, Panel
from tests.support import corpus, memory_services, remember

COUNT, SIZE = 60, 8
TOPICS = ("wing lift", "compiler grammar", "protein gene")
CORNERS = np.array([[0, 0], [40, 0], [0, 40]], np.float32)
WANTED = pytest.mark.skipif(not maps.is_installed(), reason="the extra map is missing")


def vectors(count: int = COUNT) -> np.ndarray:
    """Points around four corners, in turn."""
    chance = np.random.default_rng(5)
    return normalise(
        np.eye(SIZE)[np.arange(count) % 4] + chance.normal(scale=0.05, size=(count, SIZE))
    )


def panel(made: np.ndarray, texts: Sequence[str] | None = None) -> Panel:
    names = tuple(f"t{number}" for number in range(len(made)))
    drawn = Sample(
        *(tuple(range(len(made))), names, names, names, tuple(texts or names)),
        facts=({},) * len(made),
        vectors=made,
    )
    return lay_out([(Target("a", 0, DenseLeg("d", SIZE, "cosine", "m"), None), drawn)]).panels[0]


@pytest.fixture
def laid() -> Panel:
    """Four places for four corners."""
    corners = np.array([[0, 0], [0, 9], [9, 0], [9, 9]], np.float32)
    nothing = np.full(COUNT, 255, np.uint8)
    places = corners[np.arange(COUNT) % 4]
    return replace(panel(vectors()), neighbours=Neighbours(places, nothing, ()))


@pytest.fixture
def go(monkeypatch) -> dict[int, asyncio.Event]:
    """Layouts without the process that makes them: number of points -> what one waits for."""
    events = {30: asyncio.Event(), 31: asyncio.Event()}

    async def places(panel: Panel) -> Neighbours:
        await events[panel.count].wait()
        nothing = np.full(panel.count, 255, np.uint8)
        return Neighbours(np.zeros((panel.count, 2), np.float32), nothing, ())

    monkeypatch.setattr(maps, "is_installed", lambda: True)
    monkeypatch.setattr(maps, "lay_out_neighbours", places)
    return events


def test_a_further_vector_lies_among_its_like(laid):
    corner = laid.basis.project(np.eye(SIZE)[1])

    assert place_among(laid, corner) == [0, 9]
    assert place_among(panel(vectors()), corner) is None


@pytest.mark.usefixtures("real_hosts")
async def test_regions_are_true_to_the_vectors_and_named_by_their_texts():
    pytest.importorskip("openTSNE")
    topics = ("wing lift", "compiler grammar", "protein gene", "court ruling")
    found = await lay_out_neighbours(
        panel(vectors(240), [f"Study of a {topics[n % 4]}" for n in range(240)])
    )

    assert {one.name for one in found.regions} <= set(topics)
    assert len(found.regions) >= 3
    for number, one in enumerate(found.regions):
        inside = np.flatnonzero(found.region_of == number)
        assert len(inside) == one.size
        assert one.point in inside
        assert (inside % 4 == topics.index(one.name)).mean() >= 0.95


async def test_a_map_that_changed_is_laid_out_anew_and_the_old_one_no_further(go):
    async with memory_services() as services:
        await remember(services, "notes", *corpus(30))
        waiting = asyncio.create_task(services.projector.view(("notes",), patience=60))
        while not any(entry.laying for entry in services.projector.shelf.maps.values()):
            await asyncio.sleep(0)
        (old,) = services.projector.shelf.maps.values()
        await remember(services, "notes", "one more about copper")
        go[31].set()
        seen = await services.projector.view(("notes",), patience=60)

        assert old.laying.cancelled()
        assert len(seen.map.panels[0].neighbours.places) == 31
        assert (await waiting).map.coming


async def test_a_stream_of_texts_does_not_put_the_layout_off(go):
    async with memory_services() as services:
        await remember(services, "notes", *corpus(30))
        seen = await services.projector.view(("notes",))
        assert (seen.map.coming, seen.map.panels[0].neighbours) == (True, None)
        assert "takes a minute or two" in seen.map.notes[-1]
        (first,) = services.projector.shelf.maps.values()
        await remember(services, "notes", "one more about copper")
        await services.projector.view(("notes",))
        go[30].set()
        await first.laying
        seen = await services.projector.view(("notes",))

        assert (seen.map.coming, len(seen.map.panels[0].neighbours.places)) == (True, 30)
        go[31].set()
        later = await services.projector.view(("notes",), patience=60)
        assert len(later.map.panels[0].neighbours.places) == 31


@pytest.mark.usefixtures("real_hosts")
async def test_a_layout_that_fails_is_a_note_and_the_map_is_there(monkeypatch):
    monkeypatch.setattr(maps, "is_installed", lambda: True)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    async with memory_services() as services:
        await remember(services, "notes", *corpus(30))
        seen = await services.projector.view(("notes",), patience=60)

        assert seen.map.notes[-1] == "The layout by neighbours failed."
        assert seen.map.panels[0].count == 30


async def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(maps, "is_installed", lambda: False)
    async with memory_services() as services:
        await remember(services, "notes", *corpus(30))
        seen = await services.projector.view(("notes",))

        assert seen.map.coming is False
        assert "install opentsne scikit-learn" in seen.map.notes[-1]


def scattered(count: int) -> tuple[np.ndarray, list[str]]:
    """Points around three corners with a phrase each, and a tenth of them anywhere."""
    chance = np.random.default_rng(3)
    corner = np.arange(count) % 3
    places = CORNERS[corner] + chance.normal(size=(count, 2))
    places[::10] = chance.uniform(-200, 200, size=places[::10].shape)
    texts = [f"The study of {TOPICS[at]}" for at in corner]
    texts[::10] = ["Nothing of it"] * len(texts[::10])
    return places.astype(np.float32), texts


@WANTED
def test_each_blob_is_one_region_named_inside_it_by_its_own_words():
    places, texts = scattered(600)
    made = find_regions(places, texts)
    region_of, found = made.region_of, made.regions

    assert {one.name for one in found} == set(TOPICS)
    assert [one.size for one in found] == sorted((one.size for one in found), reverse=True)
    for number, one in enumerate(found):
        corner = CORNERS[TOPICS.index(one.name)]
        far = np.abs(places[region_of == number] - corner).max(axis=1)
        assert one.size == len(far) >= 170
        assert (far < 6).mean() >= 0.95
        assert np.abs(places[one.point] - corner).max() < 1


@WANTED
def test_what_holds_nowhere_together_has_no_name():
    places = np.stack(np.meshgrid(np.arange(20), np.arange(20)), axis=-1).reshape(-1, 2)
    found = find_regions(places.astype(np.float32), ["the same words"] * 400)

    assert found.regions == ()
    assert (found.region_of == NONE).all()
