"""A collection at another engine is the same collection."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import EngineFailure, EngineUnavailable, RequestError
from mcp_server_qdrant.ingest.collections import copying
from mcp_server_qdrant.ingest.collections.copying import copy
from mcp_server_qdrant.qdrant.local_mode import LocalFiles
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.engine import CONTENT_FIELDS
from tests.local_mode import TEXTS, leave
from tests.support import COSINE, IDF, Engine, dense, either_engine, foreign

COUNT = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the engines have their folders."""
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(params=["edge to memory", "memory to edge"])
async def both(request, folder) -> AsyncIterator[tuple[Engine, Engine]]:
    """The engine to copy from and the one to copy to."""
    kinds = request.param.split(" to ")
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(either_engine(kind, folder / f"{kind}"))
            for kind in kinds
        ]
        yield one, other


def point_id(number: int) -> int | str:
    return number if number % 2 else str(uuid.UUID(int=number))


async def fill(engine: Engine, name: str = "notes", count: int = COUNT) -> None:
    """A collection with all there is: both kinds of ids and vectors, nested payloads."""
    await engine.create_collection(
        name,
        vectors_config={
            "d": models.VectorParams(size=8, distance=models.Distance.DOT),
            "fast": COSINE,
            "late": models.VectorParams(
                size=4,
                distance=models.Distance.COSINE,
                multivector_config=models.MultiVectorConfig(
                    comparator=models.MultiVectorComparator.MAX_SIM
                ),
            ),
        },
        sparse_vectors_config={"bm25": IDF},
        metadata={"embedding_model": "m", "n": {"x": [1]}},
    )
    await engine.create_payload_indexes(name, {"metadata.n": models.PayloadSchemaType.INTEGER})
    points = []
    for number in range(count):
        vectors: dict[str, Any] = {"d": [float(number + place) for place in range(8)]}
        if number % 3:
            vectors["fast"] = dense(f"word{number}")
        if number % 5 == 1:
            vectors["late"] = [[1.0, 0.0, 0.0, 0.0], [0.6, 0.8, 0.0, 0.0]]
        if number % 4:
            vectors["bm25"] = models.SparseVector(indices=[number, 9_000], values=[0.5, 1.25])
        payload = {"text": f"n{number}", "metadata": {"n": number, "deep": [None, {"x": 0.1}]}}
        points.append(models.PointStruct(id=point_id(number), vector=vectors, payload=payload))
    await engine.upsert(name, points)


async def stored(engine: Engine, name: str = "notes") -> dict[Any, Any]:
    records, _ = await engine.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    return {str(record.id): record for record in records}


def bulk(engine: Engine) -> Bulk:
    return Bulk(engine, CONTENT_FIELDS)  # type: ignore[arg-type]


def same_vectors(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name, vector in one.items():
        if isinstance(vector, models.SparseVector):
            pairs = [sorted(zip(v.indices, v.values, strict=True)) for v in (vector, other[name])]
            assert pairs[0] == pairs[1]
        elif isinstance(vector[0], list):
            for row, its in zip(vector, other[name], strict=True):
                assert row == pytest.approx(its, abs=1e-6)
        else:
            assert vector == pytest.approx(other[name], abs=1e-6)


async def test_ids_payloads_vectors_and_settings_are_the_same(both):
    one, other = both
    await fill(one)
    told: list[int] = []

    assert await copy(bulk(one), bulk(other), "notes", told.append) == COUNT

    there, here = await stored(one), await stored(other)
    assert there.keys() == here.keys()
    for point, record in there.items():
        assert record.payload == here[point].payload
        same_vectors(record.vector, here[point].vector)
    infos = [(await engine.get_collection("notes")).config for engine in both]
    assert infos[0].metadata == infos[1].metadata
    assert (await bulk(one).shape("notes")).plan() == (await bulk(other).shape("notes")).plan()
    assert told[-1] == COUNT
    assert len(told) == -(-COUNT // copying.PAGE)

    other.calls.clear()
    assert await copy(bulk(one), bulk(other), "notes") == 0
    assert not [call for call in other.calls if call[0] in ("upsert", "create_collection")]


async def test_payload_indexes_come_along(folder):
    async with (
        either_engine("edge", folder / "a") as one,
        either_engine("edge", folder / "b") as other,
    ):
        await fill(one)

        await copy(bulk(one), bulk(other), "notes")

        schema = (await other.get_collection("notes")).payload_schema
        assert schema["metadata.n"].data_type == models.PayloadSchemaType.INTEGER


async def test_an_unnamed_vector_stays_unnamed_and_an_empty_collection_is_made(both):
    one, other = both
    await foreign(one, "plain", {1: {"text": "x"}}, vectors=COSINE, values=lambda n: dense("x"))
    await foreign(one, "empty", {}, vectors={"d": COSINE})

    assert [await copy(bulk(one), bulk(other), name) for name in ("plain", "empty")] == [1, 0]
    assert (await stored(other, "plain"))["1"].vector == pytest.approx(dense("x"))
    assert await bulk(other).count("empty") == 0


async def test_what_was_cut_short_is_completed(both):
    one, other = both
    await fill(one)
    with pytest.raises(EngineUnavailable):
        await copy(bulk(one), bulk(Flaky(other, after=2)), "notes")
    assert 0 < await bulk(other).count("notes") < COUNT

    written = await copy(bulk(one), bulk(other), "notes")

    assert 0 < written < COUNT
    assert (await stored(one)).keys() == (await stored(other)).keys()


class Flaky:
    """An engine that is gone after so many writes."""

    def __init__(self, engine: Engine, after: int) -> None:
        self._engine = engine
        self._left = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def upsert(self, *args: Any, **kwargs: Any) -> Any:
        if not self._left:
            raise EngineUnavailable("It is gone.")
        self._left -= 1
        return await self._engine.upsert(*args, **kwargs)


async def test_another_collection_of_the_name_is_refused_and_left_alone(both):
    one, other = both
    await fill(one)
    await fill(other, count=5)
    await other.set_payload("notes", {"text": "mine"}, [3])
    before = await stored(other)

    with pytest.raises(RequestError, match=r"holds points that the source lacks .*\(id 3\)"):
        await copy(bulk(one), bulk(other), "notes")

    assert await stored(other) == before


async def test_a_point_that_the_source_lacks_and_other_vectors_under_the_name_are_refused(both):
    one, other = both
    await fill(one, count=5)
    await fill(other, count=7)
    with pytest.raises(RequestError, match="delete one of the two"):
        await copy(bulk(one), bulk(other), "notes")

    await other.delete_collection("notes")
    await foreign(other, "notes", {}, vectors={"d": COSINE})
    with pytest.raises(RequestError, match="with other vectors"):
        await copy(bulk(one), bulk(other), "notes")


async def test_a_source_that_grows_meanwhile_is_told(both):
    one, other = both
    await fill(one)

    async def grown(name: str) -> int:
        return COUNT + 1

    source = bulk(one)
    source.count = grown  # type: ignore[method-assign,assignment]

    with pytest.raises(EngineFailure, match="has 301 points, and its copy 300"):
        await copy(source, bulk(other), "notes")


async def test_a_folder_of_local_mode_is_copied_without_opening_it(tmp_path, folder):
    await leave(tmp_path)
    local = LocalFiles(tmp_path)
    async with either_engine("edge", folder / "edge") as engine:
        assert await copy(local, bulk(engine), "notes") == len(TEXTS)
        assert await copy(local, bulk(engine), "notes") == 0
        assert await bulk(engine).count("notes") == len(TEXTS)
