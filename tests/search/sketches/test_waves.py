"""Of many collections those are asked that can have the best results."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.search import ranking
from mcp_server_qdrant.search.sketches import waves
from tests.support import either_engine, find, memory_services, remember, states, texts

TOPICS = ["rose", "bread", "printer", "zeppelin", "harbour", "violin", "glacier", "teapot"]
TOPICS += ["lantern", "meadow", "anchor", "copper"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(waves, "FIRST", 3)
    monkeypatch.setattr(waves, "WAVE", 1)
    monkeypatch.setattr(ranking, "POOL", 3)


@pytest.fixture
async def engine(request, tmp_path):
    async with either_engine(getattr(request, "param", "memory"), tmp_path) as found:
        yield found


async def fill(services) -> None:
    for topic in TOPICS:
        told = [f"{topic} {detail}" for detail in ("repair", "history", "prices", "museum")]
        await remember(services, topic, *told)


async def sketched(services) -> None:
    await services.pipeline.understanding.sketches.of(await services.catalog.resolve(["*"]))
    await services.pipeline.understanding.sketches.settled()


async def test_without_sketches_all_are_asked_and_with_them_the_likely_ones(engine):
    async with memory_services(engine=engine, search_limits={"collections": 4}) as services:
        await fill(services)
        before = await find(services, "zeppelin history", "*", limit=1)
        await services.pipeline.understanding.sketches.settled()
        after = await find(services, "zeppelin history", "*", limit=1)

    assert set(states(before)) == {*TOPICS}
    assert texts(after) == texts(before) == ["zeppelin history"]
    assert "zeppelin" in states(after)
    assert len(states(after)) < len(TOPICS)
    assert f"Asked {len(states(after))} of 12 collections." in after.notes
    assert not any(note.startswith("Asked") for note in before.notes)


async def test_a_collection_that_was_written_to_since_is_asked(engine):
    async with memory_services(engine=engine, search_limits={"collections": 4}) as services:
        await fill(services)
        await sketched(services)
        await remember(services, "copper", "zeppelin history in full")
        page = await find(services, "zeppelin history", "*", limit=1)

    assert {"copper", "zeppelin"} <= set(states(page)) < {*TOPICS}


async def test_those_that_are_named_are_always_asked_and_so_are_preferred_ones(engine):
    async with memory_services(
        engine=engine, search_limits={"collections": 4}, priority_order=("anchor",)
    ) as services:
        await fill(services)
        await sketched(services)
        page = await find(services, "zeppelin history", "*", "copper", limit=1)
        every = await find(services, "zeppelin history", *TOPICS, limit=1)

    assert {"anchor", "copper", "zeppelin"} <= set(states(page)) < {*TOPICS}
    assert set(states(every)) == {*TOPICS}


@pytest.mark.parametrize("rare", ["2026-11-12", "zanzibar"])
async def test_the_one_text_that_has_a_rare_word_is_found_in_whichever_collection(engine, rare):
    async with memory_services(engine=engine, search_limits={"collections": 4}) as services:
        await fill(services)
        await remember(services, "copper", *(f"copper part {n} of the mine" for n in range(40)))
        await remember(services, "copper", f"invoice of {rare}")
        await sketched(services)
        page = await find(services, f"{rare} zeppelin", "*", limit=1)

    assert texts(page) == [f"invoice of {rare}"]
    assert len(states(page)) < len(TOPICS)


@pytest.mark.parametrize(
    "asked",
    [
        {"query": '"zeppelin history"'},
        {"query": "zeppelin history", "limit": 100},
        {"query": "zeppelin history", "rerank": True},
        {
            "query": "zeppelin history",
            "query_filter": {"must_not": [{"key": "tags", "match": {"value": "old"}}]},
        },
    ],
)
async def test_all_are_asked_where_a_result_may_be_anywhere_or_the_page_is_not_full(engine, asked):
    async with memory_services(engine=engine, search_limits={"collections": 4}) as services:
        await fill(services)
        await sketched(services)
        asked = {"collections": ("*",), "limit": 1} | asked
        page = await services.pipeline.search(SearchRequest(**asked))

    assert set(states(page)) == {*TOPICS}


async def test_up_to_the_bound_all_are_asked(engine):
    async with memory_services(engine=engine, search_limits={"collections": 12}) as services:
        await fill(services)
        await sketched(services)
        page = await find(services, "zeppelin history", "*", limit=1)

    assert set(states(page)) == {*TOPICS}


def refused(targets: Sequence[Target]) -> Sequence[Sequence[Target]]:
    """The trips of no target."""
    assert not targets
    return []


@pytest.mark.parametrize("engine", ["memory", "edge"], indirect=True)
async def test_small_collections_are_not_asked_for_their_words_before_they_are_searched(engine):
    async with memory_services(engine=engine) as services:
        await fill(services)
        await sketched(services)
        services.pipeline.understanding.terms.probes.engine = SimpleNamespace(trips=refused)
        page = await find(services, "zeppelin history", "*", limit=1)

    assert texts(page) == ["zeppelin history"]
    assert set(states(page).values()) == {"ok"}


@pytest.mark.parametrize("algorithm", ["hybrid", "keyword"])
async def test_a_text_that_another_server_put_in_the_place_of_one_is_found_by_its_new_word(
    engine,
    algorithm,
):
    async with memory_services(engine=engine) as services:
        await fill(services)
        (old,) = await remember(services, "copper", "copper mine of old")
        await sketched(services)
        async with memory_services(engine=engine) as others:
            await remember(others, "copper", "copper xylophone")
        await engine.delete("copper", points_selector=[old.ids[0]])
        page = await find(services, "xylophone", "*", limit=1, algorithm=algorithm)

    assert (texts(page), page.corrections) == (["copper xylophone"], ())
