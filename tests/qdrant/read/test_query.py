"""One collection's native queries, on the local engine."""

import asyncio
import math
from dataclasses import replace

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import DenseLeg, LegQuery, Sparse, SparseLeg, Target
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.core.notation import part_id, point_id
from mcp_server_qdrant.qdrant.engine import Corpus
from mcp_server_qdrant.qdrant.read import query as asking
from mcp_server_qdrant.qdrant.read.query import RRF_K, Queries, cosine
from tests.support import IDF, Engine, foreign, sparse_vector

COUNT = 20
ANGLE = math.pi / 2 / COUNT
QUERY = [1.0, 0.0]
WORDS = Sparse((7,), (1.0,))


def at(n: int) -> list[float]:
    """The unit vector number n: its cosine with the query is cos(n * ANGLE)."""
    return [math.cos(n * ANGLE), math.sin(n * ANGLE)]


def words_of(n: int) -> Sparse:
    """Odd points hold the term 7, the more of it the higher their number; all hold the term 1."""
    return Sparse((1, 7), (0.5, n / 10)) if n % 2 else Sparse((1,), (0.5,))


async def filled(
    engine: Engine,
    *,
    named: bool = True,
    dense: bool = True,
    sparse: bool = True,
    distance: models.Distance = models.Distance.COSINE,
) -> Target:
    """Twenty points; the target that finds them."""
    params = models.VectorParams(size=2, distance=distance)

    def values(n: int):
        if dense and not named:
            return at(n)
        return ({"v": at(n)} if dense else {}) | (
            {"bm25": sparse_vector(words_of(n))} if sparse else {}
        )

    await foreign(
        engine,
        "c",
        {n: {"n": n, "odd": bool(n % 2)} for n in range(COUNT)},
        vectors=({"v": params} if named else params) if dense else {},
        sparse={"bm25": IDF} if sparse else None,
        values=values,
    )
    kind = {"Cosine": "cosine", "Dot": "dot", "Euclid": "euclid", "Manhattan": "manhattan"}
    leg = DenseLeg("v" if named else "", 2, kind[distance.value], "m")  # type: ignore[arg-type]
    return Target(
        "c", COUNT, leg if dense else None, SparseLeg("bm25", idf=True) if sparse else None, COUNT
    )


async def search(engine, target, query, **options):
    asked = {"depth": 5, "condition": None} | options
    (scored,), failed = await Queries(engine).search([([target], query)], **asked)
    assert failed == {}
    return scored


async def candidates(engine, target, query, **options):
    return (await search(engine, target, query, **options)).candidates


def probe(name: str, *terms: int) -> Corpus:
    return Corpus((name,), "bm25", terms)


BOTH = LegQuery(QUERY, WORDS)


async def test_both_legs_are_fused_by_rrf_at_60(memory):
    """The dense leg gives 0, 1, 2 ..., the sparse one 19, 17, 15 ...; ranks count from 0."""
    target = await filled(memory)
    found = await candidates(memory, target, BOTH, depth=10)

    scores = {candidate.id: candidate.rrf for candidate in found}
    by_hand = {n: 1 / (RRF_K + n) for n in range(10)}
    for rank, n in enumerate(range(19, 0, -2)):
        by_hand[n] = by_hand.get(n, 0.0) + 1 / (RRF_K + rank)
    best = sorted(by_hand, key=lambda n: (-by_hand[n], str(n)))[:10]
    assert RRF_K == 60
    assert scores == pytest.approx({n: by_hand[n] for n in best}, abs=1e-6)
    assert [candidate.id for candidate in found] == best


@pytest.mark.parametrize("named", [True, False])
async def test_the_dense_leg_alone(named, memory):
    target = await filled(memory, named=named, sparse=False)
    found = await candidates(memory, target, LegQuery(QUERY, None))

    assert [c.id for c in found] == list(range(5))
    assert [c.rrf for c in found] == pytest.approx([1 / (60 + n) for n in range(5)])
    assert {c.sparse for c in found} == {None}
    assert found[3].payload == {"n": 3, "odd": True}


async def test_the_sparse_leg_alone(memory):
    target = await filled(memory, dense=False)
    found = await candidates(memory, target, LegQuery(None, WORDS))

    assert [c.id for c in found] == [19, 17, 15, 13, 11]
    assert {c.dense for c in found} == {None}


@pytest.mark.parametrize("query", [BOTH, LegQuery(QUERY, None), LegQuery(None, WORDS)])
async def test_the_filter_holds_for_every_leg(query, memory):
    target = await filled(memory)
    condition = Queries(memory).prepare(
        {"must": [{"key": "odd", "match": {"value": True}}, {"key": "n", "range": {"lt": 8}}]}
    )
    found = await candidates(memory, target, query, condition=condition, depth=20)

    assert {c.id for c in found} == {1, 3, 5, 7}


async def test_candidates_come_with_the_fields_that_a_search_reads(memory):
    target = await filled(memory)
    queries = Queries(memory, paths=["n"])
    (scored,), _ = await queries.search([([target], BOTH)], depth=5, condition=None)
    found = scored.candidates
    (payloads,) = await queries.payloads([("c", [*(c.id for c in found), 999])])

    assert [c.payload for c in found] == [{"n": c.id} for c in found]
    assert payloads == {c.id: {"n": c.id, "odd": bool(c.id % 2)} for c in found}


class Recorded(Engine):
    """An engine whose requests are kept."""

    def __init__(self, client):
        super().__init__(client)
        self.batches = []

    async def query_batch_points(self, collection, requests):
        self.batches.append(list(requests))
        return await self.client.query_batch_points(collection, requests)


async def test_the_server_fuses_its_own_prefetches_and_scores_the_candidates_by_id(memory):
    """One query of dense, sparse and tags, then exact scores of what it gave.

    Quantised vectors are looked at twice as many, and scored by the whole ones.
    """
    target = await filled(memory)
    recorded = Recorded(memory.client)
    query = replace(BOTH, tags=(("tags", "T"),))
    (scored,), _ = await Queries(recorded).search([([target], query)], depth=5, condition=None)
    found = scored.candidates

    (fusion,), scores = recorded.batches
    assert fusion.query == models.RrfQuery(rrf=models.Rrf(k=60))
    assert [(one.using, one.limit) for one in fusion.prefetch] == [("v", 5), ("bm25", 5), ("v", 5)]
    assert fusion.prefetch[2].filter is not None
    looked_at = models.QuantizationSearchParams(rescore=True, oversampling=2.0)
    assert [one.params.quantization for one in fusion.prefetch] == [looked_at] * 3
    assert fusion.with_payload
    assert [one.using for one in scores] == ["v", "bm25"]
    assert all(one.filter.must[0].has_id == [c.id for c in found] for one in scores)
    assert all(one.params.exact for one in scores)


async def test_parts_of_a_replaced_version_are_told_by_the_first_part(memory):
    first = point_id("c", "d", 0)
    old, now = part_id(first, "a", 1), part_id(first, "b", 1)

    def doc(version, chunk):
        return {"doc": {"id": "d", "chunk": chunk, "chunks": 2, "version": version}}

    points = {first: doc("b", 0), old: doc("a", 1), now: doc("b", 1)}
    params = models.VectorParams(size=2, distance=models.Distance.COSINE)
    await foreign(memory, "c", points, vectors={"v": params}, values=lambda _: {"v": at(1)})
    target = Target("c", 3, DenseLeg("v", 2, "cosine", "m"), None, 3)
    found = await candidates(memory, target, LegQuery(QUERY, None))

    assert {c.id: c.current for c in found} == {first: None, old: False, now: True}
    assert [c.payload for c in found if c.id == old] == [doc("a", 1)]


async def test_a_point_that_one_leg_found_has_its_exact_score_on_the_other(memory):
    """The legs give 0, 1, 2 and 19, 17, 15."""
    target = await filled(memory)
    memory.calls.clear()
    scored = await search(memory, target, BOTH, depth=3)

    assert memory.calls == [("query_batch_points", "c")] * 2
    assert [candidate.id for candidate in scored.candidates] == [0, 19, 1]
    idf = math.log((COUNT - 10 + 0.5) / (10 + 0.5) + 1)  # the term is in ten of twenty
    legs = {c.id: (c.dense, c.sparse) for c in scored.candidates}
    words = {0: 0.0, 1: 0.1 * idf, 19: 1.9 * idf}
    assert {n: pytest.approx((math.cos(n * ANGLE), words[n]), abs=1e-6) for n in words} == legs


@pytest.mark.parametrize("distance", [*models.Distance])
async def test_whatever_the_distance_the_score_is_a_cosine(distance, memory):
    target = await filled(memory, distance=models.Distance(distance), sparse=False)
    found = await candidates(memory, target, LegQuery(QUERY, None), depth=COUNT)

    dense = {c.id: c.dense for c in found}
    assert dense == pytest.approx({n: math.cos(n * ANGLE) for n in range(COUNT)}, abs=1e-5)


@pytest.mark.parametrize(
    ("distance", "score", "expected"),
    [
        ("cosine", 1.0000001, 1.0),
        ("cosine", -0.3, -0.3),
        ("dot", 17.0, 1.0),
        ("cosine", math.nan, 0.0),
        ("dot", math.inf, 0.0),
        ("euclid", 0.0, 1.0),
        ("euclid", math.sqrt(2), 0.0),
        ("euclid", 2.0, -1.0),
        ("manhattan", 0.0, 1.0),
        ("manhattan", 3.0, 0.25),
        ("euclid", math.nan, 0.0),
        ("manhattan", math.nan, 0.0),
    ],
)
def test_a_distance_becomes_a_cosine(distance, score, expected):
    assert cosine(score, DenseLeg("v", 2, distance, "m")) == pytest.approx(expected)


async def test_probes_tell_the_idf_of_all_terms_in_one_trip(memory):
    target = await filled(memory)
    memory.calls.clear()
    (found,) = await Queries(memory).probe([probe(target.collection, 7, 1, 12345)])

    assert memory.calls[:1] == [("query_batch_points", "c")]
    assert set(found) == {7, 1}
    assert found[7] == pytest.approx(math.log(10.5 / 10.5 + 1), abs=1e-6)
    assert found[1] == pytest.approx(math.log(0.5 / 20.5 + 1), abs=1e-6)


async def test_a_probe_reads_the_value_stored_with_the_term(memory):
    """The idf is the score divided by it, whatever the point is that comes first."""
    await foreign(
        memory,
        "c",
        {1: {}, 2: {}},
        sparse={"bm25": IDF},
        values=lambda n: {"bm25": models.SparseVector(indices=[3, 9], values=[0.1, 4.0 * n])},
    )
    (found,) = await Queries(memory).probe([probe("c", 9)])

    assert found == pytest.approx({9: math.log(0.5 / 2.5 + 1)}, abs=1e-6)


class Busy:
    """An engine that keeps each trip for a moment, and counts those it has at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def asked(self, *_):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        raise EngineFailure("busy")

    candidates = idfs = asked

    async def retrieve(self, *_, with_payload):
        await self.asked()


async def test_whatever_is_asked_few_trips_are_under_way_at_the_same_time(monkeypatch):
    monkeypatch.setattr(asking, "AT_ONCE", 2)
    leg = SparseLeg("bm25", idf=True)
    targets = [Target(f"c{number}", 1, None, leg, 1) for number in range(5)]
    searching, probing, reading = Busy(), Busy(), Busy()
    words = [([one], LegQuery(None, WORDS)) for one in targets]
    await Queries(searching).search(words, depth=5, condition=None)
    await Queries(probing).probe([probe(one.collection, 1) for one in targets])
    await Queries(reading).payloads([(one.collection, [1]) for one in targets])

    assert [one.most for one in (searching, probing, reading)] == [2, 2, 2]


@pytest.mark.parametrize("leg", ["both", "dense", "sparse"])
async def test_a_tag_brings_points_that_no_leg_has_near(leg, memory):
    """Point 19 is the furthest by meaning, 1 the last by words; a filter holds for the leg too."""
    target = await filled(memory, dense=leg != "sparse", sparse=leg != "dense")
    far = 19 if leg != "sparse" else 1
    await memory.set_payload("c", {"tags": ["T"]}, points=[far])
    query = LegQuery(
        QUERY if leg != "sparse" else None,
        WORDS if leg != "dense" else None,
        tags=(("tags", "T"), ("metadata.tags", "t")),
    )
    plain = replace(query, tags=())
    only = models.Filter(
        must=[models.FieldCondition(key="odd", match=models.MatchValue(value=False))]
    )
    queries = Queries(memory)
    options = {"depth": 3, "condition": None}
    only_odd = options | {"condition": only}
    (tagged,), _ = await queries.search([([target], query)], **options)
    (without,), _ = await queries.search([([target], plain)], **options)
    (filtered,), _ = await queries.search([([target], query)], **only_odd)

    assert far in [candidate.id for candidate in tagged.candidates]
    assert leg == "both" or far not in [candidate.id for candidate in without.candidates]
    assert far not in [candidate.id for candidate in filtered.candidates]
    assert all(one.payload for one in tagged.candidates)  # who carries a tag is told by it


async def test_the_tag_leg_counts_like_the_others(memory):
    """Point 5 alone carries the tag: rank 0 of the tag leg, rank 5 of the dense one."""
    target = await filled(memory, sparse=False)
    await memory.set_payload("c", {"metadata": {"tags": "T"}}, points=[5])
    asked = LegQuery(QUERY, None, (("metadata.tags", "T"),))
    found = {c.id: c.rrf for c in await candidates(memory, target, asked, depth=10)}

    assert found[5] == pytest.approx(1 / (5 + RRF_K) + 1 / RRF_K)
    assert found[0] == pytest.approx(1 / RRF_K)
