"""Tenants kept apart through the whole server side, on both engines."""

import random
from collections.abc import AsyncIterator

import pytest

from mcp_server_qdrant.app.services import KEPT, Services, Shared
from mcp_server_qdrant.core.context import Caller, calling
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.server.remote import RemoteClient
from tests.fakes import FakeEncoder
from tests.support import empty_edge, find, make_settings, memory_engine, registry, remember, texts


def by(tenant, **claims):
    """A call of this tenant's."""
    return calling(Caller("someone", frozenset({"read", "write"}), {"tenant": tenant, **claims}))


class House:
    """Tenants over one engine."""

    def __init__(self, engine, encoder, **values) -> None:
        self.engine = engine
        self.encoder = encoder
        self.values = {"tenant_field": "tenant", "qdrant_read_only": True} | values
        self.tenants = self.anew()

    def anew(self) -> Shared:
        """Another server over the same engine, which remembers nothing."""
        return Shared(make_settings(**self.values), self.engine, registry(self.encoder))

    def of(self, tenant: str) -> Services:
        with by(tenant):
            return self.tenants.services_of_caller()


@pytest.fixture(params=["memory", "edge"])
async def house(request, tmp_path, engine_folder) -> AsyncIterator[House]:
    if request.param == "edge":
        client = await empty_edge(engine_folder)
        values = {"qdrant_url": None}
    else:
        client = await open_client(url=":memory:", timeout=5)
        values = {}
    made = House(client, FakeEncoder(), qdrant_cache_path=tmp_path / "cache", **values)
    yield made
    await made.tenants.close()


def prose(count: int, seed: int) -> list[str]:
    """Texts no two of which are alike to a query: which of equal hits come first is chance."""
    words = ["alpha", "copper", "bridge", "ember", "falcon", "delta", "garden", "piano", "river"]
    chance = random.Random(seed)
    return [" ".join(chance.choices(words, k=chance.randint(4, 40))) for _ in range(count)]


def ids(pages):
    return [[result.document.id for result in page.results] for page in pages]


def relevances(pages):
    return [result.relevance for page in pages for result in page.results]


async def test_what_others_insert_changes_nothing_in_my_results(house):
    """Same ids, same relevance: not the idf, nor N, nor the bound, nor the candidates."""
    queries = ("copper bridge", "alpha ember", "falcon river delta", "piano")
    red = house.of("red")
    await remember(red, "notes", *prose(40, 1))
    before = [await find(red, query, "notes", limit=20) for query in queries]

    blue = house.of("blue")
    await remember(blue, "notes", *prose(30, 2), *(f"copper bridge secret {n}" for n in range(60)))

    afterwards = [await find(red, query, "notes", limit=20) for query in queries]
    with by("red"):
        anew = house.anew().services_of_caller()
    fresh = [await find(anew, query, "notes", limit=20) for query in queries]
    for pages in (afterwards, fresh):
        assert ids(pages) == ids(before)
        assert relevances(pages) == pytest.approx(relevances(before), abs=1e-6)
    assert len(relevances(before)) == 80


async def test_new_collections_index_whose_a_point_is(house):
    await remember(house.of("red"), "notes", "a text")
    if not isinstance(house.engine, EdgeClient | RemoteClient):
        pytest.skip("the local mode has no indexes")

    schema = (await house.engine.get_collection("notes")).payload_schema

    assert schema["tenant"].params.is_tenant


async def test_pending_points_of_all_tenants_are_filled():
    encoder = FakeEncoder()
    async with memory_engine() as engine:
        house = House(engine, encoder)
        encoder.be("failed")
        for tenant in ("red", "blue"):
            (done,) = await remember(house.of(tenant), "notes", f"{tenant}'s text")
            assert done.pending
        encoder.be("ready")

        assert await house.of("red").shared._backfill.fill_all() == 2
        assert (await engine.retrieve("notes", list(done.ids)))[0].payload["tenant"] == "blue"
        await house.tenants.close()


@pytest.mark.parametrize("claim", [None, 7, ["red"], "", "  ", "x" * 256, True])
async def test_a_token_that_names_no_tenant_is_refused(claim):
    async with memory_engine() as engine:
        house = House(engine, FakeEncoder(), tenant_id="red")
        with pytest.raises(RequestError, match="needs the claim 'tenant', a string"):
            house.of(claim)


async def test_the_claim_has_the_name_that_the_settings_say():
    async with memory_engine() as engine:
        tenants = House(engine, FakeEncoder(), tenant_claim="https://x.example/org").tenants
        with by("red", **{"https://x.example/org": "blue"}):
            assert tenants.services_of_caller().store is not None
        assert list(tenants._known) == ["blue"]


async def test_without_a_caller_the_tenant_is_that_of_the_settings():
    async with memory_engine() as engine:
        house = House(engine, FakeEncoder(), tenant_id="red")
        await remember(house.of("red"), "notes", "red's text")
        await remember(house.of("blue"), "notes", "blue's text")

        assert texts(await find(house.tenants.services_of_caller(), "text")) == ["red's text"]


async def test_without_caller_and_setting_every_call_is_refused():
    async with memory_engine() as engine:
        house = House(engine, FakeEncoder())
        with pytest.raises(RequestError, match="This server has tenants"):
            house.tenants.services_of_caller()


async def test_the_tenants_not_used_for_longest_are_forgotten():
    async with memory_engine() as engine:
        house = House(engine, FakeEncoder())
        first = house.of("0")
        for number in range(1, KEPT + 1):
            house.of(str(number))

        assert len(house.tenants._known) == KEPT
        assert house.of("0") is not first


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"tenant_id": "red"}, "have no effect without TENANT_FIELD"),
        ({"tenant_field": "metadata"}, "is a field that this server writes"),
        ({"tenant_field": "doc.id"}, "is a field that this server writes"),
        ({"tenant_field": "a[].b"}, "must be a payload key"),
        ({"tenant_field": "a", "tenant_id": " "}, "is blank"),
    ],
)
def test_settings_that_keep_nobody_apart_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_settings(**values)
