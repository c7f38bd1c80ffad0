"""The embedded engine answers as native queries do, and collections of one space go together."""

import json
import math
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Best, DenseLeg, LegQuery, Sparse, SparseLeg, Target
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.errors import EngineFailure, InvalidPoint, UnknownCollection
from mcp_server_qdrant.qdrant.engine import Candidates, Corpus, Found
from mcp_server_qdrant.qdrant.read.query import Queries
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


def rounded(found):
    """What each collection gave."""
    return {
        one.targets[0].collection: [
            (c.id, c.payload, round(c.rrf, 7), *(v and round(v, 5) for v in (c.dense, c.sparse)))
            for c in one.candidates
        ]
        for one in found
    }


async def both_ways(folder, asked, condition, depth):
    """The candidates of the embedded engine, and those of local mode."""
    async with filled(folder) as client, filled() as memory:
        answers = []
        for queries in (Queries(client), Queries(memory)):
            prepared = queries.prepare(condition)
            found, failed = await queries.search(asked, depth=depth, condition=prepared)
            assert failed == {}
            assert not any(one.damage for one in found)
            answers.append(rounded(found))
    return answers


ODD = {"must": [{"key": "odd", "match": {"value": True}}]}


@pytest.mark.parametrize("legs", ["both", "dense", "sparse"])
@pytest.mark.parametrize("condition", [None, ODD])
@pytest.mark.parametrize("depth", [3, 30])
async def test_candidates_and_scores_are_those_of_native_queries(
    engine_folder, legs, condition, depth
):
    asked = [
        ([target(name, dense=legs != "sparse", sparse=legs != "dense")], QUERY) for name in NAMES
    ]
    embedded, native = await both_ways(engine_folder, asked, condition, depth)

    assert embedded == native
    assert embedded.keys() == {*NAMES}
    assert all(len(found) >= 3 for found in embedded.values())


@pytest.mark.parametrize("legs", ["both", "dense", "sparse"])
@pytest.mark.parametrize("condition", [None, ODD])
async def test_tags_are_those_of_native_queries(engine_folder, legs, condition):
    """The second collection has no such tag; the third is asked without."""
    tagged = replace(QUERY, tags=(("tags", "T"), ("metadata.tags", "t")))
    queries = (tagged, replace(tagged, tags=(("tags", "none"),)), replace(tagged, tags=()))
    asked = [
        ([target(name, dense=legs != "sparse", sparse=legs != "dense")], query)
        for name, query in zip(NAMES, queries, strict=True)
    ]
    embedded, native = await both_ways(engine_folder, asked, condition, 6)

    assert embedded == native
    assert {point for point, *_ in embedded["north"]} & {3, 9, UUID.format(15)}


async def test_probes_are_those_of_native_queries(engine_folder):
    async with filled(engine_folder) as client, filled() as memory:
        asked = [Corpus((name,), "bm25", (7, 1, 12345)) for name in NAMES]
        embedded, native = await Queries(client).probe(asked), await Queries(memory).probe(asked)

    assert [set(answer) for answer in embedded] == [{1, 7}] * 3
    for one, other in zip(embedded, native, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


async def test_a_collection_that_fails_leaves_the_others(engine_folder):
    wrong = Target("south", 20, DenseLeg("nowhere", 2, "cosine", "m"), None)
    async with filled(engine_folder) as client:
        queries = Queries(client)
        asked = [([t], QUERY) for t in (target("north"), target("gone"), wrong, target("east"))]
        found, failed = await queries.search(asked, depth=3, condition=None)
        idfs = await queries.probe([Corpus((name,), "bm25", (7,)) for name in ("north", "gone")])
        payloads = await queries.payloads([("north", [1]), ("gone", [1])])

    assert rounded(found).keys() == {"north", "east"}
    kinds = {name: type(error) for name, error in failed.items()}
    assert kinds == {"gone": UnknownCollection, "south": InvalidPoint}
    assert isinstance(idfs[1], UnknownCollection)
    assert set(idfs[0]) == {7}
    assert isinstance(payloads[1], UnknownCollection)
    assert payloads[0] == {1: {"n": 1, "odd": True}}


class Spaces:
    """An engine that keeps what it is asked, and finds a point of each collection."""

    def __init__(self) -> None:
        self.asked = []
        self.gone: dict[str, Exception] = {}
        self.down = False

    async def candidates(self, ask):
        self.asked.append(ask)
        if self.down:
            raise EngineFailure("down")
        scores = [0.5] * sum(leg.scored for leg in ask.legs)
        there = [name for name in ask.collections if name not in self.gone]
        damage = dict.fromkeys(there[:1], "Some is lost.")
        return Candidates([Found(name, 1, 0.1, scores, {}) for name in there], damage, self.gone)


def of_space(name: str, space: str | None = "s") -> Target:
    return replace(target(name), space=space)


async def test_collections_of_one_space_are_asked_together_for_a_few_more_candidates():
    engine = Spaces()
    asked = [([of_space(f"c{n}")], QUERY) for n in range(16)]
    asked += [([of_space("x")], replace(QUERY, dense=[0.0, 1.0])), ([of_space("y", "t")], QUERY)]
    asked += [([of_space(name, None)], QUERY) for name in ("p", "q")]
    found, failed = await Queries(engine).search(asked, depth=60, condition=None)

    names = tuple(f"c{n}" for n in range(16))
    assert [ask.collections for ask in engine.asked] == [names, *[(n,) for n in "xypq"]]
    assert [ask.limit for ask in engine.asked] == [120, 60, 60, 60, 60]
    # Terms were weighed over all of the space, whatever else parts them.
    assert [ask.corpus for ask in engine.asked] == [(*names, "x")] * 2 + [(n,) for n in "ypq"]
    assert failed == {}
    assert [target.collection for target in found[0].targets] == [*names]
    assert [c.collection for one in found for c in one.candidates] == [*names, *"xypq"]
    assert {(c.dense, c.sparse) for one in found for c in one.candidates} == {(0.5, 0.5)}


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
async def test_of_many_candidates_only_the_most_relevant_come_back(tmp_path, alpha):
    async with filled(tmp_path) as client:
        both = LegQuery([1.0, 0.0], Sparse((7,), (1.0,)))
        asked = [([of_space(name)], both) for name in NAMES]
        queries, bound = Queries(client), 3.0

        async def found(**best):
            (one,), _ = await queries.search(asked, depth=40, condition=None, **best)
            return one

        every, few = await found(), await found(best=Best(7, alpha, bound))

    def worth(one):
        return alpha * max(one.dense, 0) + (1 - alpha) * one.sparse / bound

    least = sorted(map(worth, every.candidates))[-7]
    assert len(every.candidates) > 40
    assert len(few.candidates) == 7
    assert few.full, "there are more"
    assert {one.id for one in few.candidates} <= {one.id for one in every.candidates}
    assert all(worth(one) >= least - 1e-6 for one in few.candidates)


async def test_of_distances_that_are_no_cosines_all_candidates_come_back():
    engine, leg = Spaces(), DENSE._replace(distance="euclid")
    asked = [([replace(of_space(name), dense=leg)], QUERY) for name in "ab"]
    await Queries(engine).search(asked, depth=9, condition=None, best=Best(1, 0.4, 3.0))

    assert [ask.keep_best for ask in engine.asked] == [0]


async def test_tags_and_dates_of_one_collection_are_looked_for_in_all_that_are_asked_with_it():
    engine, tagged = Spaces(), replace(QUERY, tags=(("tags", "T"),))
    asked = [
        ([replace(of_space("a"), dates=("created_at",))], tagged),
        ([replace(of_space("b"), dates=("metadata.date",))], QUERY),
    ]
    period = Period(datetime(2026, 1, 1, tzinfo=UTC), None)
    await Queries(engine).search(asked, depth=9, condition=None, period=period)

    (ask,) = engine.asked
    assert ask.collections == ("a", "b")
    assert [leg.scored for leg in ask.legs] == [True, True, False]
    where = [json.dumps(leg.where) for leg in ask.legs]
    assert all(path in one for one in where for path in ("created_at", "metadata.date"))
    assert ["tags" in one for one in where] == [False, False, True]


async def test_what_fails_of_those_asked_together_is_told_by_name():
    engine = Spaces()
    asked = [([of_space(name)], QUERY) for name in "abc"]
    engine.gone = {"b": UnknownCollection("b")}
    (found,), failed = await Queries(engine).search(asked, depth=9, condition=None)

    assert failed == engine.gone
    assert [one.collection for one in found.targets] == ["a", "c"]
    assert found.damage == {"a": "Some is lost."}

    engine.down = True
    found, failed = await Queries(engine).search(asked, depth=9, condition=None)

    assert found == []
    assert {name: str(error) for name, error in failed.items()} == dict.fromkeys("abc", "down")
