"""A folder of local mode is read as qdrant-client reads it, and nothing in it can do harm."""

import datetime
import json
import os
import pickle
import shutil
import uuid

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import AsyncQdrantClient, models

from mcp_server_qdrant.core.errors import (
    EngineFailure,
    QdrantMcpError,
    UnknownCollection,
    contained,
)
from mcp_server_qdrant.qdrant.client import is_local_mode
from mcp_server_qdrant.qdrant.local_mode import LocalFiles, _point
from mcp_server_qdrant.qdrant.write.bulk import Shape
from tests.local_mode import TEXTS, VECTOR, files, leave, pickled, replace, row, rows, stored
from tests.support import COSINE, IDF, dense

SHAPE = Shape({VECTOR: COSINE}, {"bm25": IDF}, {}, {})


@pytest.fixture
async def folder(tmp_path):
    await leave(tmp_path)
    return tmp_path


@pytest.fixture
async def local(folder):
    return LocalFiles(folder)


async def everything(local: LocalFiles, name: str = "notes") -> dict:
    return {point.id: point async for page in local.pages(name, 7) for point in page}


async def test_ids_payloads_and_vectors_are_those_that_qdrant_client_reads(folder, local):
    expected = await stored(folder)

    found = await everything(local)

    assert await local.names() == ["notes"]
    assert await local.count("notes") == len(TEXTS)
    assert found.keys() == expected.keys()
    for point, one in found.items():
        assert one.payload == expected[point].payload
        assert one.vector[VECTOR] == pytest.approx(expected[point].vector[VECTOR])
    assert local.unreadable == {"notes": 0}


async def test_the_shape_is_that_of_the_collection(tmp_path):
    client = AsyncQdrantClient(path=str(tmp_path))
    await client.create_collection("plain", COSINE, metadata={"embedding_model": "m"})
    await client.create_collection("both", {"d": COSINE}, sparse_vectors_config={"bm25": IDF})
    await client.close()

    local = LocalFiles(tmp_path)

    assert (await local.shape("plain")).plan() == {"": (64, models.Distance.COSINE, False)}
    assert (await local.shape("plain")).metadata == {"embedding_model": "m"}
    assert (await local.shape("both")).plan()["bm25"] == (models.Modifier.IDF,)
    assert await local.count("both") == 0
    with pytest.raises(UnknownCollection):
        await local.shape("other")


async def test_reading_changes_no_file_and_needs_no_lock(folder):
    before = files(folder)
    client = AsyncQdrantClient(path=str(folder))  # holds the folder's lock

    local = LocalFiles(folder)
    assert len(await everything(local)) == len(TEXTS)

    await client.close()
    assert files(folder) == before


async def test_the_latest_of_several_rows_of_a_point_counts(folder, local):
    key = uuid.uuid4()
    for number, text in enumerate(("old", "new")):
        point = models.PointStruct(
            id=key.hex if number else str(key), vector={VECTOR: dense(text)}, payload={"t": text}
        )
        connection = rows(folder)
        with connection:
            connection.execute("INSERT INTO points VALUES (?, ?)", (str(number), pickled(point)))
        connection.close()

    found = await everything(local)

    assert found[str(key)].payload == {"t": "new"}
    assert len(found) == len(TEXTS) + 1


async def test_damaged_rows_are_counted_and_the_others_read(folder, local):
    replace(folder, 3, b"\x80\x04nonsense")
    replace(folder, 5, row(folder, 5)[:100])
    replace(folder, 7, pickled({"id": 7}))
    replace(folder, 9, pickled(models.PointStruct(id=9, vector={"other": [1.0]}, payload={})))
    replace(folder, 11, pickled(models.PointStruct(id=11, vector={VECTOR: [float("nan")] * 64})))

    found = await everything(local)

    assert set(range(1, 41)) - set(found) == {3, 5, 7, 9, 11}
    assert local.unreadable == {"notes": 5}


class Evil:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


async def test_a_row_that_would_run_code_is_not_run(folder, local, tmp_path):
    mark = tmp_path / "ran"
    replace(folder, 3, pickle.dumps(Evil(str(mark))))
    point = models.PointStruct.model_construct(id=5, vector={}, payload={"x": Evil(str(mark))})
    replace(folder, 5, pickle.dumps(point))

    await everything(local)

    assert local.unreadable == {"notes": 2}
    assert not mark.exists()


async def test_what_older_versions_pickled_is_read(folder, local):
    when = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    point = models.PointStruct.model_construct(
        id=uuid.UUID(int=7),
        vector={VECTOR: np.array(dense("x"), dtype=np.float32)},
        payload={"when": when, "id": uuid.UUID(int=8)},
    )
    replace(folder, 3, pickle.dumps(point))

    found = (await everything(local))[str(uuid.UUID(int=7))]

    assert found.payload == {"when": when.isoformat(), "id": str(uuid.UUID(int=8))}
    assert found.vector[VECTOR] == pytest.approx(dense("x"))


async def test_sparse_vectors_are_read(tmp_path):
    client = AsyncQdrantClient(path=str(tmp_path))
    await client.create_collection("both", {VECTOR: COSINE}, sparse_vectors_config={"bm25": IDF})
    sparse = models.SparseVector(indices=[3, 9], values=[0.5, 1.5])
    await client.upsert("both", [models.PointStruct(id=1, vector={"bm25": sparse}, payload={})])
    await client.close()

    local = LocalFiles(tmp_path)

    assert (await everything(local, "both"))[1].vector == {"bm25": sparse}


async def test_a_write_whose_process_was_killed_is_undone(folder):
    expected = files(folder)
    connection = rows(folder)
    connection.execute("PRAGMA cache_size = 1")  # changed pages reach the file before the end
    connection.execute("UPDATE points SET point = x'00'")
    killed = folder.parent / "killed"
    shutil.copytree(folder, killed)  # with its journal
    connection.close()
    assert any((killed / "collection" / "notes").glob("*-journal"))

    local = LocalFiles(killed)
    assert len(await everything(local)) == len(TEXTS)

    assert files(killed) == expected


async def test_a_file_that_is_no_database_has_no_points_and_says_so(folder, local):
    (folder / "collection" / "notes" / "storage.sqlite").write_bytes(b"x" * 10_000)

    assert await local.count("notes") == 0
    assert local.unreadable == {"notes": 1}


async def test_a_file_that_is_damaged_in_the_middle_gives_what_is_before_it(folder, local):
    path = folder / "collection" / "notes" / "storage.sqlite"
    content = bytearray(path.read_bytes())
    content[-8_000:-4_000] = b"\xff" * 4_000
    path.write_bytes(bytes(content))

    found = await everything(local)

    assert len(found) < len(TEXTS)
    assert local.unreadable["notes"] >= 1


async def test_a_collection_without_a_file_is_empty(folder, local):
    shutil.rmtree(folder / "collection" / "notes")

    assert await local.count("notes") == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"collections": {"x": {"vectors": {"a": 1}}}}'])
async def test_a_damaged_list_of_collections_is_one_sentence(tmp_path, text):
    (tmp_path / "meta.json").write_text(text)

    with pytest.raises(EngineFailure, match=r"meta\.json of local mode cannot be read"):
        LocalFiles(tmp_path)


async def test_only_local_modes_folders_are_taken_for_such(folder, tmp_path_factory):
    assert is_local_mode(folder)
    assert not is_local_mode(tmp_path_factory.mktemp("other"))


GOOD = pickle.dumps(
    models.PointStruct(id=1, vector={VECTOR: dense("x")}, payload={"a": [1, {"b": None}]})
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, len(GOOD)),
)
def test_whatever_happened_to_a_row_it_is_a_point_or_damaged(changes, cut):
    damaged = bytearray(GOOD)
    for place, value in changes:
        damaged[place] = value
    for candidate in (bytes(damaged), bytes(damaged[:cut])):
        try:
            with contained():
                point = _point(candidate, SHAPE)
        except QdrantMcpError:
            continue
        json.dumps(point.payload)


def test_the_fixture_is_what_local_mode_writes():
    assert _point(GOOD, SHAPE).payload == {"a": [1, {"b": None}]}
