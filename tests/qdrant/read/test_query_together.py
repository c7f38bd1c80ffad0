"""Many collections in one trip answer as each does by native queries of its own."""

import math
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import DenseLeg, LegQuery, Sparse, SparseLeg, Target
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError, UnknownCollection
from mcp_server_qdrant.qdrant.read.query import TRIPS, Queries
from tests.support import IDF, either_engine, foreign, sparse_vector

pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")

NAMES = ("north", "south", "east")
DENSE, SPARSE = DenseLeg("v", 2, "cosine", "m"), SparseLeg("bm25", idf=True)
QUERY = LegQuery([1.0, 0.0], Sparse((7,), (1.0,)))
UUID = "0190a6f0-0000-7000-8000-0000000000{:02}"


def target(name: str, *, dense: bool = True, sparse: bool = True) -> Target:
    return Target(name, 20, DENSE if dense else None, SPARSE if sparse else None, 20)


def payload(n: int) -> dict[str, object]:
    tags = {"tags": ["T", "other"]} if n % 6 == 3 else {}
    return {"n": n, "odd": bool(n % 2), **tags}


@asynccontextmanager
async def filled(folder=None):
    """Twenty points each: integer ids and UUIDs, some without a dense vector, half with term 7.

    Of the embedded engine, or without a folder of the local mode.
    """
    async with either_engine("edge" if folder else "memory", folder or Path()) as engine:
        client = engine.client
        for turn, name in enumerate(NAMES):

            def values(point, turn=turn):
                n = int(str(point)[-2:])
                angle = (n + turn) * math.pi / 40
                words = Sparse((1, 7), (0.5, n / 10)) if n % 2 else Sparse((1,), (0.5,))
                dense = {} if n % 5 == 4 else {"v": [math.cos(angle), math.sin(angle)]}
                return dense | {"bm25": sparse_vector(words)}

            await foreign(
                client,
                name,
                {n if n < 10 else UUID.format(n): payload(n) for n in range(20)},
                vectors={"v": models.VectorParams(size=2, distance=models.Distance.COSINE)},
                sparse={"bm25": IDF},
                values=values,
            )
        yield client


def rounded(found, *, payloads=False):
    """Of the local mode all candidates have payloads; of the embedded engine those of tags."""
    assert found.damage is None
    return (
        [(c.id, c.payload if payloads else None, round(c.rrf, 7)) for c in found.candidates],
        {c.id: c.dense and round(c.dense, 5) for c in found.candidates},
        {c.id: c.sparse and round(c.sparse, 5) for c in found.candidates},
    )


@pytest.mark.parametrize("legs", ["both", "dense", "sparse"])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("depth", [3, 30])
async def test_candidates_and_scores_are_those_of_native_queries(
    engine_folder, legs, filtered, depth
):
    asked = [
        (target(name, dense=legs != "sparse", sparse=legs != "dense"), QUERY) for name in NAMES
    ]
    async with filled(engine_folder) as client, filled() as memory:
        one, other = Queries(client, together=True), Queries(memory)
        odd = {"must": [{"key": "odd", "match": {"value": True}}]}
        options = {
            "depth": depth,
            "condition": one.prepare(odd if filtered else None),
        }
        together = await one.search(asked, **options)
        apart = await other.search(asked, **options)

    assert list(map(rounded, together)) == list(map(rounded, apart))
    assert all(len(found.candidates) >= 3 for found in together)


@pytest.mark.parametrize("legs", ["both", "dense", "sparse"])
@pytest.mark.parametrize("filtered", [False, True])
async def test_tags_are_those_of_native_queries(engine_folder, legs, filtered):
    """The second collection has no such tag; the third is asked without."""
    tagged = replace(QUERY, tags=(("tags", "T"), ("metadata.tags", "t")))
    queries = (tagged, replace(tagged, tags=(("tags", "none"),)), replace(tagged, tags=()))
    asked = [
        (target(name, dense=legs != "sparse", sparse=legs != "dense"), query)
        for name, query in zip(NAMES, queries, strict=True)
    ]
    async with filled(engine_folder) as client, filled() as memory:
        one, other = Queries(client, together=True), Queries(memory)
        odd = {"must": [{"key": "odd", "match": {"value": True}}]}
        options = {
            "depth": 6,
            "condition": one.prepare(odd if filtered else None),
        }
        together = await one.search(asked, **options)
        apart = await other.search(asked, **options)

    assert list(map(rounded, together)) == list(map(rounded, apart))
    shown = [[one.payload is not None for one in found.candidates] for found in together]
    assert shown == [[True] * 6, [True] * 6, [False] * 6]
    assert {c.id for c in together[0].candidates} & {3, 9, UUID.format(15)}


async def test_payloads_stay_away_until_they_are_asked_for(engine_folder):
    async with filled(engine_folder) as client:
        queries = Queries(client, together=True)
        asked = [(target(name), QUERY) for name in NAMES]
        found = await queries.search(asked, depth=4, condition=None)
        ids = [[candidate.id for candidate in one.candidates] for one in found]
        wanted = [(name, [*some, 999]) for name, some in zip(NAMES, ids, strict=True)]
        payloads = await queries.payloads(wanted)

    assert all(candidate.payload is None for one in found for candidate in one.candidates)
    for some, answer in zip(ids, payloads, strict=True):
        assert answer == {point: answer[point] for point in some}
        assert {int(str(p)[-2:]): answer[p]["n"] for p in some} == {
            answer[p]["n"]: answer[p]["n"] for p in some
        }


async def test_probes_are_those_of_native_queries(engine_folder):
    async with filled(engine_folder) as client, filled() as memory:
        asked = [(target(name), [7, 1, 12345]) for name in NAMES]
        together = await Queries(client, together=True).probe(asked)
        apart = await Queries(memory).probe(asked)

    assert [set(answer) for answer in together] == [{1, 7}] * 3
    for one, other in zip(together, apart, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


async def test_a_collection_that_fails_leaves_the_others_of_its_trip(engine_folder):
    wrong = Target("south", 20, DenseLeg("nowhere", 2, "cosine", "m"), None)
    async with filled(engine_folder) as client:
        queries = Queries(client, together=True)
        asked = [(t, QUERY) for t in (target("north"), target("gone"), wrong, target("east"))]
        found = await queries.search(asked, depth=3, condition=None)
        idfs = await queries.probe([(t, [7]) for t, _ in (asked[0], asked[1])])
        payloads = await queries.payloads([("north", [1]), ("gone", [1])])

    assert [isinstance(answer, QdrantMcpError) for answer in found] == [False, True, True, False]
    assert isinstance(found[1], UnknownCollection)
    assert isinstance(found[2], RequestError)
    assert isinstance(idfs[1], UnknownCollection)
    assert set(idfs[0]) == {7}
    assert isinstance(payloads[1], UnknownCollection)
    assert payloads[0] == {1: {"n": 1, "odd": True}}


class Trips:
    """An engine that counts the trips to it, and gives back what it is asked."""

    def __init__(self) -> None:
        self.count = 0

    async def hybrid(self, question, asked):
        self.count += 1
        return asked


@pytest.mark.parametrize(("count", "trips"), [(0, 0), (1, 1), (16, 1), (20, 2), (64, 4), (65, 4)])
async def test_however_many_collections_take_a_few_trips(count, trips):
    asked = [(f"c{number}", [number]) for number in range(count)]
    embedded, server = Trips(), Trips()

    assert await Queries(embedded, together=True).payloads(asked) == asked
    assert await Queries(server).payloads(asked) == asked
    assert embedded.count == trips <= TRIPS
    assert server.count == count
