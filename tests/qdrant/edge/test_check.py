"""What would damage a shard is refused with a sentence, and the shard loads afterwards."""

import enum
import math
import uuid
from datetime import date, datetime

import numpy as np
import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import InvalidPoint, RequestError
from mcp_server_qdrant.qdrant.edge import check
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.qdrant.edge.here import crashed
from tests.support import nearest

SCHEMA = {"name": "c", "vectors": {"d": {"size": 2}}, "sparse_vectors": {"s": {}}}


def nested(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def sparse(indices, values):
    return {"s": {"indices": indices, "values": values}}


GOOD = (1, {"d": [1.0, 2.0], "s": {"indices": [1, 2], "values": [1.0, 2.0]}}, {"a": 1})

BAD_POINTS = {
    "a negative id": ((-1, None, None), "unsigned"),
    "an id of 65 bits": ((2**64, None, None), "unsigned"),
    "a text that is no UUID as id": (("abc", None, None), "UUID"),
    "a boolean id": ((True, None, None), "UUID"),
    "a fraction as id": ((1.5, None, None), "UUID"),
    "no id": ((None, None, None), "UUID"),
    "an unknown vector": ((1, {"x": [1.0]}, None), "no vector named 'x'; it has: d, s"),
    "an unnamed vector": ((1, [1.0, 2.0], None), "no unnamed vector"),
    "a vector too short": ((1, {"d": [1.0]}, None), "size 2, not 1"),
    "a vector too long": ((1, {"d": [1.0] * 3}, None), "size 2, not 3"),
    "NaN": ((1, {"d": [math.nan, 1.0]}, None), "finite"),
    "infinities that cancel out": ((1, {"d": [math.inf, -math.inf]}, None), "finite"),
    "more than single precision": ((1, {"d": [1e39, -1e39]}, None), "finite"),
    "texts in a vector": ((1, {"d": ["a", "b"]}, None), "finite"),
    "None in a vector": ((1, {"d": [None, 1.0]}, None), "finite"),
    "rows instead of numbers": ((1, {"d": [[1.0], [2.0]]}, None), "finite"),
    "a dense vector that is sparse": ((1, {"d": {"indices": [1], "values": [1.0]}}, None), "list"),
    "a sparse vector that is dense": ((1, {"s": [1.0, 2.0]}, None), "sparse"),
    "fewer values than indices": ((1, sparse([1, 2], [1.0]), None), "as many"),
    "more values than indices": ((1, sparse([1], [1.0, 2.0]), None), "as many"),
    "an index twice": ((1, sparse([1, 1], [1.0, 2.0]), None), "twice"),
    "a negative index": ((1, sparse([-1], [1.0]), None), "32-bit"),
    "an index of 33 bits": ((1, sparse([2**32], [1.0]), None), "32-bit"),
    "NaN in a sparse vector": ((1, sparse([1], [math.nan]), None), "finite"),
}


BAD_PAYLOADS = {
    "NaN": ({"a": [math.nan]}, "NaN"),
    "infinity": ({"a": {"b": -math.inf}}, "NaN or infinity"),
    "half a surrogate pair": ({"a": "x\ud800"}, "surrogate"),
    "half a surrogate pair in a key": ({"x\ud800": 1}, "surrogate"),
    "a set": ({"a": {1, 2}}, "set"),
    "bytes": ({"a": b"x"}, "bytes"),
    "an object": ({"a": object()}, "object"),
    "too many levels": (nested(124), "deeper"),
    "far too many levels": (nested(5000), "deeper"),
}


@pytest.mark.parametrize("kind", BAD_POINTS)
def test_a_bad_point_is_refused_with_a_sentence(kind):
    bad, sentence = BAD_POINTS[kind]
    with pytest.raises(InvalidPoint, match=sentence) as refused:
        check.check_points([GOOD, bad, GOOD], SCHEMA)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("kind", BAD_PAYLOADS)
def test_a_bad_payload_is_refused_with_a_sentence(kind):
    bad, sentence = BAD_PAYLOADS[kind]
    with pytest.raises(InvalidPoint, match=sentence) as refused:
        check.plain_payload(bad)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    "good",
    [
        {"a": [None, True, 2**70]},
        nested(check.MAX_DEPTH - 1),
        {"nul\x00": "x\x00y", "emoji": "\U0001f600"},
    ],
)
def test_a_good_payload_stays_as_it_is(good):
    assert check.plain_payload(good) == good


def test_good_points_pass():
    rows = [(0, None), (2**64 - 1, {}), (5, {"d": [1, 2]}), (6, {"d": [0.0, 0.0]})]
    rows.append((str(uuid.uuid4()), {"s": {"indices": [], "values": []}}))
    check.check_points([GOOD, *((*row, None) for row in rows)], SCHEMA)


def test_a_payload_becomes_json_data():
    class Colour(enum.StrEnum):
        RED = "red"

    given = {
        "when": datetime(2024, 1, 2, 3),
        "day": date(2024, 1, 2),
        "id": uuid.UUID(int=1),
        "colour": Colour.RED,
        "pair": (1, 2),
        "array": np.array([1.5, 2.5]),
        "number": np.int64(3),
        "fraction": np.float64(0.5),
    }
    plain = check.plain_payload(given)

    assert type(plain["fraction"]) is float
    assert plain == {
        "when": "2024-01-02T03:00:00",
        "day": "2024-01-02",
        "id": "00000000-0000-0000-0000-000000000001",
        "colour": "red",
        "pair": [1, 2],
        "array": [1.5, 2.5],
        "number": 3,
        "fraction": 0.5,
    }


@pytest.mark.parametrize(
    ("vectors", "sparse_vectors", "sentence"),
    [
        ({}, {}, "at least one"),
        ({"d": {"size": 0}}, {}, "size from 1"),
        ({"d": {"size": -1}}, {}, "size from 1"),
        ({"x": {"size": 2}}, {"x": {}}, "dense and a sparse"),
        ({"a/b": {"size": 2}}, {}, "cannot name"),
        ({}, {"a\x00": {}}, "cannot name"),
    ],
)
def test_a_collection_that_could_not_work_is_refused(vectors, sparse_vectors, sentence):
    with pytest.raises(RequestError, match=sentence):
        check.check_schema(vectors, sparse_vectors)


@pytest.fixture
async def client(tmp_path):
    client = await EdgeClient.open(tmp_path / "engine", timeout=20)
    await client.create_collection(
        "c",
        {"d": models.VectorParams(size=2, distance="Dot")},
        {"s": models.SparseVectorParams(modifier="idf")},
    )
    yield client
    await client.close()


def good(i):
    return models.PointStruct(
        id=i,
        vector={"d": [1.0, float(i)], "s": models.SparseVector(indices=[1], values=[1.0])},
        payload={"n": i},
    )


POISON = [  # fewer sparse values than indices; too deep a payload
    models.PointStruct(id=9, vector={"s": models.SparseVector(indices=[1, 2], values=[1.0])}),
    models.PointStruct.model_construct(id=9, vector={}, payload=nested(5000)),
]


async def test_poison_is_refused_whole_and_the_shard_still_loads(client, tmp_path):
    await client.upsert("c", [good(1)])
    for poison in POISON:
        with pytest.raises(InvalidPoint):
            await client.upsert("c", [good(2), poison, good(3)])
    left = crashed(tmp_path / "engine", tmp_path / "crashed")
    await client.close()
    client = await EdgeClient.open(left, timeout=20)  # it reads the log
    points, _ = await client.scroll("c")

    assert [p.id for p in points] == [1]
    await client.upsert("c", [good(4)])
    query = models.SparseVector(indices=[1], values=[1.0])
    assert len(await nearest(client, "c", query, "s")) == 2
    await client.close()


async def test_a_wrong_query_is_refused_and_hurts_nothing(client):
    await client.upsert("c", [good(1)])
    for query in (
        {"vector": [1.0], "using": "d"},
        {"vector": [1.0, math.nan], "using": "d"},
        {"vector": models.SparseVector(indices=[1, 2], values=[1.0]), "using": "s"},
        {"vector": models.SparseVector(indices=[1], values=[1.0]), "using": "d"},
        {"vector": [1.0, 1.0], "using": "s"},
        {"vector": [1.0, 1.0], "using": "x"},
        {"vector": [1.0, 1.0]},
        {"vector": 77, "using": "d"},
        {"vector": [1.0, 1.0], "using": "d", "limit": -1},
    ):
        with pytest.raises(RequestError):
            await nearest(client, "c", **query)

    assert len(await nearest(client, "c", [1.0, 1.0], "d")) == 1


async def test_a_wrong_read_is_refused(client):
    await client.upsert("c", [good(1)])
    for read in (
        client.retrieve("c", ["no id"]),
        client.scroll("c", limit=-1),
        client.scroll("c", offset="no id"),
        client.facet("c", "n"),
    ):
        with pytest.raises((RequestError, InvalidPoint)):
            await read


async def test_a_payload_update_is_checked_like_a_point(client):
    await client.upsert("c", [good(1)])
    with pytest.raises(InvalidPoint):
        await client.set_payload("c", {"a": math.inf}, [1])
    with pytest.raises(InvalidPoint):
        await client.set_payload("c", nested(124), [1])
    with pytest.raises(InvalidPoint):
        await client.delete("c", ["no id"])
    (found,) = await client.retrieve("c", [1])

    assert found.payload == {"n": 1}
