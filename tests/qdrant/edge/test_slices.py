"""Filters that no index answers, and payloads, in slices: the same points, a little at a time."""

import asyncio
import itertools

import pytest
import qdrant_edge as edge
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import models

from mcp_server_qdrant.core.access import Caller, calling
from mcp_server_qdrant.qdrant.edge import slices, types
from mcp_server_qdrant.qdrant.edge.index import answered, heaviest, parted, weight
from mcp_server_qdrant.qdrant.edge.schema import index_params
from mcp_server_qdrant.qdrant.edge.shards import View
from mcp_server_qdrant.qdrant.edge.slices import matching, narrowed, reading
from tests.qdrant.edge.test_safety import shards_in
from tests.support import COSINE, dense, either_engine, foreign

COUNT = 60
INDEXES = {"k": "keyword", "n": "integer", "d": "datetime"}


def payload(number: int) -> dict:
    found = {
        "k": "abc"[number % 3],
        "n": number % 7,
        "d": f"2024-01-{number % 28 + 1:02}T00:00:00Z",
        "m": {"x": number % 5, "t": f"word{number % 4} common", "l": [{"a": number % 3}] * 2},
    }
    if number % 4 == 0:
        del found["m"]
    return found


@pytest.fixture(scope="module")
def view(tmp_path_factory) -> View:
    """Points of which some fields are indexed and others are not."""
    shards = shards_in(tmp_path_factory.mktemp("shards"), "a")
    shard = shards.get("a")
    engine = shards.engine(shard)
    for key, kind in INDEXES.items():
        engine.update(edge.UpdateOperation.create_field_index(key, index_params(kind)))
    points = [edge.Point(n, {"d": [1.0, 2.0]}, payload(n)) for n in range(COUNT)]
    engine.update(edge.UpdateOperation.upsert_points(points))
    shard.changed()
    return View(shards, "a")


LEAVES = [
    {"key": "k", "match": {"value": "a"}},
    {"key": "k", "match": {"except": ["a", "b"]}},
    {"key": "n", "range": {"gte": 3}},
    {"key": "d", "range": {"lt": "2024-01-10T00:00:00Z"}},
    {"key": "m.x", "match": {"value": 1}},
    {"key": "m.x", "match": {"any": [2, 3]}},
    {"key": "m.x", "range": {"lt": 2}, "match": {"value": 1}},
    {"key": "m.t", "match": {"text": "word1"}},
    {"key": "m.l", "values_count": {"gt": 1}},
    {"is_empty": {"key": "m.x"}},
    {"is_null": {"key": "m"}},
    {"has_id": [1, 5, 9, 33]},
    {"nested": {"key": "m.l", "filter": {"must": [{"key": "a", "match": {"value": 2}}]}}},
    {"key": "m.x", "match": {"any": []}},
]


def filters(children):
    several = st.lists(children, max_size=4)
    least = st.builds(
        # Of more than there are the engine, at once, sometimes finds points that meet one.
        lambda conditions, count: {
            "conditions": conditions,
            "min_count": min(count, len(conditions)),
        },
        st.lists(children, min_size=1, max_size=4),
        st.integers(1, 3),
    )
    clauses = dict.fromkeys(("must", "should", "must_not"), several | children)
    return st.fixed_dictionaries({}, optional=clauses | {"min_should": least})


FILTERS = filters(st.recursive(st.sampled_from(LEAVES), filters, max_leaves=12))


def direct(view: View, where: dict) -> list[int]:
    request = edge.ScrollRequest(limit=COUNT, filter=types.to_filter(where))
    return [record.id for record in view.engine.scroll(request)[0]]


def done(steps):
    """What a generator returns in the end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("seconds", [1e-9, 0.01], ids=["one by one", "usual"])
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(where=FILTERS)
def test_a_filter_in_slices_finds_what_it_finds_at_once(view, monkeypatch, seconds, where):
    monkeypatch.setattr(slices, "_SECONDS", seconds)
    found = direct(view, where)
    narrow = done(narrowed(view, where))
    request = edge.CountRequest(exact=True, filter=narrow)

    assert list(itertools.chain(*matching(view, where))) == found
    assert list(itertools.chain(*matching(view, where, offset=20))) == [n for n in found if n >= 20]
    assert view.engine.count(request) == len(found)


@pytest.mark.parametrize(
    ("condition", "yes"),
    [
        ({"key": "k", "match": {"value": "a"}}, True),
        ({"key": "k", "match": {"any": ["a"]}}, True),
        ({"key": "k", "match": {"value": 1}}, False),
        ({"key": "k", "match": {"text": "a"}}, False),
        ({"key": "k", "match": {"prefix": "a"}}, False),
        ({"key": "n", "match": {"value": 1}}, True),
        ({"key": "n", "match": {"value": True}}, False),
        ({"key": "n", "range": {"gte": 1}}, True),
        ({"key": "d", "range": {"gte": "2024-01-01"}}, True),
        ({"key": "d", "range": {"gte": 1}}, False),
        ({"key": "n", "values_count": {"gte": 1}}, False),
        ({"key": "k", "match": {"value": "a"}, "values_count": {"gte": 1}}, False),
        ({"key": "m.x", "match": {"value": 1}}, False),
        ({"is_empty": {"key": "k"}}, True),
        ({"is_empty": {"key": "x"}}, False),
        ({"has_id": [1]}, True),
        ({"has_vector": "d"}, True),
        ({"nested": {"key": "k", "filter": {"must": []}}}, False),
        ({"should": [{"has_id": [1]}, {"key": "x", "is_null": True}]}, False),
        ({"must": [{"has_id": [1]}], "must_not": {"key": "k", "is_null": True}}, True),
    ],
)
def test_what_indexes_answer_is_known(condition, yes):
    assert answered(condition, INDEXES) is yes


def test_what_indexes_answer_goes_first_however_it_stands():
    tenant, slow = LEAVES[0], LEAVES[4]

    assert parted({"must": [{"must": [slow, {"must": tenant}]}]}, INDEXES) == ([tenant], [slow])
    assert parted({"must_not": [tenant, slow]}, INDEXES) == (
        [{"must_not": [tenant]}],
        [{"must_not": [slow]}],
    )


def test_a_text_to_match_and_a_polygon_weigh_more():
    text = {"key": "x", "match": {"text": "a"}}
    area = {"key": "x", "geo_polygon": {"exterior": {"points": [{}] * 1_000}}}

    assert weight(LEAVES[4]) == heaviest(LEAVES[4]) == 1
    assert weight({"should": [text, text, area]}) == 32 + 32 + 6
    assert heaviest({"should": [text, {"must": area}]}) == 32


class Slow:
    """An engine in which each reading of a payload takes so long, and that counts them."""

    def __init__(self, view: View, monkeypatch, seconds: float) -> None:
        self._engine = view.engine
        self._seconds = seconds
        self.now = 0.0
        self.readings: list[int] = []  # of each call
        monkeypatch.setattr(View, "engine", self)
        monkeypatch.setattr(slices.time, "monotonic", lambda: self.now)

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def scroll(self, request):
        conditions = repr(request.filter).count("FieldCondition(key") if request.filter else 0
        self._read(conditions * request.limit)
        return self._engine.scroll(request)

    def retrieve(self, ids, selector, vectors):
        self._read(len(ids))
        return self._engine.retrieve(ids, selector, vectors)

    def _read(self, count: int) -> None:
        if count:
            self.readings.append(count)
            self.now += self._seconds * count


MANY = {"should": [{"key": f"z{n}", "match": {"value": 1}} for n in range(256)]}


def test_of_heavy_payloads_one_condition_is_asked_at_once(view, monkeypatch):
    slow = Slow(view, monkeypatch, 0.1)

    assert list(itertools.chain(*matching(view, MANY))) == []
    assert set(slow.readings) == {1}
    assert len(slow.readings) == COUNT * 256


def test_of_light_payloads_many_are_read_in_one_slice(view, monkeypatch):
    slow = Slow(view, monkeypatch, 1e-7)

    assert list(itertools.chain(*matching(view, MANY))) == []
    assert slow.readings == [1] * 256 + [4] * 256 + [16] * 256 + [COUNT - 21] * 256


def test_a_slice_that_took_long_is_followed_by_smaller_ones(view, monkeypatch):
    slow = Slow(view, monkeypatch, 1e-7)
    pages = reading(view, range(COUNT), True, vectors=False)
    first = [len(next(pages)[0]) for _ in range(3)]
    slow._seconds = 0.05
    rest = [len(ids) for ids, _ in pages]

    assert first == [1, 4, 16]
    assert rest == [32, *[1] * (COUNT - 21 - 32)]


def test_the_next_read_begins_with_as_many_as_the_last_one_ended_with(view, monkeypatch):
    slow = Slow(view, monkeypatch, 1e-7)
    light = [len(ids) for _ in range(2) for ids, _ in reading(view, range(COUNT), True, False)]
    slow._seconds = 0.05
    heavy = [len(ids) for _ in range(2) for ids, _ in reading(view, range(COUNT), True, False)]

    assert light[3:6] == [32, COUNT - 53, 32]
    assert heavy[:2] == [32, 1]
    assert heavy[-COUNT:] == [1] * COUNT


def test_filters_that_indexes_answer_are_asked_as_they_are(view, monkeypatch):
    slow = Slow(view, monkeypatch, 0.1)
    where = {"must": [LEAVES[0], LEAVES[2]]}

    assert done(narrowed(view, where)) is not None
    assert slow.readings == []


HEAVY = {"text": "roses", "metadata": {f"{n:x}": n for n in range(10_000)}}
RED, BLUE = (Caller(name, frozenset()) for name in ("red", "blue"))


async def test_a_filter_over_a_heavy_payload_keeps_no_other_caller_waiting(tmp_path):
    async with either_engine("edge", tmp_path, timeout=200) as engine:
        await foreign(engine, "notes", {1: HEAVY}, vectors=COSINE, values=lambda _: dense("a"))
        where = models.Filter.model_validate(MANY)
        with calling(RED):
            slow = [asyncio.ensure_future(engine.count("notes", where)) for _ in range(3)]
        await asyncio.sleep(0)
        with calling(BLUE):
            quick = [await engine.count("notes") for _ in range(3)]
        waiting = [task.done() for task in slow]
        found = await asyncio.gather(*slow)

    assert [one.count for one in quick] == [1, 1, 1]
    assert waiting == [False] * 3
    assert [one.count for one in found] == [0, 0, 0]


async def test_writes_by_a_filter_that_no_index_answers_reach_the_same_points(tmp_path):
    async with either_engine("edge", tmp_path) as engine:
        points = {n: {"m": {"x": n % 3}} for n in range(30)}
        await foreign(engine, "notes", points, vectors=COSINE, values=lambda n: dense(f"{n}"))
        x = lambda value: models.Filter.model_validate(  # noqa: E731
            {"must": [{"key": "m.x", "match": {"value": value}}]}
        )
        await engine.set_payload("notes", {"seen": True}, points=x(1))
        await engine.delete("notes", x(2))
        records, _ = await engine.scroll("notes", limit=99, with_payload=True)

    assert {r.id: "seen" in r.payload for r in records} == {
        n: n % 3 == 1 for n in range(30) if n % 3 != 2
    }
