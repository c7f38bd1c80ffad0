"""The embedded engine answers as Qdrant does: one suite over EdgeClient and the local mode."""

import math
import uuid
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError, UnknownCollection
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.questions import SearchClient
from tests.support import nearest

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]

NAME = "Books and more"
UUID = str(uuid.UUID(int=7))
COLOURS = ["red", "green", "blue"]


@pytest.fixture(params=["edge", "memory"])
async def client(request, tmp_path):
    if request.param == "memory":
        client = SearchClient(location=":memory:")
    else:
        client = await EdgeClient.open(tmp_path, timeout=20)
    client.is_edge = request.param == "edge"
    yield client
    await client.close()


@asynccontextmanager
async def edge_on(path):
    client = await EdgeClient.open(path, timeout=20)
    yield client
    await client.close()


def point(i):
    payload = {
        "n": i,
        "colour": COLOURS[i % 3],
        "even": i % 2 == 0,
        "tags": [COLOURS[i % 3], f"t{i % 5}"],
        "text": f"the quick brown fox number {i} jumps",
        "when": f"2024-01-{i + 1:02d}T00:00:00Z",
        "place": {"lon": 10.0 + i, "lat": 50.0},
        "parts": [{"kind": "a", "size": i}, {"kind": "b", "size": 100 - i}],
        "deep": {"er": {"x": i % 4}},
    }
    if i % 4 == 0:
        payload["nothing"] = None
    if i % 4 == 1:
        payload["nothing"] = []
    if i % 4 == 2:
        payload["nothing"] = "some"
    vector = {"d": [math.cos(i / 7), math.sin(i / 7), 0.1, 0.0]}
    if i % 6:
        vector["bm25"] = models.SparseVector(
            indices=[1, 10 + i % 3, 100 + i], values=[1.0 + i / 10, 2.0, 0.5]
        )
    return models.PointStruct(id=i, vector=vector, payload=payload)


@pytest.fixture
async def books(client):
    await client.create_collection(
        NAME,
        {"d": models.VectorParams(size=4, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        metadata={"model": "tiny"},
    )
    await client.upsert(NAME, [point(i) for i in range(30)])
    return client


def field(key, **test):
    return models.FieldCondition(key=key, **test)


def must(*conditions):
    return models.Filter(must=list(conditions))


def ids(found):
    return [p.id for p in getattr(found, "points", found)]


def equal(key, value):
    return {"key": key, "match": {"value": value}}


def within(key, **limits):
    return {"key": key, "range": limits}


def at(lon, lat):
    return {"lon": lon, "lat": lat}


def geo(kind, **area):
    return {"must": [{"key": "place", f"geo_{kind}": area}]}


RED, EVEN = equal("colour", "red"), equal("even", True)
CORNERS = [(9, 49), (12.5, 49), (12.5, 51), (9, 51), (9, 49)]
FILTERS = {  # in REST form, with the number of points
    "a keyword": ({"must": [RED]}, 10),
    "an integer": ({"must": [equal("n", 7)]}, 1),
    "true": ({"must": [EVEN]}, 15),
    "false": ({"must": [equal("even", False)]}, 15),
    "any of texts": ({"must": [{"key": "colour", "match": {"any": ["red", "blue"]}}]}, 20),
    "any of integers": ({"must": [{"key": "n", "match": {"any": [1, 2, 99]}}]}, 2),
    "any of nothing": ({"must": [{"key": "n", "match": {"any": []}}]}, 0),
    "none of texts": ({"must": [{"key": "colour", "match": {"except": ["red"]}}]}, 20),
    "an array element": ({"must": [equal("tags", "t1")]}, 6),
    "an array element by []": ({"must": [equal("tags[]", "t1")]}, 6),
    "a word": ({"must": [{"key": "text", "match": {"text": "quick"}}]}, 30),
    "a range": ({"must": [within("n", gte=10, lt=20)]}, 10),
    "a range of floats": ({"must": [within("n", gt=9.5, lte=12.5)]}, 3),
    "dates": ({"must": [within("when", gte="2024-01-11T00:00:00Z")]}, 20),
    "naive dates": ({"must": [within("when", lt="2024-01-11T00:00:00")]}, 10),
    "match and range at once": ({"must": [equal("n", 7) | within("n", gte=8)]}, 0),
    "a nested key": ({"must": [equal("deep.er.x", 2)]}, 7),
    "a key of array items": ({"must": [within("parts[].size", gte=100)]}, 1),
    "one array item": (
        {
            "must": {
                "nested": {
                    "key": "parts",
                    "filter": {"must": [equal("kind", "b"), within("size", lt=80)]},
                }
            }
        },
        9,
    ),
    "ids": ({"must": [{"has_id": [1, 2, 2, 77]}]}, 2),
    "no ids": ({"must": [{"has_id": []}]}, 0),
    "a vector": ({"must": [{"has_vector": "bm25"}]}, 25),
    "empty": ({"must": [{"is_empty": {"key": "nothing"}}]}, 23),
    "null": ({"must": [{"is_null": {"key": "nothing"}}]}, 8),
    "a number of values": ({"must": [{"key": "tags", "values_count": {"gte": 2}}]}, 30),
    "a box": (geo("bounding_box", top_left=at(9.0, 51.0), bottom_right=at(14.5, 49.0)), 5),
    "a radius": (geo("radius", center=at(10.0, 50.0), radius=150_000.0), 3),
    "a polygon": (geo("polygon", exterior={"points": [at(*one) for one in CORNERS]}), 3),
    "should": ({"should": [equal("n", 1), RED]}, 11),
    "must not": ({"must_not": [EVEN]}, 15),
    "two of three": (
        {"min_should": {"conditions": [EVEN, RED, within("n", lt=10)], "min_count": 2}},
        10,
    ),
    "filters in filters": ({"must": [{"should": [within("n", lt=2)]}, {}]}, 2),
    "one condition without a list": ({"must": equal("n", 3)}, 1),
    "nothing": ({}, 30),
}


@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
async def test_a_filter_finds_what_it_says(books, indexed):
    if not books.is_edge and indexed:
        pytest.skip("the local mode has no indexes")
    if indexed:
        keys = {"colour": "keyword", "n": "integer", "even": "bool", "tags": "keyword"}
        keys |= {"text": "text", "when": "datetime", "place": "geo", "deep.er.x": "integer"}
        await books.create_payload_indexes(NAME, keys)
    for kind, (raw, expected) in FILTERS.items():
        chosen = models.Filter.model_validate(raw)
        if kind == "match and range at once" and not isinstance(books, EdgeClient):
            continue  # local mode and server do not take both; a caller's filter asks them apart
        points, _ = await books.scroll(NAME, chosen, limit=100, with_payload=False)
        found = await nearest(books, NAME, [1.0, 0, 0, 0], "d", where=chosen, limit=100)

        assert (await books.count(NAME, chosen)).count == len(points) == expected, kind
        assert sorted(ids(found)) == sorted(ids(points)), kind


async def test_nearest_comes_first_with_its_cosine(books):
    found = await nearest(books, NAME, [1.0, 0.0, 0.0, 0.0], "d", limit=3)

    assert ids(found) == [0, 1, 2]
    assert found[0].score == pytest.approx(1 / math.sqrt(1.01), abs=1e-5)
    assert found[0].payload == point(0).payload


async def test_sparse_scores_carry_the_collections_idf(books):
    words = models.SparseVector(indices=[105], values=[1.0])
    found = await nearest(books, NAME, words, "bm25", limit=3)

    assert ids(found) == [5]
    assert found[0].score == pytest.approx(0.5 * math.log((25 - 1 + 0.5) / 1.5 + 1), 1e-4)


async def test_a_scroll_can_be_ordered_by_an_indexed_field(books):
    order = models.OrderBy(
        key="when", direction="desc", start_from=datetime(2024, 1, 20, tzinfo=UTC)
    )
    await books.create_payload_indexes(NAME, {"when": "datetime"})
    points, following = await books.scroll(NAME, limit=3, order_by=order, with_payload=["n"])

    assert [p.payload["n"] for p in points] == [19, 18, 17]
    assert following is None


async def test_scrolling_visits_every_point_once(books):
    seen, offset = [], None
    while True:
        points, offset = await books.scroll(NAME, limit=7, offset=offset, with_payload=False)
        seen += ids(points)
        if offset is None:
            break

    assert seen == list(range(30))


async def test_retrieve_gives_the_points_that_exist(books):
    found = await books.retrieve(
        NAME, [3, 1, 999], with_payload=["colour"], with_vectors=["d", "bm25"]
    )

    assert sorted(ids(found)) == [1, 3]
    three = next(p for p in found if p.id == 3)
    assert three.payload == {"colour": "red"}
    assert three.vector["d"] == pytest.approx(
        [v / math.sqrt(1.01) for v in point(3).vector["d"]], abs=1e-5
    )
    assert sorted(three.vector["bm25"].indices) == [1, 10, 103]
    (bare,) = await books.retrieve(NAME, [3], with_payload=False)
    assert not bare.payload


async def test_facets_count_the_values_of_an_indexed_field(books):
    if books.is_edge:
        with pytest.raises(RequestError, match=r"no payload index|Please create one"):
            await books.facet(NAME, "tags", limit=4)
    await books.create_payload_indexes(NAME, {"tags": "keyword"})
    await books.create_payload_indexes(NAME, {"even": "bool"})
    tags = await books.facet(NAME, "tags", limit=4)
    even = await books.facet(
        NAME, "even", facet_filter=must(field("colour", match=models.MatchValue(value="red")))
    )

    counts = {hit.value: hit.count for hit in tags.hits}
    assert len(counts) == 4
    assert [counts[colour] for colour in COLOURS] == [10, 10, 10]
    assert {hit.value: hit.count for hit in even.hits} == {True: 5, False: 5}


async def test_a_uuid_is_an_id_like_any_other(books):
    await books.upsert(
        NAME, [models.PointStruct(id=UUID, vector={"d": [0, 0, 0, 1.0]}, payload={"x": 1})]
    )

    assert ids(await books.retrieve(NAME, [UUID])) == [UUID]
    assert ids(await nearest(books, NAME, [0, 0, 0, 1.0], "d", limit=1)) == [UUID]
    one = must(models.HasIdCondition(has_id=[UUID]))
    assert (await books.count(NAME, one)).count == 1


async def test_an_upsert_replaces_the_whole_point(books):
    new = models.PointStruct(id=3, vector={"d": [0, 0, 0, 1.0]}, payload={"new": True})
    await books.upsert(NAME, [new])
    (found,) = await books.retrieve(NAME, [3], with_vectors=True)

    assert found.payload == {"new": True}
    assert set(found.vector) == {"d"}
    assert (await books.count(NAME)).count == 30


async def test_dates_in_a_payload_become_iso_texts(books):
    """The local mode keeps the objects; the server, like this engine, stores JSON."""
    when = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    await books.upsert(
        NAME, [models.PointStruct(id=1, vector={}, payload={"when": when, "many": (1, 2)})]
    )
    (found,) = await books.retrieve(NAME, [1])

    if books.is_edge:
        assert found.payload["many"] == [1, 2]
        assert datetime.fromisoformat(found.payload["when"]) == when  # a server is sent "Z"


async def test_payload_is_merged_and_removed(books):
    await books.set_payload(NAME, {"colour": "pink", "extra": 1}, [1, 2])
    await books.set_payload(NAME, {"y": 2}, [1], key="deep.er")
    chosen = models.Filter(must=[models.HasIdCondition(has_id=[4])])
    await books.delete_payload(NAME, ["n", "text"], chosen)
    one, two, four = await books.retrieve(NAME, [1, 2, 4])

    assert (one.payload["colour"], two.payload["extra"]) == ("pink", 1)
    assert one.payload["deep"] == {"er": {"x": 1, "y": 2}}
    assert {"n", "text"}.isdisjoint(four.payload)


async def test_a_payload_for_a_missing_id_changes_only_the_others(books):
    if not books.is_edge:
        pytest.skip("the local mode raises a KeyError")
    told = pytest.raises(RequestError, match="No point with id 999")  # by a server, all the same
    with nullcontext() if isinstance(books, EdgeClient) else told:
        await books.set_payload(NAME, {"seen": 1}, [999, 2, 1])

    assert [p.payload.get("seen") for p in await books.retrieve(NAME, [1, 2])] == [1, 1]
    assert (await books.count(NAME)).count == 30


async def test_points_are_deleted_by_id_and_by_filter(books):
    await books.delete(NAME, [1, 2, 999])
    await books.delete(NAME, [3])
    by_colour = must(field("colour", match=models.MatchValue(value="red")))
    await books.delete(NAME, by_colour)

    left, _ = await books.scroll(NAME, limit=100)
    assert ids(left) == [i for i in range(4, 30) if i % 3]
    assert (await books.get_collection(NAME)).points_count == len(left)


async def test_vectors_are_updated_one_by_one(books):
    await books.update_vectors(NAME, [models.PointVectors(id=1, vector={"d": [0, 0, 0, 2.0]})])
    (one,) = await books.retrieve(NAME, [1], with_vectors=True)

    assert one.vector["d"] == pytest.approx([0, 0, 0, 1.0])
    assert set(one.vector) == {"d", "bm25"}
    has = must(models.HasVectorCondition(has_vector="bm25"))
    assert (await books.count(NAME, has)).count == 25


async def test_a_collection_tells_its_parameters_and_metadata(books):
    info = await books.get_collection(NAME)

    assert info.points_count == 30
    assert info.config.metadata == {"model": "tiny"}
    params = info.config.params
    assert params.vectors["d"].size == 4
    assert params.vectors["d"].distance == models.Distance.COSINE
    assert params.sparse_vectors["bm25"].modifier == models.Modifier.IDF


async def test_metadata_is_merged(books):
    """As in the server; the local mode replaces it."""
    await books.update_collection(NAME, metadata={"owner": "me"})
    metadata = (await books.get_collection(NAME)).config.metadata

    assert metadata["owner"] == "me"
    if books.is_edge:
        assert metadata["model"] == "tiny"


async def test_collections_are_listed_and_deleted(books):
    assert await books.collection_exists(NAME)
    assert [c.name for c in (await books.get_collections()).collections] == [NAME]
    assert await books.delete_collection(NAME)
    assert not await books.collection_exists(NAME)
    assert (await books.get_collections()).collections == []


async def test_an_unknown_collection_is_an_error_everywhere(client):
    for call in (
        client.get_collection("nope"),
        nearest(client, "nope", [1.0]),
        client.upsert("nope", [models.PointStruct(id=1, vector=[1.0])]),
        client.scroll("nope"),
        client.count("nope"),
        client.retrieve("nope", [1]),
        client.facet("nope", "x"),
        client.delete("nope", [1]),
        client.set_payload("nope", {"a": 1}, [1]),
    ):
        with pytest.raises(UnknownCollection, match="nope"):
            await call


async def test_an_existing_collection_is_not_made_again(books):
    with pytest.raises(QdrantMcpError, match="already exists"):
        await books.create_collection(NAME, models.VectorParams(size=2, distance="Dot"))


async def test_an_unnamed_vector_needs_no_name(client):
    await client.create_collection("u", models.VectorParams(size=2, distance="Dot"))
    await client.upsert(
        "u", [models.PointStruct(id=i, vector=[float(i), 1.0], payload={}) for i in range(5)]
    )
    found = await nearest(client, "u", [1.0, 0.0], limit=2)
    (four,) = await client.retrieve("u", [4], with_vectors=True)

    assert ids(found) == [4, 3]
    assert four.vector == [4.0, 1.0]
    assert found[0].score == 4.0
    info = await client.get_collection("u")
    assert info.config.params.vectors.size == 2
    by_vector = must(models.HasVectorCondition(has_vector=""))
    assert (await client.count("u", by_vector)).count == 5


async def test_a_collection_may_be_sparse_only(client):
    await client.create_collection("s", {}, {"bm25": models.SparseVectorParams()})
    words = {i: models.SparseVector(indices=[1, i + 2], values=[i, 1.0]) for i in range(1, 4)}
    points = [models.PointStruct(id=i, vector={"bm25": one}) for i, one in words.items()]
    await client.upsert("s", points)
    query = models.SparseVector(indices=[1], values=[2.0])
    found = await nearest(client, "s", query, "bm25", limit=2)

    assert [(p.id, p.score) for p in found] == [(3, 6.0), (2, 4.0)]
    info = await client.get_collection("s")
    assert not info.config.params.vectors
    assert set(info.config.params.sparse_vectors) == {"bm25"}


async def test_an_unknown_vector_name_is_an_error(books):
    with pytest.raises(QdrantMcpError, match="zz"):
        await nearest(books, NAME, [1.0, 0, 0, 0], "zz")


async def test_payload_indexes_are_listed(books):
    """The local mode has no indexes to list."""
    if not books.is_edge:
        pytest.skip("the local mode has no payload indexes")
    text = models.TextIndexParams(
        type="text", tokenizer="word", lowercase=True, phrase_matching=True
    )
    await books.create_payload_indexes(NAME, {"text": text})
    await books.create_payload_indexes(NAME, {"colour": models.PayloadSchemaType.KEYWORD})
    schema = (await books.get_collection(NAME)).payload_schema
    assert {key: index.data_type.value for key, index in schema.items()} == {
        "text": "text",
        "colour": "keyword",
    }
    assert schema["text"].params.phrase_matching
    assert schema["colour"].points == 30
    phrase = must(field("text", match=models.MatchPhrase(phrase="brown fox")))
    assert (await books.count(NAME, phrase)).count == 30


SPARSE = models.SparseVectorNameConfig(
    sparse=models.SparseVectorConfig(modifier=models.Modifier.IDF)
)
DENSE = models.DenseVectorNameConfig(
    dense=models.DenseVectorConfig(size=2, distance=models.Distance.DOT)
)


async def test_a_vector_is_added_to_points_that_exist_and_is_searched(books):
    await books.create_vector_name(NAME, "more", SPARSE)
    await books.create_vector_name(NAME, "new", DENSE)
    names = ("more", "new", "d")
    having = {name: must(models.HasVectorCondition(has_vector=name)) for name in names}
    assert (await books.count(NAME, having["more"])).count == 0

    updates = [
        models.PointVectors(
            id=n,
            vector={
                "more": models.SparseVector(indices=[n, 70], values=[1.0, 1.0]),
                "new": [float(n), 1.0],
            },
        )
        for n in (3, 4)
    ]
    await books.update_vectors(NAME, updates)

    counts = {name: (await books.count(NAME, where)).count for name, where in having.items()}
    assert counts == {"more": 2, "new": 2, "d": 30}
    words = models.SparseVector(indices=[4], values=[1.0])
    assert ids(await nearest(books, NAME, words, "more")) == [4]
    assert ids(await nearest(books, NAME, [1.0, 0.0], "new")) == [4, 3]
    vectors = (await books.get_collection(NAME)).config.params.vectors
    assert vectors["new"].size == 2


async def test_a_vector_that_is_there_is_added_again_without_effect_but_not_another(books):
    await books.create_vector_name(NAME, "bm25", SPARSE)
    await books.create_vector_name(NAME, "new", DENSE)
    await books.create_vector_name(NAME, "new", DENSE)

    assert (await books.count(NAME, must(models.HasVectorCondition(has_vector="bm25")))).count == 25
    other = models.DenseVectorNameConfig(
        dense=models.DenseVectorConfig(size=3, distance=models.Distance.DOT)
    )
    for name, config in (("new", other), ("d", SPARSE), ("bm25", DENSE), ("a/b", DENSE)):
        with pytest.raises(QdrantMcpError):
            await books.create_vector_name(NAME, name, config)


async def test_a_vector_is_taken_away_and_the_others_stay(books):
    await books.delete_vector_name(NAME, "bm25")
    await books.delete_vector_name(NAME, "bm25")

    (record,) = await books.retrieve(NAME, [1], with_vectors=True)
    assert list(record.vector) == ["d"]
    assert not (await books.get_collection(NAME)).config.params.sparse_vectors
    words = models.SparseVector(indices=[4], values=[1.0])
    with pytest.raises(QdrantMcpError):
        await nearest(books, NAME, words, "bm25")


async def test_an_added_vector_survives_the_engines_end(tmp_path):
    async with edge_on(tmp_path / "added") as client:
        await client.create_collection("c", {"d": models.VectorParams(size=2, distance="Dot")})
        await client.upsert("c", [models.PointStruct(id=1, vector={"d": [1.0, 2.0]}, payload={})])
        await client.create_vector_name("c", "bm25", SPARSE)
        sparse = models.SparseVector(indices=[5], values=[1.0])
        await client.update_vectors("c", [models.PointVectors(id=1, vector={"bm25": sparse})])
    async with edge_on(tmp_path / "added") as client:
        (record,) = await client.retrieve("c", [1], with_vectors=True)
        assert record.vector == {"d": [1.0, 2.0], "bm25": sparse}
        await client.delete_vector_name("c", "bm25")
        with pytest.raises(RequestError, match="only vector"):
            await client.delete_vector_name("c", "d")
