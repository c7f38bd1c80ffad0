"""Collections that share a shard do not see each other: not by id, filter, key or score."""

import random
from uuid import UUID

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import (
    EngineFailure,
    InvalidPoint,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant.edge.collection import KEY
from mcp_server_qdrant.qdrant.engine import Ask, Corpus, Leg
from tests.qdrant.edge.here import SPARSE, Here, delete, filtered, made, upsert

UUIDS = [str(UUID(int=n * 2**96 + 7)) for n in range(3)]
SAME = [0, 1, 2**64 - 1, *UUIDS]
WORDS = models.SparseVectorNameConfig(sparse=models.SparseVectorConfig())


def point(point_id, *vector, **payload):
    return models.PointStruct(id=point_id, vector={"d": [*vector]}, payload=payload)


@pytest.fixture
def here(tmp_path):
    """The same ids in `a` and `b`, of one space; what each point says tells whose it is."""
    here = Here(tmp_path, "a", "b")
    for name in ("a", "b"):
        here.do(upsert(*[i for i in SAME if isinstance(i, int)], name=name, says=name))
        rows = [(i, {"d": [3.0, 4.0]}, {"says": name, "odd": 0}) for i in UUIDS]
        here.do(("put", name, rows))
    yield here
    here.store.close()


def said(found):
    return [one.payload["says"] for one in found]


def scrolled(here, name, where, **asked):
    return here.read("scroll", name, where, **{"limit": 99, **asked})[0]


def test_both_have_all_their_points_and_nobody_elses(here):
    for name in ("a", "b"):
        assert here.points(name).keys() == {*SAME}
        found = here.read("retrieve", name, [*SAME, 77])
        assert ([one.id for one in found], {*said(found)}) == (SAME, {name})
        assert here.count(name) == len(SAME)
        assert here.info(name).points_count == len(SAME)
        assert all(KEY not in one.payload for one in found)
        assert KEY not in here.info(name).payload_schema


HAS = {"has_id": [1, UUIDS[1], 5]}
NESTED = {"must": [{"should": [{"must": [HAS]}]}]}
FILTERS = {
    "must": ({"must": [HAS]}, 2),
    "one condition": ({"must": HAS}, 2),
    "should": ({"should": [HAS, {"key": "n", "match": {"value": 0}}]}, 3),
    "must not": ({"must_not": [HAS]}, 4),
    "nested": (NESTED, 2),
    "min should": (
        {
            "min_should": {
                "conditions": [HAS, {"key": "odd", "match": {"value": 0}}],
                "min_count": 2,
            }
        },
        1,
    ),
    "nested min should": (
        {"must": [{"min_should": {"conditions": [HAS], "min_count": 1}}], "should": [HAS]},
        2,
    ),
    "everything": ({"must": []}, 6),
    "no filter": (None, 6),
    "any should, with nothing": ({"should": []}, 6),
    "the key of the other one": ({"should": [{"key": KEY, "match": {"value": "?"}}, {}]}, 6),
}


@pytest.mark.parametrize("kind", FILTERS)
def test_a_filter_of_any_form_stays_within_its_collection(here, kind):
    where, number = FILTERS[kind]
    for name in ("a", "b"):
        found = scrolled(here, name, where)
        assert (len(found), {*said(found)}) == (number, {name})
        assert here.count(name, where) == number


@pytest.mark.parametrize("kind", FILTERS)
def test_what_a_filter_deletes_or_changes_is_of_its_collection(here, kind):
    where, number = FILTERS[kind]
    before = here.points("b")
    here.do(("set_payload", "a", {"new": 1}, filtered(where)))
    assert sum("new" in payload for payload, _ in here.points().values()) == number
    here.do(("delete_payload", "a", ["new"], filtered(where)))
    here.do(("delete", "a", filtered(where)))

    assert len(here.points()) == len(SAME) - number
    assert here.points("b") == before
    assert here.number("b") == len(SAME)


def test_writes_by_id_are_of_their_collection(here):
    before = here.points("b")
    only = {"must": [{"key": "says", "match": {"value": "b"}}]}
    late = models.PointVectors(id=2**64 - 1, vector={"d": [8.0, 8.0]})
    here.do(
        delete(0, UUIDS[0]),
        ("update_vectors", "a", [late]),
        ("upsert", "a", [point(1, 9.0, 9.0, says="a", odd=5)]),
        ("upsert", "a", [point(UUIDS[1], 9.0, 9.0)], only),
        ("upsert", "a", [point(0, 7.0, 7.0, says="a")], None, models.UpdateMode.UPDATE_ONLY),
        ("upsert", "a", [point(1, 7.0, 7.0, says="a")], None, models.UpdateMode.INSERT_ONLY),
    )

    assert here.points("b") == before
    found = here.points()
    assert found.keys() == {1, 2**64 - 1, *UUIDS[1:]}
    assert found[1] == ({"says": "a", "odd": 5}, {"d": [9.0, 9.0]})
    assert found[2**64 - 1][1] == {"d": [8.0, 8.0]}
    assert found[UUIDS[1]][0]["says"] == "a", "what does not match is left alone"


def test_an_exchange_finds_the_point_that_it_saw_and_no_other_collections(here):
    for name, seen in (("a", "b"), ("a", "a")):
        where = {"must": [{"key": "says", "match": {"value": seen}}]}
        here.do(("upsert", name, [point(1, 5.0, 5.0, says="changed")], where))
        assert here.points()[1][0]["says"] == ("changed" if seen == "a" else "a")
    assert here.points("b")[1][0]["says"] == "b"


def test_pages_go_through_one_collection_in_the_order_of_its_ids(here):
    dice = random.Random(3)
    many = [str(UUID(int=dice.getrandbits(128))) for _ in range(200)]
    for name in ("a", "b"):
        rows = [(i, {"d": [1.0, 1.0]}, {"says": name}) for i in many]
        here.do(("put", name, rows))
    for name in ("a", "b"):
        seen, offset = [], None
        while True:
            found, offset = here.read("scroll", name, limit=7, offset=offset)
            assert {*said(found)} == {name}
            seen += [one.id for one in found]
            if offset is None:
                break
        assert sorted(map(str, seen)) == sorted(map(str, [*SAME, *many]))


def test_a_short_id_is_completed_within_its_collection(here):
    """All ids that begin alike follow each other from the first possible one on."""
    begins = "abcdef12"
    alike = [f"{begins}-0000-4000-8000-{n:012x}" for n in range(5)]
    for name in ("a", "b"):
        rows = [(i, {"d": [1.0, 1.0]}, {"says": name}) for i in alike]
        here.do(("put", name, rows))
        offset = f"{begins}-0000-0000-0000-000000000000"
        found = scrolled(here, name, None, limit=5, offset=offset)
        assert (sorted(one.id for one in found), {*said(found)}) == (alike, {name})


@pytest.mark.parametrize("path", [KEY, f"{KEY}.x", f"{KEY}[0]", f'"{KEY}"', f'"{KEY}".x'])
def test_the_key_of_the_engine_cannot_be_written_or_removed(here, path):
    row = [(9, {"d": [1.0, 1.0]}, {KEY: here.store.get("b").entry.id})]
    before = here.all_points()
    for call in (
        ("put", "a", row),
        ("set_payload", "a", {KEY: "x"}, [1]),
        ("set_payload", "a", {"x": "x"}, [1], path),
        ("delete_payload", "a", [path], [1]),
    ):
        with pytest.raises(InvalidPoint, match="the embedded engine's own"):
            here.do(call)
    assert here.all_points() == before


def texts(many: int, seed: int):
    """Points with a dense vector and a few of 30 terms."""
    dice, rows = random.Random(seed), []
    for n in range(many):
        terms = sorted(dice.sample(range(30), dice.randint(1, 6)))
        sparse = {"indices": terms, "values": [dice.random() + 0.1 for _ in terms]}
        dense = [dice.random(), dice.random()]
        rows.append((n, {"d": dense, "s": sparse}, {"n": n, "owner": "red" if n % 3 else "blue"}))
    return rows


def filled(here: Here, name: str, many: int, seed: int) -> None:
    here.do(("create_described", name, made(sparse=SPARSE)))
    rows = texts(many, seed)
    here.do(*(("put", name, rows[n : n + 16]) for n in range(0, many, 16)))
    here.do(
        ("delete", name, [*range(0, many, 5)]),
        ("create_payload_indexes", name, {"owner": "keyword"}),
    )


def asked(*collections, guard=None):
    sparse = {"indices": [1, 2, 3, 4], "values": [1.0, 1.0, 0.5, 2.0]}
    legs = (Leg("d", [0.6, 0.8]), Leg("s", sparse))
    return Ask(collections, legs, 60, 500, ("n",), guard)


def answered(here: Here, *collections, guard=None):
    found = here.read("candidates", asked(*collections, guard=guard)).points
    idfs = here.read("idfs", Corpus(collections, "s", (1, 2, 3, 99), guard))
    # Ties have another order in another store.
    points = {(one.collection, one.id): (one.rrf, one.scores, one.payload) for one in found}
    assert len(points) == len(found)
    return points, idfs


RED = {"must": [{"key": "owner", "match": {"value": "red"}}]}


@pytest.mark.parametrize("guard", [None, RED])
@pytest.mark.parametrize("chosen", [("a",), ("a", "c"), ("c", "a", "b")])
def test_scores_and_idfs_are_those_of_a_store_without_the_others(tmp_path, chosen, guard):
    sizes = {"a": (70, 1), "b": (50, 2), "c": (120, 3), "d": (40, 4)}
    stores = {"all": sizes, "some": {name: sizes[name] for name in chosen}}
    found = {}
    for folder, collections in stores.items():
        here = Here(tmp_path / folder)
        for name, (many, seed) in collections.items():
            filled(here, name, many, seed)
        if folder == "all":
            here.do(("delete_collection", "d"))  # its points are still there
        found[folder] = answered(here, *chosen, guard=guard)
        here.tidy()
        assert answered(here, *chosen, guard=guard) == found[folder]
        here.store.close()

    (points, idfs), alone = found["all"], found["some"]
    assert {name for name, _ in points} == {*chosen}
    assert all(points.values())
    assert (points, idfs) == alone
    assert idfs.keys() == {1, 2, 3}
    if guard:
        assert all(n % 3 for _, n in points)


def test_a_collection_that_is_gone_is_told_beside_those_that_answer(here):
    answer = here.read("candidates", Ask(("a", "gone"), (Leg("d", [1.0, 1.0]),), 60, 5))

    assert len(answer.points) == 5
    assert isinstance(answer.failed["gone"], UnknownCollection)
    with pytest.raises((UnknownCollection, EngineFailure)):
        here.read("candidates", Ask(("gone",), (Leg("d", [1.0, 1.0]),), 60, 5))


def test_a_facet_counts_one_collection(here):
    here.do(
        ("create_payload_indexes", "a", {"says": "keyword"}),
        ("create_payload_indexes", "b", {"says": "keyword"}),
    )
    here.do(("create_described", "c", made()), ("create_payload_indexes", "c", {"n": "integer"}))

    for name in ("a", "b"):
        hits = here.read("facet", name, "says").hits
        assert [(hit.value, hit.count) for hit in hits] == [(name, len(SAME))]
        for key in (KEY, "n"):
            with pytest.raises(RequestError, match="no payload index for this"):
                here.read("facet", name, key)


PHRASES = {"type": "text", "phrase_matching": True}


def test_an_index_of_a_collection_that_is_gone_makes_way_and_those_of_others_stay(here):
    here.do(
        ("create_described", "gone", made()),
        ("create_payload_indexes", "gone", {"says": "text", "n": "integer"}),
    )
    here.do(
        ("delete_collection", "gone"),
        ("create_payload_indexes", "b", {"n": "keyword"}),
        ("create_payload_indexes", "a", {"says": PHRASES}),
    )
    here.do(("create_payload_indexes", "a", {"n": "integer"}))

    where = {"must": [{"key": "says", "match": {"phrase": "a"}}]}
    assert here.count("a", where) == len(SAME)
    assert here.info("a").payload_schema["says"].params.model_dump(exclude_none=True) == PHRASES
    schemas = [here.info(name).payload_schema for name in ("a", "b")]
    assert schemas[1]["n"].data_type == "keyword"
    assert "n" not in schemas[0], "one field has one index, and it is another collection's"


@pytest.mark.parametrize(
    "call", [("create_vector_name", "a", "t", WORDS), ("delete_vector_name", "a", "s")]
)
def test_indexes_and_metadata_go_along_when_vectors_change(tmp_path, call):
    here = Here(tmp_path)
    described = made(sparse=SPARSE, metadata={"model": "m"})
    here.do(
        ("create_described", "a", described),
        ("create_payload_indexes", "a", {"n": "integer"}),
        upsert(1, 2, 3),
    )
    before, created_at = here.info("a"), here.store.get("a").entry.created_at
    here.do(call)
    for _ in range(2):
        after = here.info("a")
        assert after.payload_schema == before.payload_schema
        assert after.points_count == before.points_count
        assert after.config.metadata == {"model": "m"}
        assert here.store.get("a").entry.created_at == created_at
        assert set(here.points()) == {1, 2, 3}
        here.again()
    here.store.close()
