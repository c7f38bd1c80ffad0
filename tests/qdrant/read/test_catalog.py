"""Which collections there are, which may be seen, how each is searched."""

import asyncio
from pathlib import Path

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import DenseLeg, SparseLeg
from mcp_server_qdrant.core.errors import EngineFailure, RequestError, UnknownCollection
from mcp_server_qdrant.qdrant.read.catalog import (
    FAILED_SECONDS,
    NAMES_SECONDS,
    TARGET_SECONDS,
    Catalog,
)
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests.support import COSINE, IDF, SIZE, Clock, Engine, OneModel, dense, either_engine, foreign

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
NAME = "fast-all-minilm-l6-v2"


def vector(size: int = SIZE, distance: models.Distance = models.Distance.COSINE, **rest):
    return models.VectorParams(size=size, distance=distance, **rest)


def catalog_of(engine: Engine, *, size: int | None = SIZE, **options) -> Catalog:
    return Catalog(engine, OneModel(MODEL, NAME, size), **options)


async def made(engine: Engine, *names: str) -> None:
    for name in names:
        await foreign(engine, name, {}, vectors={NAME: vector()})


async def names_of(catalog: Catalog, wanted) -> list[str]:
    return [target.collection for target in await catalog.resolve(wanted)]


async def test_names_are_sorted_and_two_seconds_old_at_most(memory):
    clock = Clock()
    catalog = catalog_of(memory, clock=clock)
    await made(memory, "b", "a")
    assert await catalog.names() == ("a", "b")

    await made(memory, "c")
    assert await catalog.names() == ("a", "b")

    clock.now += NAMES_SECONDS
    assert await catalog.names() == ("a", "b", "c")


async def test_null_means_the_default_collection_or_all_of_them(memory):
    await made(memory, "a", "b")

    assert await names_of(catalog_of(memory), None) == ["a", "b"]
    assert await names_of(catalog_of(memory, default="b"), None) == ["b"]
    assert await names_of(catalog_of(memory, default="c"), None) == []


class TestFolders:
    @staticmethod
    async def settled(engine, tmp_path: Path) -> None:
        """`a` and `b` belong to a folder, `deep` to one in it, `free` to none."""
        (tmp_path / "own" / "deep" / "er").mkdir(parents=True)
        await made(engine, "a", "b", "deep", "free")
        for name, folder in (("a", "own"), ("b", "own"), ("deep", "own/deep")):
            await Bulk(engine, ()).set_folders(name, [tmp_path / folder])

    @pytest.mark.parametrize(
        ("where", "searched"),
        [
            ("own", ["a", "b"]),
            ("own/deep", ["a", "b", "deep"]),
            ("own/deep/er", ["a", "b", "deep"]),
            (".", ["*"]),
            ("own-not", ["*"]),  # a longer name is no folder within
        ],
    )
    async def test_a_search_in_a_folder_is_for_its_collections_and_those_of_folders_above(
        self, tmp_path, where, searched, memory
    ):
        await self.settled(memory, tmp_path)
        catalog = catalog_of(memory, folder=tmp_path / where)

        assert (
            await catalog.default_names()
            == await catalog.default_names(tmp_path / where)
            == searched
        )

    async def test_without_a_folder_nothing_is_looked_up(self, tmp_path, memory):
        await self.settled(memory, tmp_path)
        memory.calls.clear()

        assert await catalog_of(memory).folder_collections() == []
        assert memory.calls == []

    async def test_a_folder_is_the_same_by_whatever_links_lead_to_it(self, tmp_path, memory):
        await self.settled(memory, tmp_path)
        (tmp_path / "way").symlink_to(tmp_path / "own" / "deep")
        await Bulk(memory, ()).set_folders("free", [tmp_path / "way"])

        assert await catalog_of(memory).folder_collections(tmp_path / "way" / "er") == [
            "deep",
            "free",
        ]

    async def test_a_collection_out_of_sight_belongs_nowhere(self, tmp_path, memory):
        await self.settled(memory, tmp_path)
        catalog = catalog_of(memory, allowed=["deep", "free"])

        assert await catalog.folder_collections(tmp_path / "own") == []

    async def test_outside_of_folders_the_default_collection_stays(self, tmp_path, memory):
        await self.settled(memory, tmp_path)
        catalog = catalog_of(memory, folder=tmp_path, default="free")

        assert (await catalog.default_names(), await catalog.storing_collection()) == (
            ["free"],
            "free",
        )
        assert await catalog.default_names(tmp_path / "own" / "deep") == ["a", "b", "deep", "free"]
        assert await catalog_of(memory, folder=tmp_path).storing_collection() is None

    async def test_texts_go_to_the_one_collection_of_a_folder_or_the_default_one_of_several(
        self, tmp_path, memory
    ):
        await self.settled(memory, tmp_path)
        own = tmp_path / "own"

        assert (
            await catalog_of(memory, folder=own / "deep", default="b").storing_collection()
            == "deep"
        )
        assert await catalog_of(memory, folder=own, default="b").storing_collection() == "b"
        with pytest.raises(RequestError, match="has several collections: name a or b"):
            await catalog_of(memory, folder=own, default="free").storing_collection()

    @pytest.mark.parametrize("default", [None, "free", "deep"])
    async def test_a_text_of_all_projects_or_another_one_is_not_stored_in_the_folders_own(
        self, tmp_path, memory, default
    ):
        await self.settled(memory, tmp_path)
        catalog = catalog_of(memory, folder=tmp_path / "own" / "deep", default=default)
        await Bulk(memory, ()).set_folders("free", [tmp_path / "other"])
        catalog.forget_all()
        places = {
            project: await catalog.storing_collection(project)
            for project in (None, "deep", "own", "a topic", "other", "all")
        }

        shared = default if default != "deep" else None
        assert {*list(places.values())[:4]} == {"deep"}
        assert (places["other"], places["all"]) == (shared, shared)

    async def test_one_that_is_taken_back_belongs_nowhere_half_a_minute_later(
        self, tmp_path, memory
    ):
        clock = Clock()
        await self.settled(memory, tmp_path)
        catalog = catalog_of(memory, folder=tmp_path / "own" / "deep", clock=clock)
        assert await catalog.folder_collections() == ["deep"]
        await Bulk(memory, ()).set_folders("deep", [])

        clock.now += TARGET_SECONDS
        await catalog.folder_collections()
        await asyncio.gather(*catalog._look_ups.values())

        assert await catalog.folder_collections() == ["a", "b"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["*"], ["notes", "notes-2025", "notes-2026", "recipes"]),
        (["notes*"], ["notes", "notes-2025", "notes-2026"]),
        (["notes-202[67]"], ["notes-2026"]),
        (["notes-20??", "recipes"], ["notes-2025", "notes-2026", "recipes"]),
        (["recipes", "*"], ["recipes", "notes", "notes-2025", "notes-2026"]),
        (["nothing*"], []),
        (["notes", "notes"], ["notes"]),
        (["*", "-recipes"], ["notes", "notes-2025", "notes-2026"]),
        (["-notes-*", "*"], ["notes", "recipes"]),
        (["-notes*"], ["recipes"]),
        (["notes", "-*"], []),
        (["notes", "-nothing*"], ["notes"]),
    ],
)
async def test_names_and_globs_choose_each_collection_once(wanted, expected, memory):
    await made(memory, "notes", "notes-2025", "notes-2026", "recipes")

    assert await names_of(catalog_of(memory), wanted) == expected


async def test_a_name_that_looks_like_a_glob_is_a_name_first(memory):
    await made(memory, "log[1]", "log1")

    assert await names_of(catalog_of(memory), ["log[1]"]) == ["log[1]"]
    assert await names_of(catalog_of(memory, allowed=["log[1]"]), ["*"]) == ["log1", "log[1]"]


async def test_a_name_that_begins_with_a_dash_is_a_name_first(memory):
    await made(memory, "-notes", "notes")

    assert await names_of(catalog_of(memory), ["-notes"]) == ["-notes"]
    assert await names_of(catalog_of(memory), ["*", "--notes"]) == ["notes"]


async def test_an_unknown_name_offers_the_nearest(memory):
    await made(memory, "notes", "note", "recipes", "Vacation")
    catalog = catalog_of(memory)
    for wrong, near in [
        ("noets", ("notes",)),
        ("vacation", ("Vacation",)),
        ("receipes", ("recipes",)),
        ("-noets", ("notes",)),
        ("qqq", ()),
    ]:
        with pytest.raises(UnknownCollection) as caught:
            await catalog.resolve([wrong])
        assert caught.value.near[:1] == near
        assert caught.value.name == wrong.removeprefix("-")

    assert str(caught.value) == (
        "There is no collection 'qqq'. Call qdrant-collections for the names."
    )


class TestAllowList:
    """Nothing outside it is read or named."""

    @pytest.mark.parametrize(
        ("allowed", "expected"),
        [
            ((), ["private", "team-a", "team-b"]),
            (("team-*",), ["team-a", "team-b"]),
            (("team-a", "private"), ["private", "team-a"]),
            (("none",), []),
            (("*", "-team-*"), ["private"]),
            (("*", "-team-*", "team-b"), ["private", "team-b"]),
            (("-private",), []),
        ],
    )
    async def test_it_holds_names_and_globs(self, allowed, expected, memory):
        await made(memory, "private", "team-a", "team-b")
        catalog = catalog_of(memory, allowed=allowed)

        assert await names_of(catalog, ["*"]) == expected
        assert list(await catalog.names()) == expected
        assert [info.name for info in await catalog.describe()] == expected

    async def test_the_engine_is_not_asked_about_a_hidden_collection(self, memory):
        await made(memory, "private", "team-a")
        catalog = catalog_of(memory, allowed=("team-*",))
        memory.calls.clear()
        assert not await catalog.exists("private")
        with pytest.raises(UnknownCollection):
            await catalog.resolve(["private"])
        await catalog.describe()

        assert "private" not in {collection for _, collection in memory.calls}

    async def test_a_default_collection_outside_it_is_not_searched(self, memory):
        await made(memory, "private")

        assert await names_of(catalog_of(memory, default="private", allowed=("t*",)), None) == []


async def leg_of(engine: Engine, *, size: int | None = SIZE, **collection):
    await foreign(engine, "c", {}, **collection)
    (target,) = await catalog_of(engine, size=size).resolve(["c"])
    return target


def leg(name: str, size: int = SIZE, distance: str = "cosine", model: str = MODEL) -> DenseLeg:
    return DenseLeg(name, size, distance, model)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("vectors", "expected", "more"),
    [
        ({NAME: vector()}, leg(NAME), {}),
        ({"text-dense": vector()}, leg("text-dense"), {}),
        ({"a": vector(), NAME: vector()}, leg(NAME), {}),
        ({"image": vector(512), "text": vector()}, leg("text"), {}),
        (vector(), leg(""), {}),
        *(
            ({"d": vector(distance=one)}, leg("d", SIZE, one.lower()), {})
            for one in models.Distance
        ),
        ({"v": vector(3)}, leg("v", 3), {"size": None}),
        ({"v": vector(3)}, leg("v", 3, model="o/M"), {"metadata": {"embedding_model": "o/M"}}),
        ({"v": vector()}, leg("v"), {"metadata": {}}),
        ({"v": vector()}, leg("v"), {"metadata": {"embedding_model": 7}}),
        ({"v": vector()}, leg("v"), {"metadata": {"other": "x"}}),
    ],
)
async def test_any_dense_vector_of_the_models_size_is_searched(vectors, expected, more, memory):
    """The metadata may name the model."""
    target = await leg_of(memory, vectors=vectors, **more)

    assert (target.dense, target.sparse, target.note) == (expected, None, None)


MULTI = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)


@pytest.mark.parametrize(
    ("vectors", "has"),
    [
        (vector(3), "unnamed (3)"),
        ({"a": vector(3), "b": vector(5)}, "a (3), b (5)"),
        # Of the same size, but its vectors mean something else.
        ({"fast-bge-small-en-v1.5": vector()}, "fast-bge-small-en-v1.5 (64)"),
        ({"colbert": vector(multivector_config=MULTI)}, "colbert (64)"),
    ],
)
async def test_vectors_that_do_not_fit_are_not_searched_and_that_is_said(vectors, has, memory):
    target = await leg_of(memory, vectors=vectors, sparse={"bm25": IDF})

    assert (target.dense, target.sparse) == (None, SparseLeg("bm25", idf=True))
    assert target.note == (
        f"its dense vectors do not fit the model: it has {has}, {MODEL} makes 64 dimensions"
    )


@pytest.mark.parametrize(
    ("sparse", "expected"),
    [
        ({"bm25": IDF}, SparseLeg("bm25", idf=True)),
        ({"keywords": IDF}, SparseLeg("keywords", idf=True)),
        ({"a": IDF, "bm25": IDF}, SparseLeg("bm25", idf=True)),
        ({"text-BM25": models.SparseVectorParams()}, SparseLeg("text-BM25", idf=False)),
        ({"splade": models.SparseVectorParams()}, None),
    ],
)
async def test_a_sparse_vector_is_bm25_by_its_name_or_its_idf(sparse, expected, memory):
    target = await leg_of(memory, sparse=sparse)

    assert (target.dense, target.sparse) == (None, expected)
    assert target.note == "keywords only: it has no dense vector"


async def test_points_and_the_documents_that_have_keywords_are_counted(memory):
    sparse = models.SparseVector(indices=[1], values=[1.0])
    await foreign(
        memory,
        "c",
        {n: {"text": "t"} for n in range(1, 6)},
        vectors={"v": COSINE},
        sparse={"bm25": IDF},
        values=lambda n: {"v": dense("t")} | ({"bm25": sparse} if n < 3 else {}),
    )
    (target,) = await catalog_of(memory).resolve(["c"])

    assert (target.points, target.documents) == (5, 2)


async def test_what_is_known_serves_for_a_while_and_is_then_looked_up_behind_the_answer(memory):
    clock = Clock()
    await foreign(memory, "c", {}, vectors={NAME: COSINE})
    catalog = catalog_of(memory, clock=clock)
    await catalog.resolve(["c"])
    await memory.upsert("c", [models.PointStruct(id=1, vector={}, payload={})])

    assert (await catalog.target("c")).points == 0

    clock.now += TARGET_SECONDS

    assert (await catalog.target("c")).points == 0

    await catalog._look_ups["c"]

    assert (await catalog.target("c")).points == 1


async def test_a_collection_that_cannot_be_read_is_a_target_with_the_reason(memory):
    await made(memory, "good", "bad")
    memory.broken["bad"] = EngineFailure("Its files are damaged.")
    bad, good = await catalog_of(memory).resolve(None)

    assert good.dense is not None
    assert (bad.dense, bad.sparse, bad.note, bad.failed) == (
        None,
        None,
        "Its files are damaged.",
        True,
    )


async def test_a_collection_deleted_a_moment_ago_is_unknown_and_spoils_no_search_of_all(memory):
    await made(memory, "a", "b")
    catalog = catalog_of(memory)
    await catalog.names()
    await memory.delete_collection("a")

    with pytest.raises(UnknownCollection) as caught:
        await catalog.resolve(["a", "b"])
    assert caught.value.near == ()
    assert await names_of(catalog, ["*"]) == ["b"]
    assert [info.name for info in await catalog.describe()] == ["b"]


async def test_a_collection_that_was_made_a_moment_ago_is_found_by_name(memory):
    catalog = catalog_of(memory)
    await catalog.names()
    await made(memory, "new")

    assert await names_of(catalog, ["new"]) == ["new"]


async def test_collections_are_described(memory):
    await foreign(
        memory,
        "ours",
        {1: {"updated_at": "2026-01-01T00:00:00Z"}, 2: {"updated_at": "2026-03-01T00:00:00Z"}},
        vectors={NAME: COSINE},
        sparse={"bm25": IDF},
    )
    await foreign(memory, "keywords", {}, sparse={"bm25": IDF})
    await foreign(memory, "neither", {}, vectors={"v": vector(3)})
    infos = {info.name: info for info in await catalog_of(memory).describe()}

    assert (infos["ours"].points, infos["ours"].legs) == (2, ("dense", "bm25"))
    assert infos["ours"].model == MODEL
    assert (infos["keywords"].legs, infos["keywords"].model) == (("bm25",), None)
    assert infos["neither"].legs == ()
    assert infos["neither"].note.startswith("its dense vectors do not fit the model")


async def test_a_description_shows_what_other_servers_changed_two_seconds_ago(tmp_path):
    clock = Clock()
    async with either_engine("edge", tmp_path) as engine:
        await foreign(engine, "c", {}, vectors={NAME: COSINE})
        catalog = catalog_of(engine, clock=clock)
        (before,) = await catalog.describe()

        kind = models.PayloadSchemaType.DATETIME
        await engine.create_payload_indexes("c", {"updated_at": kind})
        written = {"updated_at": "2026-01-02T00:00:00Z"}
        await engine.upsert("c", [models.PointStruct(id=1, vector={}, payload=written)])
        clock.now += NAMES_SECONDS
        (now,) = await catalog.describe()

    assert (before.points, before.updated_at) == (0, None)
    assert (now.points, now.updated_at) == (1, "2026-01-02T00:00:00Z")


async def test_a_collection_that_cannot_be_read_is_not_asked_again_for_some_seconds(memory):
    clock = Clock()
    await foreign(memory, "c", {}, vectors={NAME: COSINE})
    catalog = catalog_of(memory, clock=clock)
    memory.broken["c"] = EngineFailure("damaged")

    assert (await catalog.target("c")).failed

    memory.broken.clear()
    memory.calls.clear()

    assert (await catalog.target("c")).failed
    assert memory.calls == []

    clock.now += FAILED_SECONDS

    assert not (await catalog.target("c")).failed


async def test_what_is_stored_counts_at_once(memory):
    await foreign(memory, "c", {}, vectors={NAME: COSINE})
    catalog = catalog_of(memory)
    await catalog.resolve(["c"])
    catalog.count_stored("c", 3)

    assert (await catalog.target("c")).points == 3
    assert (await catalog.target("c")).documents == 3


@pytest.mark.parametrize(
    "bad", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-02-30", 10**18, True]
)
async def test_a_time_that_no_calendar_has_is_not_the_newest(bad, tmp_path):
    async with either_engine("edge", tmp_path) as engine:
        for name, held in {"other": bad, "both": ["2026-01-03T00:00:00Z", bad]}.items():
            await foreign(engine, name, {}, vectors={NAME: COSINE})
            kind = models.PayloadSchemaType.DATETIME
            await engine.create_payload_indexes(name, {"updated_at": kind})
            for number, value in enumerate((held, "2026-01-02T00:00:00Z"), 1):
                point = models.PointStruct(id=number, vector={}, payload={"updated_at": value})
                await engine.upsert(name, [point])
        infos = {info.name: info.updated_at for info in await catalog_of(engine).describe()}

    assert infos == {"other": "2026-01-02T00:00:00Z", "both": "2026-01-03T00:00:00Z"}


async def test_an_answer_from_before_a_change_is_not_remembered_after_it(memory):
    catalog = catalog_of(memory, clock=Clock())
    await made(memory, "a")
    listing, reading = memory.client.get_collections, memory.client.get_collection

    async def listed():
        found = await listing()
        await made(memory, "b")
        catalog.forget("b")
        return found

    async def read(name):
        found = await reading(name)
        await memory.client.upsert(name, [models.PointStruct(id=1, vector={NAME: [0.1] * SIZE})])
        catalog.forget(name)
        return found

    memory.client.get_collections, memory.client.get_collection = listed, read
    listed_before = await catalog.names()
    memory.client.get_collections = listing
    assert await catalog.names() == ("a", "b"), "the list from before was not cached"
    before = listed_before, (await catalog.target("a")).points
    memory.client.get_collections, memory.client.get_collection = listing, reading
    after = await catalog.names(), (await catalog.target("a")).points

    assert before == (("a",), 0)
    assert after == (("a", "b"), 1)
