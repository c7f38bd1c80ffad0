"""Maps over whole services: the search on them, what is kept, what fails."""

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.context import WRITE, Caller, calling
from mcp_server_qdrant.core.errors import BackendError, EngineFailure
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.projection import map as maps
from mcp_server_qdrant.projection.map import CACHED
from mcp_server_qdrant.projection.panels import normalise
from mcp_server_qdrant.projection.shapes import View
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    corpus,
    dense,
    either_engine,
    foreign,
    memory_engine,
    memory_services,
    remember,
)


@pytest.fixture
async def engine():
    async with memory_engine() as engine:
        yield engine


@pytest.fixture
def encoder():
    return FakeEncoder()


@pytest.fixture
async def services(engine, encoder):
    async with memory_services(encoder, engine=engine) as services:
        yield services


async def view(services: Services, *collections: str, query: str | None = None, **more) -> View:
    search = SearchRequest(query=query, collections=collections or None) if query else None
    return await services.projector.view(collections or None, search=search, **more)


async def test_query_and_hits_lie_where_their_vectors_do(engine_folder):
    async with (
        either_engine("edge", engine_folder) as engine,
        memory_services(engine=engine) as services,
    ):
        await remember(services, "notes", *corpus(40))
        seen = await view(services, "notes", query="copper ember", limit=10)

        (panel,) = seen.map.panels
        assert panel.count == 10
        assert seen.queries[0].position == pytest.approx(
            panel.basis.project(dense("copper ember"))[:3].tolist(), abs=1e-5
        )
        drawn = [one.document.id in panel.groups[0].points.ids for _, one, _ in seen.hits]
        assert set(drawn) == {True, False}
        for _, one, place in seen.hits:
            vector = normalise([dense(one.snippet)])[0]
            assert place.position == pytest.approx(
                panel.basis.project(vector)[:3].tolist(), abs=1e-5
            )
            assert place.panel == 0


async def test_a_panel_per_model_and_keywords_only_told():
    big = FakeEncoder("fake/big", size=32)
    async with (
        memory_engine() as engine,
        memory_services(FakeEncoder(), big, engine=engine) as services,
    ):
        await remember(services, "notes", *corpus(5))
        named = {"embedding_model": "fake/big"}
        params = models.VectorParams(size=32, distance=models.Distance.COSINE)
        await foreign(
            *(engine, "other", {1: {"text": "alpha"}, 2: {"text": "beta"}}),
            vectors={"v": params},
            metadata=named,
            values=lambda point: {"v": dense(f"w{point}", 32)},
        )
        await foreign(engine, "words", {1: {"text": "alpha"}}, sparse={"bm25": SPARSE})
        seen = await view(services, query="alpha")

        assert [[g.collection for g in panel.groups] for panel in seen.map.panels] == [
            ["notes"],
            ["other"],
        ]
        assert [one.panel for one in seen.queries] == [0, 1]
        assert "words: keywords only: it has no dense vector" in seen.map.notes
        others = [place for _, one, place in seen.hits if one.document.collection == "other"]
        assert {place.panel for place in others} <= {1}


SPARSE = models.SparseVectorParams(modifier=models.Modifier.IDF)


async def test_a_hit_in_no_collection_of_the_map_has_no_place(services):
    await remember(services, "notes", *corpus(5))
    await remember(services, "more", "alpha omega")
    search = SearchRequest(query="alpha omega", collections=("*",))
    seen = await services.projector.view(("notes",), search=search)

    assert seen.page.results[0].document.collection == "more"
    assert seen.places[0] is None
    assert seen.notes == ("1 result not on the map: in another collection, or without a vector.",)


async def test_the_same_state_is_drawn_once_also_for_those_who_ask_at_the_same_time(services):
    await remember(services, "notes", *corpus(20))
    asked = (view(services, "notes", query=one, limit=10) for one in ("ember", "copper"))
    first, second = await asyncio.gather(*asked)
    again = await view(services, "notes", query="copper", limit=10)

    assert again.map is second.map is first.map


async def test_what_this_process_writes_shows_on_the_next_map(services):
    await remember(services, "notes", *corpus(5))
    first = await view(services, "notes")
    await remember(services, "notes", "beta")
    second = await view(services, "notes")
    await remember(services, "notes", "beta", title="now with a title")  # as many as before
    third = await view(services, "notes")

    assert [len(seen.map.panels[0].groups[0].points.ids) for seen in (first, second)] == [5, 6]
    assert "now with a title" in third.map.panels[0].groups[0].points.titles


async def test_what_another_process_writes_is_seen(services):
    newest = ["2026-01-01T00:00:00Z"]

    async def changed_at(name: str) -> str | None:
        return newest[0]

    services.projector.catalog = Known(services.catalog, changed_at)
    await remember(services, "notes", *corpus(5))
    first = (await view(services, "notes")).map
    assert (await view(services, "notes")).map is first
    newest[0] = "2026-01-02T00:00:00Z"
    assert (await view(services, "notes")).map is not first


async def test_the_last_maps_are_kept(services):
    await remember(services, "notes", *corpus(9))
    seen = [(await view(services, "notes", limit=limit)).map for limit in range(1, CACHED + 2)]

    assert (await view(services, "notes", limit=CACHED + 1)).map is seen[-1]
    assert (await view(services, "notes", limit=1)).map is not seen[0]


async def test_all_tenants_together_keep_so_many_maps_and_none_is_taken_from_who_waits():
    async with memory_services(
        tenant_field="tenant", tenant_claim="team", tenant_id="0"
    ) as services:
        shared, tenants = services.shared, [str(n) for n in range(CACHED + 5)]
        callers = [Caller(name, frozenset({WRITE}), {"team": name}) for name in tenants]

        async def seen(who: Caller) -> View:
            with calling(who):
                own = shared.services_of_caller()
                await remember(own, "notes", "alpha", "beta")
                return await view(own, "notes")

        views = await asyncio.gather(*map(seen, callers))

        assert [one.map.panels[0].count for one in views] == [2] * len(callers)
        with calling(callers[0]):
            await view(shared.services_of_caller(), "notes")
        assert len(shared.maps.maps) <= CACHED


async def test_one_layout_is_made_at_a_time_whoever_asked_for_it(services, monkeypatch):
    running = most = 0

    async def slow(panel):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        raise BackendError("no layout")

    monkeypatch.setattr(maps, "is_installed", lambda: True)
    monkeypatch.setattr(maps, "lay_out_neighbours", slow)
    await remember(services, "notes", *corpus(30))
    own = [Services(services.shared, None) for _ in range(4)]
    await asyncio.gather(*(view(one, "notes", patience=60) for one in own))

    assert most == 1


@dataclass
class Known:
    """A catalog whose newest changes the test tells."""

    catalog: Any
    changed_at: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)


async def test_one_that_gives_up_does_not_take_the_map_from_others(services):
    await remember(services, "notes", *corpus(5))
    patient = asyncio.ensure_future(view(services, "notes"))
    hasty = asyncio.ensure_future(view(services, "notes"))
    await asyncio.sleep(0)
    hasty.cancel()

    assert (await patient).map.panels[0].count == 5


async def test_a_broken_collection_is_named_and_the_others_are_drawn(engine, services):
    await remember(services, "fine", *corpus(5))
    await remember(services, "notes", *corpus(5))
    await services.catalog.resolve(None)
    engine.broken["notes"] = EngineFailure("It is damaged.")
    seen = await view(services)

    assert [g.collection for g in seen.map.panels[0].groups] == ["fine"]
    assert seen.map.notes == ("notes: It is damaged.",)


async def test_where_nothing_can_be_read_or_a_map_fails_it_is_an_error_and_tried_again(
    engine, services
):
    await remember(services, "notes", *corpus(5))
    await services.catalog.resolve(None)
    engine.down = EngineFailure("It is damaged.")
    with pytest.raises(BackendError, match=r"for the map: notes: It is damaged\."):
        await view(services)
    engine.down = None

    assert (await view(services)).map.panels[0].count == 5

    await remember(services, "notes", "another")
    drawer = services.projector.drawer
    services.projector.drawer = None
    with pytest.raises(AttributeError):
        await view(services, "notes")
    services.projector.drawer = drawer

    assert (await view(services, "notes")).map.panels[0].count == 6


async def test_a_hit_whose_vector_cannot_be_read_has_no_place(engine, services):
    await remember(services, "notes", *corpus(30))
    first = await view(services, "notes", limit=2)
    retrieve = engine.client.retrieve

    async def failing(*args, with_vectors=False, **kwargs):
        if with_vectors:
            raise EngineFailure("no vectors today")
        return await retrieve(*args, **kwargs)

    engine.client.retrieve = failing
    seen = await view(services, "notes", query="ember", limit=2)

    assert seen.map is first.map
    assert len(seen.places) > 2
    assert seen.places.count(None) >= len(seen.places) - 2
    assert "not on the map: in another collection, or without a vector." in seen.notes[-1]


async def test_without_the_model_the_hits_are_placed_and_the_query_is_not(encoder, services):
    await remember(services, "notes", *corpus(9))
    encoder.be("failed")
    seen = await view(services, "notes", query="ember")

    assert seen.queries == ()
    assert seen.places[0] is not None
    assert seen.notes[0].startswith("The query is not on the map: ")


async def test_a_misspelled_query_lies_where_the_corrected_one_does(services):
    await remember(services, "notes", *corpus(40))
    await services.describe_collections(["notes"])
    await services.lexicon.settled()
    wrong = await view(services, "notes", query="bridge of copperr")
    right = await view(services, "notes", query="bridge of copper")

    assert wrong.page.corrections
    assert wrong.queries[0].position == right.queries[0].position


async def test_positions_are_finite_whatever_is_asked(engine, services):
    await foreign(
        *(engine, "notes", {n: {"text": "same"} for n in range(20)}),
        vectors={"v": COSINE},
        values=lambda n: {"v": dense("same")},
    )
    seen = await view(services, "notes", query="other words")

    assert np.isfinite(seen.map.panels[0].reduced).all()
    assert np.isfinite(seen.queries[0].position).all()
