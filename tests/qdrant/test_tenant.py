"""One tenant's view of an engine, on both engines."""

import asyncio
import inspect
import math
import shutil
from collections.abc import AsyncIterator

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import InvalidPoint, RequestError, UnknownCollection
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE
from mcp_server_qdrant.qdrant.engine import Ask, Corpus, Leg
from mcp_server_qdrant.qdrant.server.remote import RemoteClient
from mcp_server_qdrant.qdrant.tenant import Tenant, TenantClient
from tests.support import Clock, empty_edge, nearest

RED = Tenant("red", "tenant")
VECTORS = {"v": models.VectorParams(size=2, distance=models.Distance.COSINE)}
SPARSE = {
    "bm25": models.SparseVectorParams(modifier=models.Modifier.IDF),
    "plain": models.SparseVectorParams(),
}


@pytest.fixture(params=["memory", "edge"])
async def engine(request, engine_folder) -> AsyncIterator:
    """Both engines, one after the other."""
    if request.param == "edge":
        client = await empty_edge(engine_folder)
    else:
        client = await open_client(url=":memory:", timeout=5)
    yield await filled(client)
    await client.close()


async def filled(client):
    """The engine with points of red (1 to 4), of blue (11 to 20), of nobody (30)."""
    for name in ("both", "blues"):
        await client.create_collection(name, vectors_config=VECTORS, sparse_vectors_config=SPARSE)
    red = [point(n, tenant="red") for n in range(1, 5)]
    blue = [point(n, tenant="blue") for n in range(11, 20)]
    await client.upsert("both", [*red, *blue, point(20, tenant="blue"), point(30)])
    await client.upsert("blues", blue)
    return client


def point(number: int, **payload) -> models.PointStruct:
    """A point: term 1 in all, term 2 in even ones, term 3 in blue's alone."""
    terms = [1, *([2] if number % 2 == 0 else []), *([3] if 10 < number < 20 else [])]
    words = models.SparseVector(indices=terms, values=[1.0] * len(terms))
    angle = number / 10
    vector = {"v": [math.cos(angle), math.sin(angle)], "bm25": words, "plain": words}
    return models.PointStruct(id=number, vector=vector, payload={"n": number, **payload})


def view_of(engine, tenant=RED, **kwargs) -> TenantClient:
    return TenantClient(engine, tenant, **kwargs)


@pytest.fixture
def view(engine) -> TenantClient:
    """The view of red."""
    return view_of(engine)


def ids(points) -> list:
    return sorted(one.id for one in points)


MINE = [1, 2, 3, 4]


async def test_only_collections_with_a_readable_point_are_there(view):
    assert [one.name for one in (await view.get_collections()).collections] == ["both"]
    assert await view.collection_exists("both")
    assert not await view.collection_exists("blues")
    assert not await view.collection_exists("nowhere")
    with pytest.raises(UnknownCollection):
        await view.get_collection("blues")


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect")  # in the local mode
async def test_a_collection_counts_the_readable_points_alone(engine):
    await engine.create_payload_indexes("both", {"n": models.PayloadSchemaType.INTEGER})
    info = await view_of(engine).get_collection("both")

    assert info.points_count == len(MINE)
    assert info.indexed_vectors_count is None
    assert info.segments_count == 1
    assert isinstance(engine, EdgeClient | RemoteClient) == bool(info.payload_schema)
    assert all(index.points == 0 for index in info.payload_schema.values())


async def test_every_read_is_of_readable_points(engine, view):
    assert ids((await view.scroll("both", limit=99))[0]) == MINE
    assert ids(await view.retrieve("both", [1, 11, 20, 30])) == [1]
    assert await view.retrieve("both", []) == []
    assert (await view.count("both")).count == len(MINE)
    assert (await view.count("blues")).count == 0
    await engine.create_payload_indexes("both", {"n": models.PayloadSchemaType.INTEGER})
    facet = await view.facet("both", "n", limit=99)
    assert sorted(hit.value for hit in facet.hits) == MINE
    for query, using in (([1.0, 0.0], "v"), (sparse(1), "bm25"), (sparse(1), "plain")):
        assert ids(await nearest(view, "both", query, using, limit=99)) == MINE


@pytest.mark.parametrize(
    "where",
    [
        models.Filter(should=[models.HasIdCondition(has_id=[11, 1])]),
        models.Filter(must_not=[models.HasIdCondition(has_id=[2, 3, 4])]),
        models.Filter(
            min_should=models.MinShould(
                conditions=[models.HasIdCondition(has_id=[1, 11])], min_count=1
            )
        ),
        models.Filter(must=[models.Filter(should=[models.HasIdCondition(has_id=[1, 12])])]),
        models.Filter(must=[models.FieldCondition(key="n", range=models.Range(lte=1))]),
        models.Filter(
            should=[
                models.FieldCondition(key="tenant", match=models.MatchValue(value="blue")),
                models.HasIdCondition(has_id=[1]),
            ]
        ),
    ],
)
async def test_no_filter_widens_the_view(view, where):
    assert ids((await view.scroll("both", where, limit=99))[0]) == [1]
    assert (await view.count("both", where)).count == 1
    assert ids(await nearest(view, "both", [1.0, 0.0], "v", where=where, limit=99)) == [1]


async def test_the_engines_idf_is_of_the_readable_points(engine, view):
    """Term 2 is in two of red's four: ln((4 + 1) / (2 + 0.5)); blue's points do not count."""
    (found,) = await nearest(view, "both", sparse(2), "bm25", limit=1)

    assert found.score == pytest.approx(math.log(5 / 2.5), rel=1e-6)
    await engine.upsert("both", [point(n, tenant="blue") for n in range(100, 140)])
    (again,) = await nearest(view, "both", sparse(2), "bm25", limit=1)
    assert again.score == found.score


async def test_a_payload_does_not_tell_whose_it_is(engine):
    (own,) = await view_of(engine).retrieve("both", [1])
    found = await nearest(view_of(engine), "both", [1.0, 0.0], "v", limit=99)

    assert own.payload == {"n": 1}
    assert all(one.payload.keys() <= {"n"} for one in found)


async def test_what_is_written_is_the_tenants_whatever_it_says(engine, view):
    payload = {"tenant": "blue", "n": 50}
    await view.upsert("both", [models.PointStruct(id=50, vector={}, payload=payload)])

    (raw,) = await engine.retrieve("both", [50])
    assert raw.payload == {"tenant": "red", "n": 50}


async def test_a_deep_field_is_stamped_through_whatever_is_there():
    deep = Tenant("red", "metadata.org.tenant")
    given = {"metadata": {"org": [{"tenant": "blue"}], "x": 1}}

    assert deep.add_owner(given) == {"metadata": {"org": {"tenant": "red"}, "x": 1}}
    assert deep.add_owner({"metadata": None}) == {"metadata": {"org": {"tenant": "red"}}}
    assert given["metadata"]["org"] == [{"tenant": "blue"}]


@pytest.mark.parametrize("number", [11, 20, 30])
async def test_a_point_of_another_or_of_nobody_is_not_overwritten(engine, number):
    before = await engine.retrieve("both", [number], with_vectors=True)

    with pytest.raises(InvalidPoint):
        await view_of(engine).upsert("both", [point(1), point(number)])

    assert await engine.retrieve("both", [number], with_vectors=True) == before


@pytest.mark.parametrize(
    "chosen",
    [
        [1, 11, 20, 30],
        models.Filter(must=[models.HasIdCondition(has_id=[1, 11, 20, 30])]),
        models.Filter(must_not=[models.HasIdCondition(has_id=[2, 3, 4])]),
    ],
)
async def test_only_own_points_are_deleted_or_changed(engine, view, chosen):
    await view.set_payload("both", {"seen": 1}, chosen)
    changed = [r.id for r in (await engine.scroll("both", limit=99))[0] if "seen" in r.payload]
    await view.delete("both", chosen)

    assert changed == [1]
    left = ids((await engine.scroll("both", limit=99))[0])
    assert left == [2, 3, 4, *range(11, 21), 30]


@pytest.mark.parametrize(("payload", "key"), [({"tenant": "blue"}, None), ({"x": 1}, "tenant")])
async def test_whose_a_point_is_cannot_be_set_or_removed(engine, payload, key):
    with pytest.raises(RequestError, match="cannot be set"):
        await view_of(engine).set_payload("both", payload, [1], key=key)
    with pytest.raises(RequestError, match="cannot be removed"):
        await view_of(engine).delete_payload("both", [*payload, "tenant"], [1])


async def test_a_collection_of_others_is_as_new_to_who_makes_it(view):
    assert await view.create_collection("blues", vectors_config={})
    assert await view.create_collection("new", vectors_config=VECTORS)

    assert (await view.get_collection("blues")).points_count == 0
    assert (await view.get_collection("new")).points_count == 0


async def test_what_was_emptied_is_not_seen_any_longer(engine):
    view = view_of(engine, clock=Clock())
    await view.upsert("blues", [point(60)])
    assert await view.collection_exists("blues")

    await view.delete("blues", [60])

    assert not await view.collection_exists("blues")


async def test_names_that_anybody_may_invent_are_not_remembered(view):
    await view.collection_exists("both")

    for number in range(50):
        assert not await view.collection_exists(f"invented-{number}")

    assert [*view._seen] == ["both"]


async def test_a_look_that_began_before_a_store_does_not_hide_the_collection_after_it(engine):
    view = view_of(engine, clock=Clock())
    scroll, held = engine.scroll, asyncio.Event()

    async def slow(*args, **kwargs):
        found = await scroll(*args, **kwargs)
        await held.wait()
        return found

    engine.scroll = slow
    look = asyncio.ensure_future(view.get_collections())
    await asyncio.sleep(0.05)
    await view.upsert("blues", [point(60)])
    held.set()
    await look

    names = [one.name for one in (await view.get_collections()).collections]
    assert sorted(names) == ["blues", "both"]


async def test_what_is_not_confined_is_not_there():
    """New code that calls anything else fails at once, for every tenant."""
    allowed = {
        *("get_collections", "get_aliases", "collection_exists", "get_collection"),
        *("candidates", "idfs", "retrieve", "scroll", "count", "facet"),
    }
    writes = {"create_collection", "create_payload_indexes", "upsert", "delete", "set_payload"}
    writes |= {"delete_payload"}

    def public(kind):
        return {n for n, _ in inspect.getmembers(kind) if not n.startswith("_")}

    assert public(TenantClient) == allowed | writes


async def test_each_part_of_a_search_is_confined(engine, view):
    not_two = {"must_not": [{"has_id": [2]}]}
    legs = (
        Leg("v", [1.0, 0.0], not_two),
        Leg("bm25", {"indices": [1, 2, 3], "values": [1.0] * 3}, not_two),
        Leg("plain", {"indices": [3], "values": [1.0]}),
    )
    ask = Ask(("both",), legs, 60, 99)

    found = await view.candidates(ask)
    idf = await view.idfs(Corpus(("both",), "bm25", (1, 2, 3)))
    everything = await engine.candidates(ask)

    assert {one.id: one.payload for one in found.points} == {n: {"n": n} for n in (1, 3, 4)}
    assert idf == pytest.approx({1: math.log(5 / 4.5), 2: math.log(5 / 2.5)}, rel=1e-6)
    assert {11: {"n": 11, "tenant": "blue"}}.items() <= {
        one.id: one.payload for one in everything.points
    }.items()
    blues = {"should": [{"key": "tenant", "match": {"value": "blue"}}]}
    asking = Ask(("both",), (Leg("v", [1.0, 0.0], blues),), 60, 99, guard=blues)
    assert (await view.candidates(asking)).points == []


async def test_a_tenant_learns_that_points_are_missing_and_not_how_many_there_were(tmp_path):
    folder = tmp_path / "engine"
    client = await EdgeClient.open(folder)
    await client.create_collection("both", vectors_config=VECTORS, sparse_vectors_config=SPARSE)
    await client.upsert("both", [point(n, tenant="blue") for n in range(11, 20)])
    await client.upsert("both", [point(1, tenant="red")])
    await client.close()
    for segment in folder.glob("spaces/*/g-*/segments/*"):
        shutil.rmtree(segment)
    client = await EdgeClient.open(folder)
    view, ask = view_of(client), Ask(("both",), (Leg("v", [1.0, 0.0]),), 60, 9)

    info = await view.get_collection("both")
    damage = (await view.candidates(ask)).damage["both"]
    told = (await client.candidates(ask)).damage["both"]
    await client.close()

    assert [info.points_count, info.warnings[0].message, damage] == [1, INCOMPLETE, INCOMPLETE]
    assert told.startswith("9 of its 10 points are missing")


def sparse(*terms: int) -> models.SparseVector:
    return models.SparseVector(indices=list(terms), values=[1.0] * len(terms))
