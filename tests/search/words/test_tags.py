"""Words of the query that are tags of a collection."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from mcp_server_qdrant.core.datatypes import DenseLeg, Target
from mcp_server_qdrant.core.errors import EngineTimeout
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.search.words import tags as module
from mcp_server_qdrant.search.words.tags import (
    CACHE_SECONDS,
    TagIndex,
    TagMatch,
    group_by_name,
    match_tags,
    word_runs,
)
from tests.support import Clock, find, memory_engine, memory_services, remember, texts

LEG = DenseLeg("v", 4, "cosine", "m")
WORDS = {"apollo": 1, "plan": 2, "home": 3, "lab": 4}


def tokens(text: str) -> list[int]:
    return [WORDS[word] for word in text.split() if word in WORDS]


def target(name: str = "c", points: int = 1) -> Target:
    return Target(name, points, LEG, None)


class Facets:
    """The tags of collections; `gate` holds an answer back, `failing` fails it."""

    def __init__(self, **tags: list[str]) -> None:
        self.held = tags
        self.asked: list[str] = []
        self.gate: asyncio.Event | None = None
        self.failing = False

    async def __call__(self, collection: str, limit: int) -> list[tuple[str, str]]:
        self.asked.append(collection)
        found = [("tags", tag) for tag in self.held.get(collection, [])]
        if self.gate is not None:
            await self.gate.wait()
        if self.failing:
            raise EngineTimeout("late")
        return found[:limit]


async def settle(index: TagIndex) -> None:
    """Let what is under way end."""
    await asyncio.gather(*index.tasks._running)


def test_words_and_runs_of_up_to_three_can_be_tags():
    assert word_runs("The home-lab plan now") == {
        "the": {0},
        "the home": {0, 1},
        "the home lab": {0, 1, 2},
        "home": {1},
        "home lab": {1, 2},
        "home lab plan": {1, 2, 3},
        "lab": {2},
        "lab plan": {2, 3},
        "lab plan now": {2, 3, 4},
        "plan": {3},
        "plan now": {3, 4},
        "now": {4},
    }
    assert word_runs("?") == {}


def test_a_long_query_costs_no_more_than_its_first_words():
    assert len(word_runs(" ".join(f"w{n}" for n in range(5000)))) == 3 * 64 - 3


def test_the_match_holds_every_spelling_and_where_it_stands():
    known = group_by_name([("tags", "Home-Lab"), ("metadata.tags", "home lab"), ("tags", "zeus")])

    assert match_tags(word_runs("my home lab"), known) == TagMatch(
        (("tags", "Home-Lab"), ("metadata.tags", "home lab")), frozenset({"home lab"}), 1.0
    )
    assert match_tags(word_runs("laboratory"), known) is None


@pytest.mark.parametrize(
    ("query", "boost"),
    [("a b", 1.0), ("a b c", 1.5), ("a a a", 1.5), ("x y z w", 1.5), ("x y z", 1.0), ("a", 1.0)],
)
def test_three_words_that_are_tags_count_more(query, boost):
    known = group_by_name([("tags", tag) for tag in ("a", "b", "c", "x y", "z w")])
    found = match_tags(word_runs(query), known)

    assert found is not None
    assert found.boost == boost


async def test_tags_are_remembered_for_a_minute():
    facets, clock = Facets(c=["apollo"]), Clock()
    index = TagIndex(facets, tokens, clock)

    for _ in range(3):
        assert await index.named("apollo", [target()]) == {
            "c": TagMatch((("tags", "apollo"),), frozenset({"apollo"}))
        }
    assert facets.asked == ["c"]

    facets.held["c"] = ["zeus"]
    clock.now += CACHE_SECONDS
    assert await index.named("apollo", [target()]) == {}
    assert facets.asked == ["c", "c"]


async def test_those_of_before_serve_while_the_engine_is_slow_and_are_asked_for_once(monkeypatch):
    facets, clock = Facets(c=["apollo"]), Clock()
    index = TagIndex(facets, tokens, clock)
    await index.named("apollo", [target()])
    clock.now += CACHE_SECONDS
    facets.gate = asyncio.Event()
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)

    for _ in range(3):
        assert await index.named("apollo", [target()])
    facets.gate.set()
    await settle(index)

    assert facets.asked == ["c", "c"]


async def test_a_first_search_waits_a_moment_and_then_goes_without(monkeypatch):
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    facets = Facets(c=["apollo"])
    facets.gate = asyncio.Event()
    index = TagIndex(facets, tokens)

    assert await index.named("apollo", [target()]) == {}
    facets.gate.set()
    await settle(index)
    assert set(await index.named("apollo", [target()])) == {"c"}
    assert facets.asked == ["c"]


async def test_an_answer_from_before_a_store_does_not_count(monkeypatch):
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    facets = Facets(c=[])
    facets.gate = asyncio.Event()
    index = TagIndex(facets, tokens, Clock())
    assert await index.named("zeus", [target()]) == {}

    facets.held["c"] = ["zeus"]
    index.changed("c")
    facets.gate.set()
    await settle(index)
    monkeypatch.setattr(module, "WAIT_SECONDS", 5)

    assert set(await index.named("zeus", [target()])) == {"c"}


async def test_where_tags_cannot_be_had_there_are_none_or_those_of_before():
    facets, clock = Facets(c=["apollo"]), Clock()
    facets.failing = True
    index = TagIndex(facets, tokens, clock)
    assert await index.named("apollo", [target()]) == {}

    facets.failing = False
    clock.now += CACHE_SECONDS
    await index.named("apollo", [target()])
    await settle(index)
    facets.failing = True
    clock.now += CACHE_SECONDS
    await index.named("apollo", [target()])
    await settle(index)

    assert set(await index.named("apollo", [target()])) == {"c"}


async def test_a_look_up_that_dies_is_begun_anew_and_told_of():
    told = []

    async def sleep(_: float) -> None:
        told.extend(index.tasks.faults.values())
        index.facets = facets

    async def stumble(collection, limit):
        raise ValueError("of nobody's making")

    facets = Facets(c=["apollo"])
    index = TagIndex(stumble, tokens)
    index.tasks = Tasks(sleep=sleep)

    assert set(await index.named("apollo", [target()])) == {"c"}
    assert told == ["The look-up of tags stopped: an unexpected ValueError; it starts again in 1 s"]


async def test_nothing_is_asked_of_collections_that_are_empty_or_not_searched():
    facets = Facets(c=["apollo"])
    index = TagIndex(facets, tokens)

    assert await index.named("apollo", [target(points=0), Target("d", 9, None, None)]) == {}
    assert await index.named("??", [target()]) == {}
    assert facets.asked == []


async def test_closing_ends_what_is_under_way(monkeypatch):
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    facets = Facets(c=["apollo"])
    facets.gate = asyncio.Event()
    index = TagIndex(facets, tokens)
    await index.named("apollo", [target()])

    (task,) = index.tasks._running
    await index.close()
    await asyncio.wait([task])

    assert task.cancelled()


# The whole way, on both engines

LOOKALIKES = {
    "apollo": "Release checklist: freeze, tag, build, upload, tell everyone.",
    "zeus": "Release checklist as apollo has it: freeze, tag, build, upload, tell.",
    "hermes": "Release checklist of the project: freeze, tag, build, upload, tell everyone.",
}


@pytest.fixture(params=["edge", "memory"])
def services(request, tmp_path):
    """The services over either engine."""

    @asynccontextmanager
    async def opened(**values):
        if request.param == "memory":
            async with memory_engine() as engine, memory_services(engine=engine, **values) as made:
                yield made, engine
            return
        client = await EdgeClient.open(tmp_path, timeout=20)
        local = {"qdrant_url": None, "qdrant_local_path": tmp_path}
        try:
            async with memory_services(engine=client, **local | values) as made:
                yield made, client
        finally:
            await client.close()

    return opened


@pytest.mark.parametrize("together", [True, False], ids=["one collection", "several"])
async def test_a_query_that_names_a_project_finds_its_notes_before_look_alikes(services, together):
    """One of the others even mentions the name, and its own text does not."""
    async with services() as (made, _):
        for n in range(8):
            await remember(made, "notes", f"Meeting number {n} about the garden fence.")
        for project, text in LOOKALIKES.items():
            name = "notes" if together else f"of-{project}"
            await remember(made, name, text, tags=[project.title()])
        found = {
            project: texts(await find(made, f"{project} release checklist", "*", limit=3))
            for project in LOOKALIKES
        }

    assert {project: shown[0] for project, shown in found.items()} == LOOKALIKES


async def test_stored_tags_count_at_the_next_search(services):
    async with services() as (made, _):
        await remember(made, "notes", "freeze and upload", tags=["zeus"])
        before = await find(made, "apollo upload", "notes", explain=True)
        await remember(made, "notes", "freeze, then upload", tags=["apollo"])
        after = await find(made, "apollo upload", "notes", explain=True, score_threshold=0)

    assert [result.why["tags"] for result in before.results] == [[]]
    assert [result.why["tags"] for result in after.results] == [["apollo"], []]
