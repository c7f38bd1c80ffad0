"""Writes, and the reads that name points, on the local engine."""

import pytest
from qdrant_client import models

from mcp_server_qdrant.datatypes import (
    DenseLeg,
    Sparse,
    SparseLeg,
    StoredPoint,
    Target,
)
from mcp_server_qdrant.errors import EngineFailure, RequestError, UnknownCollection
from mcp_server_qdrant.notation import MAX_NAME, name_fault, point_id
from mcp_server_qdrant.qdrant.edge import EdgeClient
from mcp_server_qdrant.qdrant.edge_wire import EdgeOptions
from mcp_server_qdrant.qdrant.points import Blueprint, Points
from tests.support import Engine, foreign, memory_engine

IDS = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(10)]
BLUEPRINT = Blueprint("v", 2, {"embedding_model": "m"})
BOTH = Target("c", 0, DenseLeg("v", 2, "cosine", "m"), SparseLeg("bm25", idf=True))
WORDS = Sparse((1, 2), (0.5, 1.5))


def points_of(engine: Engine) -> Points:
    return Points(engine, ("document", "text"), [("project", "keyword")])  # type: ignore[arg-type]


def chunk(n: int, document: str = "d", *, pending: bool = False) -> StoredPoint:
    doc = {"id": document, "chunk": n, "chunks": 4, "start": n * 10, "end": n * 10 + 10}
    payload = {"document": f"chunk {n}", "metadata": None, "doc": doc}
    if pending:
        doc["pending"] = "dense"
    return StoredPoint(IDS[n], payload, None if pending else [0.6, 0.8], WORDS)


async def filled(engine: Engine, *stored: StoredPoint) -> Points:
    points = points_of(engine)
    await points.create("c", BLUEPRINT)
    await points.upsert(BOTH, stored or [chunk(n) for n in range(4)])
    return points


async def vectors_of(engine: Engine, point) -> dict:
    (record,) = await engine.retrieve("c", [point], with_vectors=True)
    return record.vector


async def test_a_collection_is_made_with_both_legs_and_its_model():
    async with memory_engine() as engine:
        assert await points_of(engine).create("c", BLUEPRINT)
        info = await engine.get_collection("c")

    assert info.config.params.vectors == {
        "v": models.VectorParams(size=2, distance=models.Distance.COSINE)
    }
    assert info.config.params.sparse_vectors["bm25"].modifier == models.Modifier.IDF
    assert info.config.metadata == {"embedding_model": "m"}


async def test_every_field_that_is_filtered_by_is_indexed_at_birth():
    async with memory_engine() as engine:
        await points_of(engine).create("c", BLUEPRINT)
        made = [name for name, _ in engine.calls]

    assert made.count("create_collection") == 1
    assert made.count("create_payload_index") == 8  # ours and metadata.project


async def test_making_what_is_there_already_is_no_error():
    async with memory_engine() as engine:
        points = points_of(engine)

        assert await points.create("c", BLUEPRINT)
        assert not await points.create("c", BLUEPRINT)


async def test_indexes_that_an_interrupted_creation_left_out_are_made_later(tmp_path):
    client = await EdgeClient.open(tmp_path, timeout=20, options=EdgeOptions(idle_seconds=0.3))
    engine = Engine(client)
    engine.broken_methods["create_payload_index"] = EngineFailure("interrupted")
    with pytest.raises(EngineFailure):
        await points_of(engine).create("c", BLUEPRINT)
    engine.broken_methods.clear()
    await engine.create_payload_index("c", "doc.id", models.PayloadSchemaType.KEYWORD)

    points = points_of(engine)
    assert not await points.create("c", BLUEPRINT)
    await points.index("c", (await client.get_collection("c")).payload_schema)
    schema = (await client.get_collection("c")).payload_schema
    engine.calls.clear()
    await points.index("c", ())
    await client.close()

    assert {"doc.id", "doc.pending", "tags", "metadata.project", "created_at"} <= set(schema)
    assert len(schema) == 8
    assert engine.calls == [], "a collection is mended once"


async def test_a_collection_made_again_is_indexed_again():
    async with memory_engine() as engine:
        points = points_of(engine)
        await points.create("c", BLUEPRINT)
        await engine.delete_collection("c")
        engine.calls.clear()
        await points.create("c", BLUEPRINT)

    assert [name for name, _ in engine.calls].count("create_payload_index") == 8


async def test_what_keeps_a_collection_from_being_made_is_told():
    async with memory_engine() as engine:
        engine.broken_methods["create_collection"] = EngineFailure("no space")
        with pytest.raises(EngineFailure, match="no space"):
            await points_of(engine).create("c", BLUEPRINT)


GOOD_NAMES = ["notes", "Notes of 2026", "日本語", "a" * MAX_NAME, "log[1]", "..."]
BAD_NAMES = ["", ".", "..", "a" * (MAX_NAME + 1), *(f"a{bad}" for bad in '/\\:*?<>"|\x00\n\ud800')]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_name_that_can_be_is_taken(name):
    assert name_fault(name) is None


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_name_that_cannot_be_is_refused(name):
    async with memory_engine() as engine:
        with pytest.raises(RequestError, match="cannot be a collection's name"):
            await points_of(engine).create(name, BLUEPRINT)

        assert engine.calls == []


async def test_points_are_written_with_both_vectors():
    async with memory_engine() as engine:
        await filled(engine)
        vectors = await vectors_of(engine, IDS[0])

    assert vectors["v"] == pytest.approx([0.6, 0.8])
    assert (vectors["bm25"].indices, vectors["bm25"].values) == ([1, 2], [0.5, 1.5])


async def test_only_the_vectors_that_the_collection_has_are_written():
    """The official server's collection stays as that server made it."""
    async with memory_engine() as engine:
        params = models.VectorParams(size=2, distance=models.Distance.COSINE)
        await foreign(engine, "c", {}, vectors={"fast-x": params})
        target = Target("c", 0, DenseLeg("fast-x", 2, "cosine", "m"), None)
        await points_of(engine).upsert(target, [chunk(0)])

        assert set(await vectors_of(engine, IDS[0])) == {"fast-x"}


@pytest.mark.parametrize("sparse", [None, {"bm25": models.SparseVectorParams()}])
async def test_an_unnamed_vector_is_written_unnamed(sparse):
    async with memory_engine() as engine:
        params = models.VectorParams(size=2, distance=models.Distance.COSINE)
        await foreign(engine, "c", {}, vectors=params, sparse=sparse)
        leg = SparseLeg("bm25", idf=False) if sparse else None
        target = Target("c", 0, DenseLeg("", 2, "cosine", "m"), leg)
        await points_of(engine).upsert(target, [chunk(0)])
        answer = await engine.query_points("c", query=[0.6, 0.8])

    assert answer.points[0].score == pytest.approx(1.0)


async def test_a_text_without_terms_is_written_without_a_sparse_vector():
    async with memory_engine() as engine:
        await filled(engine, StoredPoint(IDS[0], {"document": "!"}, [1.0, 0.0], Sparse((), ())))

        assert set(await vectors_of(engine, IDS[0])) == {"v"}


async def test_points_are_read_by_id_and_missing_ones_left_out():
    async with memory_engine() as engine:
        points = await filled(engine)
        found = await points.by_id("c", [IDS[2], IDS[9], IDS[0]])

    assert {(d.id, d.text, d.chunk, d.document) for d in found} == {
        (IDS[2], "chunk 2", 2, "d"),
        (IDS[0], "chunk 0", 0, "d"),
    }


async def of_document(engine, count: int, document: str = "d"):
    points = points_of(engine)
    await points.create("c", BLUEPRINT)
    many = [
        StoredPoint(
            point_id("c", document, n),
            {"document": "t", "doc": {"id": document, "chunk": n, "chunks": count}},
            None,
            WORDS,
        )
        for n in range(count)
    ]
    await points.upsert(BOTH, many)
    return points


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(0, 3, [0, 1, 2, 3]), (1, 2, [1, 2]), (3, 9, [3]), (4, 9, [])]
)
async def test_chunks_come_in_order_from_first_to_last(first, last, expected):
    async with memory_engine() as engine:
        points = await of_document(engine, 4)
        found = await points.chunks("c", "d", first, last)

    assert [document.chunk for document in found] == expected


async def test_chunks_are_removed_by_number_or_from_a_number_on():
    async with memory_engine() as engine:
        points = await of_document(engine, 6)
        await of_document(engine, 6, "other")
        await points.delete_chunks("c", "d", 4, 5)

        assert [d.chunk for d in await points.chunks("c", "d", 0, 9)] == [0, 1, 2, 3]

        await points.delete_chunks_from("c", "d", 2)

        assert [d.chunk for d in await points.chunks("c", "d", 0, 9)] == [0, 1]
        assert len(await points.chunks("c", "other", 0, 9)) == 6


async def test_pending_points_are_found_filled_and_then_pending_no_more():
    async with memory_engine() as engine:
        points = await filled(engine, chunk(0), *(chunk(n, pending=True) for n in (1, 2, 3)))
        first = await points.pending("c", 2)
        everything = await points.pending("c", 10)

        assert len(first) == 2
        assert {d.id for d in everything} == {IDS[1], IDS[2], IDS[3]}

        await points.fill(BOTH, {IDS[1]: [1.0, 0.0], IDS[2]: [0.0, 1.0]})

        assert [d.id for d in await points.pending("c", 10)] == [IDS[3]]
        assert (await vectors_of(engine, IDS[1]))["v"] == pytest.approx([1.0, 0.0])
        assert "bm25" in await vectors_of(engine, IDS[1])
        (record,) = await engine.retrieve("c", [IDS[1]])
        assert record.payload["doc"] == {"id": "d", "chunk": 1, "chunks": 4, "start": 10, "end": 20}
        assert record.payload["document"] == "chunk 1"


async def test_errors_are_ours():
    gone = Target("gone", 0, DenseLeg("v", 2, "cosine", "m"), None)
    async with memory_engine() as engine:
        points = points_of(engine)
        for call in (
            points.upsert(gone, [chunk(0)]),
            points.by_id("gone", [1]),
            points.chunks("gone", "d", 0, 1),
            points.delete_chunks("gone", "d", 1, 2),
            points.delete_chunks_from("gone", "d", 1),
            points.pending("gone", 1),
            points.fill(gone, {IDS[0]: [1.0, 0.0]}),
            points.expect_pending("gone"),
        ):
            with pytest.raises(UnknownCollection):
                await call
