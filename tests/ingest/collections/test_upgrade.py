"""Collections brought up to date in place, on both engines, while they are used."""

import itertools
from functools import partial

import httpx
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from mcp_server_qdrant.core.errors import (
    EncoderUnavailable,
    EngineFailure,
    EngineTooOld,
    RequestError,
)
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest.collections import upgrade
from mcp_server_qdrant.ingest.collections.upgrade import PASSES, Upgrades
from mcp_server_qdrant.qdrant.errors import foreign_errors
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.engine import CONTENT_FIELDS
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    Engine,
    corpus,
    dense,
    find,
    foreign,
    memory_engine,
    memory_services,
    remember,
    texts,
)

VECTOR = "fast-bag-of-words"
TEXTS = corpus(40)
SAYS = {"embedding_model": "fake/Other", "embedding_provider": "fastembed"}


@pytest.fixture
async def engine(engine: Engine) -> Engine:
    """Each engine, with `notes` in it as the official server leaves it."""
    await official(engine)
    return engine


async def official(engine: Engine, name: str = "notes") -> None:
    """A collection as 0.8.1 makes it: one named dense vector, document and metadata."""
    await foreign(
        engine,
        name,
        {n: {"document": text, "metadata": {"n": n}} for n, text in enumerate(TEXTS, 1)},
        vectors={VECTOR: COSINE},
        values=lambda n: {VECTOR: dense(TEXTS[n - 1])},
    )


def upgrades(engine: Engine, told=lambda *_: None) -> Upgrades:
    return Upgrades(Bulk(engine, CONTENT_FIELDS), Bm25Encoder(), progress=told)  # type: ignore[arg-type]


async def stored(engine: Engine, name: str = "notes") -> dict:
    records, _ = await engine.scroll(name, limit=1000, with_payload=True, with_vectors=True)
    return {record.id: record for record in records}


async def metadata(engine: Engine, name: str = "notes") -> dict:
    return (await engine.get_collection(name)).config.metadata or {}


async def test_a_dense_collection_gets_keywords_and_keeps_all_it_had(engine):
    before = await stored(engine)
    told = []

    done = await upgrades(engine, lambda *line: told.append(line)).keywords("notes")
    after = await stored(engine)

    assert (await upgrades(engine).keywords("notes")).points == 0, "it is done"
    assert await stored(engine) == after
    assert (done.points, done.textless) == (len(TEXTS), 0)
    assert told[-1] == ("notes", len(TEXTS), len(TEXTS))
    assert after.keys() == before.keys()
    for point, record in after.items():
        expected = Bm25Encoder().encode_document(TEXTS[point - 1])
        assert record.payload == before[point].payload
        assert record.vector[VECTOR] == before[point].vector[VECTOR]
        found = dict(zip(record.vector["bm25"].indices, record.vector["bm25"].values, strict=True))
        assert found == pytest.approx(dict(zip(expected.indices, expected.values, strict=True)))


async def test_while_it_is_filled_searches_go_on_as_before_and_none_fails(engine, services):
    expected = await find(services, TEXTS[30], "notes")
    seen = []

    async def give(*given):
        await give.given(*given)
        services.catalog.forget("notes")
        seen.append(await find(services, TEXTS[30], "notes"))

    bulk = Bulk(engine, CONTENT_FIELDS)
    give.given, bulk.write_vector = bulk.write_vector, give
    upgrading = Upgrades(bulk, Bm25Encoder())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upgrade, "WORDS", 8)
        await upgrading.keywords("notes")

    assert len(seen) == 5
    for page in seen:
        assert [status.state for status in page.statuses] == ["ok"]
        assert [(r.document.id, r.relevance) for r in page.results] == [
            (r.document.id, r.relevance) for r in expected.results
        ]


async def test_what_was_cut_short_goes_on_and_is_not_searched_by_words_until_then(engine, services):
    engine.broken_methods["update_vectors"] = EngineFailure("It broke.")
    with pytest.raises(EngineFailure):
        await upgrades(engine).keywords("notes")
    engine.broken_methods.clear()
    target = await services.catalog.target("notes")
    (info,) = await services.catalog.describe()
    assert target.sparse is None
    assert target.filling.vector == "bm25"
    assert "run mcp-server-qdrant upgrade again" in info.note

    done = await upgrades(engine).keywords("notes")

    assert done.points == len(TEXTS)
    assert (await metadata(engine))["filling"] == []


class Meanwhile:
    """An engine to which something happens while the first texts of an upgrade are encoded."""

    def __init__(self, engine: Engine, happens) -> None:
        self._engine = engine
        self._happens = happens

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    async def retrieve(self, *arguments, **shown):
        happens, self._happens = self._happens, None
        if happens:
            await happens()
        return await self._engine.retrieve(*arguments, **shown)


async def test_a_text_stored_meanwhile_by_a_server_that_has_not_noticed_gets_its_keywords(
    engine, services
):
    await services.catalog.target("notes")  # remembered as it was
    store = partial(remember, services, "notes", "a zebra crossing")

    done = await upgrades(Meanwhile(engine, store)).keywords("notes")

    assert done.points == len(TEXTS) + 1
    assert await Bulk(engine, CONTENT_FIELDS).count_without("notes", "bm25") == 0


async def test_a_text_replaced_while_it_is_encoded_gets_the_words_of_the_new_one(engine):
    payload = {"document": "a zebra crossing", "metadata": None}
    replace = partial(engine.set_payload, "notes", payload, [7])

    await upgrades(Meanwhile(engine, replace)).keywords("notes")

    vector = (await stored(engine))[7].vector["bm25"]
    expected = Bm25Encoder().encode_document("a zebra crossing")
    assert sorted(vector.indices) == sorted(expected.indices)


async def test_a_text_stored_after_the_last_look_keeps_its_own_words(engine, services):
    """Between the last look at the old text and the writing of its vector."""
    written = engine.client.update_vectors
    await remember(services, "notes", "an old boat", id="x")
    point = services.store.points.identify("notes", "x", 0)

    async def late(*given, **how):
        engine.client.update_vectors = written
        services.catalog.forget("notes")
        await remember(services, "notes", "a zebra crossing", id="x")
        await written(*given, **how)

    engine.client.update_vectors = late
    await upgrades(engine).keywords("notes")

    (record,) = await engine.retrieve("notes", [point], with_payload=True, with_vectors=True)
    expected = Bm25Encoder().encode_document("a zebra crossing")
    assert record.payload["document"] == "a zebra crossing"
    assert sorted(record.vector["bm25"].indices) == sorted(expected.indices)


async def test_a_point_deleted_while_it_is_encoded_stops_nothing(engine):
    delete = partial(engine.delete, "notes", [7])

    done = await upgrades(Meanwhile(engine, delete)).keywords("notes")

    assert len(await stored(engine)) == len(TEXTS) - 1
    assert await Bulk(engine, CONTENT_FIELDS).count_without("notes", "bm25") == 0
    assert done.points in (len(TEXTS) - 1, len(TEXTS))


async def test_points_without_text_are_left_as_they_are_and_counted(engine):
    payloads = {91: {"n": 1}, 92: {"document": "..."}}
    points = [
        models.PointStruct(id=n, payload=payload, vector={VECTOR: dense("x")})
        for n, payload in payloads.items()
    ]
    await engine.upsert("notes", points)

    done = await upgrades(engine).keywords("notes")

    assert (done.points, done.textless) == (len(TEXTS), 2)
    assert (await metadata(engine))["filling"] == []


async def test_an_unnamed_vector_and_keywords_live_together(engine, services):
    await foreign(
        engine,
        "plain",
        {1: {"text": "copper bridge"}},
        vectors=COSINE,
        values=lambda n: dense("copper bridge"),
    )

    await upgrades(engine).keywords("plain")
    target = await services.catalog.target("plain")
    await remember(services, "plain", "ember falcon")
    page = await find(services, "ember", "plain")

    assert (target.dense.vector, target.sparse.vector) == ("", "bm25")
    assert texts(page)[0] == "ember falcon"


async def test_keyword_vectors_of_another_tool_are_left_alone(engine):
    idf = {"splade": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    await foreign(engine, "theirs", {}, vectors={"d": COSINE}, sparse=idf)

    with pytest.raises(RequestError, match="'splade'"):
        await upgrades(engine).keywords("theirs")


async def test_another_model_takes_over_in_place_and_the_old_vectors_stay(engine):
    new = FakeEncoder("fake/Other", size=32)
    async with memory_services(FakeEncoder(), new, engine=engine) as services:
        before = texts(await find(services, TEXTS[30], "notes", algorithm="semantic"))

        done = await upgrades(engine).model("notes", new, SAYS)
        stale = await find(services, TEXTS[30], "notes", algorithm="semantic")
        services.catalog.forget("notes")
        page = await find(services, TEXTS[30], "notes", algorithm="semantic")
        target = await services.catalog.target("notes")

    assert (done.vector, done.points, done.kept) == ("fast-other", len(TEXTS), (VECTOR,))
    assert (target.dense.vector, target.dense.model) == ("fast-other", "fake/Other")
    assert texts(stale) == before
    assert texts(page)[0] == TEXTS[30]
    assert new.queries == [TEXTS[30]]


async def test_a_server_of_the_new_model_does_not_search_its_vector_before_it_is_complete(engine):
    new = FakeEncoder("fake/Other", size=32)
    engine.broken_methods["update_vectors"] = EngineFailure("It broke.")
    with pytest.raises(EngineFailure):
        await upgrades(engine).model("notes", new, SAYS)

    async with memory_services(new, engine=engine) as services:
        assert (await services.catalog.target("notes")).dense is None

        engine.broken_methods.clear()
        await upgrades(engine).model("notes", new, SAYS)
        services.catalog.forget("notes")
        assert (await services.catalog.target("notes")).dense.vector == "fast-other"


async def test_old_and_never_filled_vectors_are_dropped_when_asked(engine):
    bulk = Bulk(engine, CONTENT_FIELDS)
    await bulk.begin_vector("notes", "fast-half", 8)
    new = FakeEncoder("fake/Other", size=32)
    done = await upgrades(engine).model("notes", new, SAYS, drop=True)

    assert (done.kept, {*done.dropped}) == ((), {VECTOR, "fast-half"})
    assert set((await stored(engine))[1].vector) == {"fast-other"}
    assert (await bulk.shape("notes")).filling == frozenset()


async def test_a_model_that_cannot_encode_or_is_of_another_size_changes_nothing(engine):
    new = FakeEncoder("fake/Other", size=32)
    new.be("failed")
    before = await Bulk(engine, CONTENT_FIELDS).shape("notes")
    with pytest.raises(EncoderUnavailable):
        await upgrades(engine).model("notes", new, SAYS)
    with pytest.raises(RequestError, match="another size: 64, and fake/Bag-of-Words makes 32"):
        await upgrades(engine).model("notes", FakeEncoder(size=32), SAYS)

    assert await Bulk(engine, CONTENT_FIELDS).shape("notes") == before


class Old:
    """An engine whose server cannot add vectors, as Qdrant before 1.18."""

    def __init__(self, engine: Engine, status: int = 404) -> None:
        self._engine = engine
        self._status = status

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    async def create_vector_name(self, name, *args, **kwargs):
        with foreign_errors(name):
            raise UnexpectedResponse(self._status, "Not Found", b"", httpx.Headers())


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_where_the_server_is_too_old_that_is_said_and_nothing_is_changed(status):
    async with memory_engine() as engine:
        await official(engine)
        before = await stored(engine)

        with pytest.raises(EngineTooOld, match=r"needs 1\.18 or newer"):
            await upgrades(Old(engine, status)).keywords("notes")

        assert await stored(engine) == before
        assert not (await metadata(engine)).get("filling")


async def test_a_text_that_is_another_one_at_each_look_is_not_waited_for():
    numbers = itertools.count()

    class Changing(Engine):
        async def retrieve(self, *arguments, **shown):
            records = await self.client.retrieve(*arguments, **shown)
            for record in records:
                record.payload = {"text": f"text {next(numbers)}"}
            return records

    async with memory_engine() as engine:
        await foreign(engine, "notes", {1: {"text": "one"}}, vectors={"v": COSINE})
        done = await upgrades(Changing(engine.client)).keywords("notes")

    assert done.points == 0
    assert next(numbers) <= PASSES * PASSES
