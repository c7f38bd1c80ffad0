"""Tenants kept apart through the whole server side, on both engines."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

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


async def test_a_tenant_sees_and_changes_its_own_earlier_versions_alone(house):
    red, blue = house.of("red"), house.of("blue")
    for one, words in ((red, "red"), (blue, "blue")):
        for text in ("first", "second", "third"):
            await remember(one, "notes", f"{words} {text}", id="x")
    theirs = await blue.history.versions("x")

    assert [one.document.text for one in theirs] == ["blue second", "blue first"]
    for wanted in (theirs[0].id, "x@2020-01-01", *(str(p) for p in [theirs[0].document.id])):
        found = await red.history.version(wanted)
        assert found is None or found.document.text.startswith("red")
    assert await red.history.erase("x") == 2
    assert await red.history.versions() == []
    assert await blue.history.versions("x") == theirs
    assert (await blue.history.version(theirs[1].id)).document.text == "blue first"
    for one in (red, blue):
        assert await one.catalog.names() == ("notes",)


async def test_what_a_collection_is_about_is_made_of_own_texts(house):
    red, blue = house.of("red"), house.of("blue")
    await remember(blue, "notes", *["zebrafish budget"] * 2, "zebrafish plan")
    await remember(red, "notes", "copper bridge", "copper garden")
    for services in (red, blue):
        await services.describe_collections(["notes"])
        await services.lexicon.settled()
    (ours,), (theirs,) = (
        await red.describe_collections(["notes"]),
        await blue.describe_collections(["notes"]),
    )

    assert ours.description == "copper, bridge, garden"
    assert theirs.description == "zebrafish, budget, plan"


async def test_tags_and_spelling_are_of_own_texts(house):
    red, blue = house.of("red"), house.of("blue")
    await remember(blue, "notes", "zebrafish budget", "quixotic plan", tags=("obsidian",))
    await remember(red, "notes", "the garden plan", "lettuce first", tags=("green",))

    page = await find(red, "zebrafsh obsidian letuce", "notes", explain=True)
    await red.lexicon.settled()
    again = await find(red, "zebrafsh obsidian letuce", "notes", explain=True)

    assert [one.to for one in again.corrections] == ["lettuce"]
    assert set(texts(page)) | set(texts(again)) == {"the garden plan", "lettuce first"}
    assert "obsidian" not in str(again.results)
    assert (await red.pipeline.understanding.tags.facets("notes", 9)) in (
        [("tags", "green")],
        [("tags", "green"), ("metadata.tags", "green")],
    )


async def test_a_tenant_hears_of_better_matches_in_its_own_texts_alone(house):
    house.values["collection_name"] = "notes"
    house.tenants = house.anew()
    red, blue = house.of("red"), house.of("blue")
    await remember(red, "notes", "moss of the river in the shade", "piano of alpha")
    await remember(red, "both", "garden of delta")
    for name in ("both", "theirs"):
        await remember(blue, name, "copper bridge river", "falcon of delta")

    before = await find(red, "copper bridge river")
    await remember(red, "mine", "copper bridge river", "falcon of delta")
    after = await find(red, "copper bridge river")

    assert [note.split(":")[0] for note in before.notes] == ["Weak matches only"]
    assert [one.document.collection for one in after.results if one.elsewhere] == ["mine"]


async def test_caches_on_disk_are_of_one_tenant(house):
    red, blue = house.of("red"), house.of("blue")

    if isinstance(house.engine, EdgeClient):  # nothing is kept of a trial
        assert red.lexicon.path(Path(), "notes") != blue.lexicon.path(Path(), "notes")


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
