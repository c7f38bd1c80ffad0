"""Writes, and the reads that name points, on the local engine."""

from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import DenseLeg, Document, Sparse, SparseLeg, Target
from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.core.notation import MAX_NAME, name_fault, part_id, point_id
from mcp_server_qdrant.core.writes import Encoded
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.write.points import PAGE, WRITING, Blueprint, Points
from tests.support import IDF, Engine, empty_edge, foreign, memory_engine

IDS = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(10)]
BLUEPRINT = Blueprint("v", 2, {"embedding_model": "m"})
BOTH = Target("c", 0, DenseLeg("v", 2, "cosine", "m"), SparseLeg("bm25", idf=True))
WORDS = Sparse((1, 2), (0.5, 1.5))


def points_of(engine: Engine) -> Points:
    return Points(engine, ("document", "text"), [("project", "keyword")])  # type: ignore[arg-type]


def part(point: str, text: str, number: int, **doc: Any) -> Document:
    return Document(point, "c", text, **{"document": "d", "chunk": number, "chunks": 4} | doc)


def chunk(n: int, *, pending: bool = False) -> Encoded:
    one = part(IDS[n], f"chunk {n}", n, start=n * 10, end=n * 10 + 10)
    return Encoded(one, None if pending else [0.6, 0.8], WORDS)


async def filled(engine: Engine, *stored: Encoded) -> Points:
    points = points_of(engine)
    await points.create("c", BLUEPRINT)
    await points.upsert(BOTH, stored or [chunk(n) for n in range(4)])
    return points


async def vectors_of(engine: Engine, point) -> dict:
    (record,) = await engine.retrieve("c", [point], with_vectors=True)
    return record.vector


async def test_making_what_is_there_already_is_no_error(memory):
    points = points_of(memory)

    assert await points.create("c", BLUEPRINT)
    assert not await points.create("c", BLUEPRINT)


async def test_indexes_that_an_interrupted_creation_left_out_are_made_later(tmp_path):
    client = await EdgeClient.open(tmp_path, timeout=20)
    engine = Engine(client)
    engine.broken_methods["create_payload_indexes"] = EngineFailure("interrupted")
    with pytest.raises(EngineFailure):
        await points_of(engine).create("c", BLUEPRINT)
    engine.broken_methods.clear()
    await engine.create_payload_indexes("c", {"doc.id": models.PayloadSchemaType.KEYWORD})

    points = points_of(engine)
    assert not await points.create("c", BLUEPRINT)
    await points.index("c", (await client.get_collection("c")).payload_schema)
    schema = (await client.get_collection("c")).payload_schema
    engine.calls.clear()
    await points.index("c", {"doc.id"})
    assert engine.calls == [], "a collection is mended once"
    await points.index("c", schema, "doc.file.source")
    await points.index("c", schema, "doc.file.source")
    await client.close()

    assert {"doc.id", "doc.pending", "tags", "metadata.project", "updated_at"} <= set(schema)
    assert len(schema) == 10, "each costs the embedded engine syncs at every write"
    assert not schema["doc.chunk"].params.lookup
    assert len(engine.calls) == 1, "what few collections need is indexed where it is"


async def test_a_collection_made_again_is_indexed_again(memory):
    points = points_of(memory)
    await points.create("c", BLUEPRINT)
    await memory.delete_collection("c")
    memory.calls.clear()
    await points.create("c", BLUEPRINT)

    assert [name for name, _ in memory.calls].count("create_payload_indexes") == 1


async def test_what_keeps_a_collection_from_being_made_is_told(memory):
    memory.broken_methods["create_collection"] = EngineFailure("no space")
    with pytest.raises(EngineFailure, match="no space"):
        await points_of(memory).create("c", BLUEPRINT)


GOOD_NAMES = ["notes", "Notes of 2026", "日本語", "می\u200cشود", "a" * MAX_NAME, "log[1]", "..."]
STEERING = "\x00\n\t\x1b\x7f\x85\u061c\u200f\u2028\u202e\u2066\ufeff\U000e0041\ud800"
BAD_NAMES = ["", ".", "..", "a" * (MAX_NAME + 1), *(f"a{bad}" for bad in f'/\\:*?<>"|{STEERING}')]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_name_that_can_be_is_taken(name):
    assert name_fault(name) is None


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_name_that_cannot_be_is_refused(name, memory):
    with pytest.raises(RequestError, match="cannot be a collection's name"):
        await points_of(memory).create(name, BLUEPRINT)

    assert memory.calls == []


@pytest.mark.parametrize("sparse", [None, {"bm25": models.SparseVectorParams()}])
async def test_an_unnamed_vector_is_written_unnamed(sparse, memory):
    params = models.VectorParams(size=2, distance=models.Distance.COSINE)
    await foreign(memory, "c", {}, vectors=params, sparse=sparse)
    leg = SparseLeg("bm25", idf=False) if sparse else None
    target = Target("c", 0, DenseLeg("", 2, "cosine", "m"), leg)
    await points_of(memory).upsert(target, [chunk(0)])
    answer = await memory.query_points("c", query=[0.6, 0.8])

    assert answer.points[0].score == pytest.approx(1.0)


async def of_document(engine, count: int):
    head = point_id("c", "d", 0)
    ids = [head, *(part_id(head, "v", n) for n in range(1, count))]
    parts = [part(one, "t", n, chunks=count)._replace(version="v") for n, one in enumerate(ids)]
    return await filled(engine, *(Encoded(one, None, WORDS) for one in parts))


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(0, 3, [0, 1, 2, 3]), (1, 2, [1, 2]), (3, 9, [3]), (4, 9, [])]
)
async def test_chunks_come_in_order_from_first_to_last(first, last, expected, memory):
    points = await of_document(memory, 4)
    (head,) = await points.by_id("c", [point_id("c", "d", 0)])
    found = await points.parts(head, first, last)

    assert [document.chunk for document in found] == expected


@asynccontextmanager
async def versions(*written: tuple[str | None, int, int | None], folder: Path | None):
    """The document `d` with parts of these (version, number, time of an unfinished write).

    In the embedded engine, which indexes, or without a folder in the local mode.
    """
    async with AsyncExitStack() as stack:
        if folder:
            client = await empty_edge(folder)
            stack.push_async_callback(client.close)
            engine = Engine(client)
        else:
            engine = await stack.enter_async_context(memory_engine())
        points = points_of(engine)
        await points.create("c", BLUEPRINT)
        first = point_id("c", "d", 0)
        many = []
        for version, number, writing in written:
            named = part_id(first, version, number) if number and version else None
            point = named or point_id("c", "d", number)
            state = {"chunks": 3, "version": version, "writing": writing}
            one = part(point, f"{version} {number}", number, **state)
            many.append(Encoded(one, None, WORDS))
        await points.upsert(BOTH, many)
        yield engine, points


async def texts_of(engine) -> set[str]:
    records, _ = await engine.scroll("c", limit=100)
    return {record.payload["document"] for record in records}


TWO = (
    ("a", 0, None),
    ("a", 1, None),
    ("a", 2, None),
    ("b", 1, None),
    ("b", 2, 100),
    (None, 1, None),
)


@pytest.fixture(params=["edge", "memory"])
def folder(request, engine_folder) -> Path | None:
    return engine_folder if request.param == "edge" else None


class TestVersions:
    async def test_the_parts_of_a_version_are_found_from_any_of_them(self, folder):
        async with versions(*TWO, folder=folder) as (_, points):
            head = await points.first("c", "d")
            of_the_first = [part.text for part in await points.parts(head, 0, 2)]
            other = (await points.parts(head._replace(version="b"), 2, 2))[0]
            of_the_other = [part.text for part in await points.parts(other, 0, 9)]

        assert of_the_first == ["a 0", "a 1", "a 2"]
        assert of_the_other == ["b 1", "b 2"]

    async def test_a_part_of_another_version_than_the_first_part_is_not_current(self, folder):
        async with versions(*TWO, folder=folder) as (_, points):
            head = await points.first("c", "d")
            records = await points.parts(head, 1, 1) + await points.parts(
                head._replace(version="b"), 1, 2
            )
            found = await points.current_parts([head, *records])

        assert [one.text for one in found] == ["a 0", "a 1", "a 0", "a 0"]

    async def test_without_its_first_part_a_part_is_current_unless_it_was_never_finished(
        self, folder
    ):
        async with versions(("b", 1, None), ("b", 2, 100), folder=folder) as (_, points):
            like = Document(point_id("c", "d", 0), "c", "", document="d", version="b")
            found = await points.current_parts(await points.parts(like, 1, 2))

        assert [one and one.text for one in found] == ["b 1", None]

    async def test_a_settled_part_is_as_if_it_had_never_been_marked(self, folder):
        async with versions(("b", 0, 100), ("b", 1, 100), folder=folder) as (_, points):
            marked = await points.matching("c", models.Filter(must=[WRITING]))
            await points.settle("c", [one.id for one in marked])

            assert [one.writing for one in marked] == [100, 100]
            assert await points.matching("c", models.Filter(must=[WRITING])) == []

    async def test_points_are_removed_as_they_were_seen(self, folder):
        async with versions(*TWO, folder=folder) as (engine, points):
            seen = await points.first("c", "d")
            seen = [seen._replace(id=one) for one in points.part_ids(seen)]
            others = [one._replace(updated_at=f"{2100 + n}-01-01") for n, one in enumerate(seen)]
            await points.delete_seen(others)
            after_a_newer_one = await texts_of(engine)
            await points.delete_seen([others[0], *seen[1:]])

            assert after_a_newer_one >= {"a 0", "a 1", "a 2"}
            assert await texts_of(engine) == after_a_newer_one - {"a 1", "a 2"}
            await engine.set_payload("c", {"writing": 5}, [seen[0].id], key="doc")
            await points.delete_seen(seen[:1])
            assert "a 0" in await texts_of(engine), "it is being written again"


async def test_pending_points_are_found_filled_and_then_pending_no_more(memory):
    points = await filled(memory, chunk(0), *(chunk(n, pending=True) for n in (1, 2, 3)))
    first = await points.pending("c", 2)
    everything = await points.pending("c", 10)

    assert len(first) == 2
    assert {d.id for d in everything} == {IDS[1], IDS[2], IDS[3]}

    made = {IDS[1]: [1.0, 0.0], IDS[2]: [0.0, 1.0]}
    await points.fill_pending(BOTH, [(d, made[d.id]) for d in everything if d.id in made])

    assert [d.id for d in await points.pending("c", 10)] == [IDS[3]]
    assert (await vectors_of(memory, IDS[1]))["v"] == pytest.approx([1.0, 0.0])
    assert "bm25" in await vectors_of(memory, IDS[1])
    (record,) = await memory.retrieve("c", [IDS[1]])
    assert record.payload["doc"].keys() == {"id", "chunk", "chunks", "start", "end", "date"}
    assert record.payload["document"] == "chunk 1"


def of_file(source: str, contents: str = "h") -> dict:
    return {"document": "text", "doc": {"id": "d", "file": {"source": source, "hash": contents}}}


async def test_the_points_of_some_sources_are_read_page_by_page(engine):
    points = {n: of_file("a" if n % 2 else "b") for n in range(1, 2 * PAGE + 300)}
    more = {9000: of_file("z"), 9001: {"document": "by hand"}}
    await foreign(engine, "c", points | more, sparse={"bm25": IDF})
    found = await points_of(engine).file_points("c", {"a", "b"})

    assert sorted(point for point, _ in found) == sorted(points)
    assert dict(found)[1] == {"id": "d", "file": {"source": "a", "hash": "h"}}


async def test_only_points_with_the_old_contents_are_removed(engine):
    points = {1: of_file("a", "old"), 2: of_file("a", "new"), 3: of_file("a")}
    await foreign(engine, "c", points, sparse={"bm25": IDF})
    await points_of(engine).delete_file_points("c", [1, 2], {"old", "older"})

    assert [point for point, _ in await points_of(engine).file_points("c", {"a"})] == [2, 3]
