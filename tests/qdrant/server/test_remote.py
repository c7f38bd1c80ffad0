"""A server or cluster: how collections are made and read, and what is tried again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from qdrant_client import models

from mcp_server_qdrant.app.services import Services, assemble
from mcp_server_qdrant.core.context import Caller, calling, within
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    BackendError,
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    QdrantMcpError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.server.remote import PAUSES, RemoteClient
from mcp_server_qdrant.qdrant.tenant import Tenant, TenantClient
from tests.fakes import FakeEncoder
from tests.qdrant.rest_stub import BROKEN, RestServer
from tests.support import (
    COSINE,
    IDF,
    find,
    make_settings,
    nearest,
    registry,
    remember,
    states,
    texts,
)

pytestmark = pytest.mark.usefixtures("at_once")

COUNT = "/collections/notes/points/count"
POINTS = "/collections/notes/points"
SEARCH = "/collections/notes/points/query/batch"
ALL = len(PAUSES) + 1


@asynccontextmanager
async def opened(server: RestServer, timeout: float = 5) -> AsyncIterator[RemoteClient]:
    client = await open_client(url=server.url, timeout=timeout)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def searching(server: RestServer, **values) -> AsyncIterator[Services]:
    settings = make_settings(**{"qdrant_url": server.url, "qdrant_read_only": True} | values)
    async with opened(server) as client:
        services = assemble(settings, client, registry(FakeEncoder()))
        try:
            yield services
        finally:
            await services.close()


async def made(client: RemoteClient) -> None:
    await client.create_collection(
        "notes", vectors_config={"v": COSINE}, sparse_vectors_config={"bm25": IDF}
    )


@pytest.mark.parametrize("refused", ["update", "retrieve"])
@pytest.mark.parametrize("strict", [True, False])
async def test_writes_to_a_collection_that_refuses_unindexed_filters_index_theirs(
    server, strict, refused
):
    limits = {"enabled": strict, f"unindexed_filtering_{refused}": False}
    async with searching(server) as services:
        await made(services.client)
        info = (await services.client.get_collection("notes")).model_dump(mode="json")
        info["config"]["strict_mode_config"] = limits
        server.garbage["/collections/notes"] = {"result": info}
        await remember(services, "notes", "roses")
        await services.store.writable("notes", "doc.file.source")

    indexed = [body["field_name"] for _, _, body in server.to("/collections/notes/index")]
    filtered = ("updated_at", "doc.writing", "doc.file.hash")
    assert [field in indexed for field in filtered] == [strict] * 3


async def test_where_a_filter_leaves_few_the_graph_is_searched_by_acorn(server):
    async with searching(server) as services:
        await made(services.client)
        await remember(services, "notes", "roses", metadata={"kind": "flower"})
        server.asked.clear()
        where = {"must": [{"key": "metadata.kind", "match": {"value": "flower"}}]}
        page = await find(services, "roses", "notes", query_filter=where)

    searches = [one for _, _, body in server.to(SEARCH) for one in body["searches"]]
    legs = [leg for one in searches for leg in one.get("prefetch", ())]
    assert [leg["params"]["acorn"] for leg in legs] == [{"enable": True}] * 2
    assert texts(page) == ["roses"]


async def test_reads_hand_their_deadline_to_the_server(server):
    async with opened(server, timeout=7.2) as client:
        await made(client)
        await client.count("notes")
        with within(2.5):
            await client.count("notes")
        with within(100):
            await client.count("notes")
        await client.count("notes", timeout=1)

    assert [query["timeout"] for _, query, _ in server.to(COUNT)] == ["8", "3", "8", "1"]


async def test_a_search_hands_on_the_time_it_has_left(server):
    async with searching(server, qdrant_timeout=3.75) as services:
        await remember(services, "notes", "roses need sun")
        before = len(server.to(SEARCH))
        page = await find(services, "roses", "notes")

    assert texts(page) == ["roses need sun"]
    searches = server.to(SEARCH)[before:]
    assert searches
    assert all(int(query["timeout"]) <= 3 for _, query, _ in searches)


@pytest.mark.parametrize("fault", [BROKEN, 502, 503])
async def test_a_read_is_tried_again_where_a_node_was_away(server, fault):
    async with opened(server) as client:
        await made(client)
        server.faults[f"POST {COUNT}"] = [fault] * (ALL - 1)
        counted = await client.count("notes")

    assert counted.count == 0
    assert len(server.to(COUNT)) == ALL


async def test_one_that_stays_away_is_unavailable_after_some_tries(server):
    async with opened(server) as client:
        await made(client)
        server.faults[f"POST {COUNT}"] = [503] * 9
        with pytest.raises(EngineUnavailable):
            await client.count("notes")

    assert len(server.to(COUNT)) == ALL


@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, EngineFailure), (504, EngineTimeout), (403, AccessRefused), (404, UnknownCollection)],
)
async def test_what_would_end_the_same_way_is_not_tried_again(server, status, kind):
    async with opened(server) as client:
        await made(client)
        server.faults[f"POST {COUNT}"] = [status] * 9
        with pytest.raises(kind):
            await client.count("notes")

    assert len(server.to(COUNT)) == 1


async def test_a_read_that_took_too_long_is_not_tried_again(server):
    async with opened(server) as client:
        await made(client)
        server.held.add(COUNT)
        with pytest.raises(EngineTimeout):
            await client.count("notes", timeout=1)

    assert len(server.to(COUNT)) == 1


async def test_an_upsert_is_tried_again_a_deletion_is_not(server):
    point = models.PointStruct(id=1, vector={"v": [1.0] * 64}, payload={})
    async with opened(server) as client:
        await made(client)
        server.faults[f"PUT {POINTS}"] = [BROKEN]
        server.faults[f"POST {POINTS}/delete"] = [BROKEN]
        await client.upsert("notes", [point])
        with pytest.raises(EngineUnavailable):
            await client.delete("notes", models.Filter(must=[]))

    assert len(server.to(POINTS)) == 2
    assert len(server.to(f"{POINTS}/delete")) == 1


DELETE = f"{POINTS}/delete"
DOUBT = "It may or may not have happened: look with qdrant-get or qdrant-find"


@pytest.mark.parametrize(
    ("fault", "doubt"),
    [(BROKEN, True), (500, True), (504, True), (503, False), (400, False), (403, False)],
)
async def test_a_write_that_the_server_may_have_done_says_so(server, fault, doubt):
    async with opened(server) as client:
        await made(client)
        server.faults[f"POST {DELETE}"] = [fault]
        with pytest.raises(QdrantMcpError) as failed:
            await client.delete("notes", models.Filter(must=[]))
        server.faults[f"POST {COUNT}"] = [fault] * ALL
        with pytest.raises(QdrantMcpError) as unread:
            await client.count("notes")

    assert (DOUBT in str(failed.value)) == doubt
    assert DOUBT not in str(unread.value)


async def test_a_write_that_takes_too_long_may_have_happened(server):
    async with opened(server, timeout=1) as client:
        await made(client)
        server.held.add(DELETE)
        with pytest.raises(EngineTimeout, match=DOUBT):
            await client.delete("notes", models.Filter(must=[]))


async def test_a_write_whose_first_try_broke_may_have_happened_whatever_became_of_the_last(server):
    point = models.PointStruct(id=1, vector={"v": [1.0] * 64}, payload={})
    async with opened(server) as client:
        await made(client)
        server.faults[f"PUT {POINTS}"] = [BROKEN, 503, 503]
        with pytest.raises(EngineUnavailable, match=DOUBT):
            await client.upsert("notes", [point])


async def test_a_write_to_where_nobody_listens_has_not_happened():
    client = await open_client(url="http://127.0.0.1:9", timeout=5)
    point = models.PointStruct(id=1, vector={"v": [1.0] * 64}, payload={})
    with pytest.raises(EngineUnavailable) as failed:
        await client.upsert("notes", [point])
    await client.close()

    assert DOUBT not in str(failed.value)


@pytest.mark.parametrize(("version", "told"), [("1.15.5", "need 1.16"), ("1.16.0", "refused with")])
async def test_what_an_old_server_refuses_is_told_by_its_age(server, version, told):
    server.version = version
    async with searching(server) as services:
        await remember(services, "notes", "roses need sun")
        server.faults[f"POST {SEARCH}"] = [400] * 9
        with pytest.raises(BackendError, match=told):
            await find(services, "roses", "notes", algorithm="semantic")


RED = Tenant("red", "tenant")
WORDS = models.SparseVector(indices=[2], values=[1.0])


async def test_words_are_weighed_over_the_points_of_a_tenant_alone(server):
    async with opened(server) as client:
        await made(client)
        view = TenantClient(client, RED)
        for _ in range(2):
            await nearest(view, "notes", WORDS, "bm25")
            await nearest(view, "notes", [1.0] * 64, "v")

    own = {"must": [{"key": "tenant", "match": {"value": "red"}}]}
    legs = [leg for _, _, body in server.to(SEARCH) for leg in body["searches"][0]["prefetch"]]
    assert [leg["filter"]["must"][0] for leg in legs] == [own] * 4
    assert [leg["params"].get("idf") for leg in legs] == [{"corpus": own}, None] * 2
    assert len(server.to("/")) == 1


async def test_a_server_that_cannot_weigh_words_per_tenant_is_refused_for_words_only(server):
    server.version = "1.18.3"
    async with opened(server) as client:
        await made(client)
        view = TenantClient(client, RED)
        with pytest.raises(EngineFailure, match=r"needs Qdrant 1.19 or newer; this one is 1.18.3"):
            await nearest(view, "notes", WORDS, "bm25")
        assert await nearest(view, "notes", [1.0] * 64, "v") == []


async def test_a_key_that_may_not_list_finds_the_collections_that_the_settings_name(server):
    async with searching(server) as everything:
        await remember(everything, "notes", "roses need sun")
        await remember(everything, "hidden", "roses need water")
    server.faults["GET /collections"] = [403] * 9

    async with searching(server, qdrant_collections=("notes", "absent", "team-*")) as services:
        page = await find(services, "roses")
        names = await services.catalog.names()

    assert names == ("notes",)
    assert texts(page) == ["roses need sun"]
    assert states(page) == {"notes": "ok"}


async def test_a_key_that_may_not_list_makes_the_default_collection_at_the_first_store(server):
    server.faults["GET /collections"] = [403] * 9

    async with searching(server, collection_name="notes") as services:
        assert await services.catalog.names() == ()
        await remember(services, "notes", "roses need sun")
        services.catalog.forget("notes")
        page = await find(services, "roses")

    assert texts(page) == ["roses need sun"]


async def test_of_the_names_in_the_settings_those_that_the_key_may_not_read_are_left_out(server):
    async with searching(server) as everything:
        await remember(everything, "notes", "roses need sun")
    server.faults["GET /collections"] = [403]
    server.faults["GET /collections/other/exists"] = [403]

    async with searching(server, qdrant_collections=("notes", "other")) as services:
        assert await services.catalog.names() == ("notes",)


async def test_a_key_that_may_not_list_and_no_names_is_a_sentence(server):
    server.faults["GET /collections"] = [403]

    async with searching(server) as services:
        with pytest.raises(AccessRefused, match="name them in QDRANT_COLLECTIONS"):
            await services.catalog.names()


async def test_a_key_that_is_wrong_altogether_is_not_taken_for_an_empty_engine(server):
    server.faults["GET /collections"] = [401]
    server.faults["GET /collections/notes/exists"] = [401]

    async with searching(server, qdrant_collections=("notes",)) as services:
        with pytest.raises(AccessRefused, match="check QDRANT_API_KEY"):
            await services.catalog.names()


ONE, OTHER = (Caller(name, frozenset()) for name in ("red", "blue"))


async def test_a_caller_has_a_share_of_the_requests_and_keeps_no_other_waiting(server, monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.qdrant.server.remote.SHARE", 2)
    async with opened(server) as client:
        await made(client)
        server.held.add(COUNT)
        with calling(ONE):
            slow = [asyncio.ensure_future(client.count("notes")) for _ in range(5)]
            for _ in range(2):
                await asyncio.to_thread(server.reached.acquire, timeout=20)
            further = asyncio.ensure_future(client.scroll("notes"))
        with calling(OTHER):
            records, _ = await client.scroll("notes")
        under_way, waits = len(server.to(COUNT)), not further.done()
        server.release.set()
        counts = await asyncio.gather(*slow)
        await further

    assert records == []
    assert (under_way, waits) == (2, True)
    assert [one.count for one in counts] == [0] * 5
