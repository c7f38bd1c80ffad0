"""Collections of the form before, a shard each, become parts of spaces, or stay unchanged."""

import asyncio
import json
import random
from pathlib import Path

import pytest
import qdrant_edge as edge

from mcp_server_qdrant.core.errors import EngineFailure, UnknownCollection
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import slug_of
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.edge.reads import from_vectors
from mcp_server_qdrant.qdrant.edge.takeover import OPENING, migrate_all
from tests.hosts import until
from tests.qdrant.edge.here import SPARSE, VECTORS, Here, made, upsert
from tests.qdrant.edge.storing import storing

INDEXES = {"n": "integer", "says": {"type": "text", "lowercase": True}}


def vectors_of(n, sparse):
    vectors = {"d": [float(n) + 0.5, 1.0]}
    if sparse:
        vectors["s"] = edge.SparseVector([n % 9, 50], [1.0, 0.25])
    return vectors


def lay_out(root: Path, name: str, numbers, sparse=None, slug: str = "") -> Path:
    """A collection as versions before had it: a shard of its own, with description and number."""
    path = root / "shards" / (slug or slug_of(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    shard = edge.EdgeShard.create(str(path), types.shard_config(VECTORS, sparse or {}))
    for field, schema in INDEXES.items():
        index = types.index_params(schema)
        shard.update(edge.UpdateOperation.create_field_index(field, index))
    for n in numbers:
        point = edge.Point(n, vectors_of(n, sparse), {"n": n, "says": f"Text {n}."})
        shard.update(edge.UpdateOperation.upsert_points([point]))
    shard.close()
    described = {
        **made(sparse=sparse or (), metadata={"model": name}),
        "name": name,
        "created_at": "2025-01-02T03:04:05+00:00",
        "optimised_points": 0,
        "indexes": {"says": INDEXES["says"]},
    }
    (path / "collection.json").write_text(json.dumps(described))
    (path / "points").write_text(f"{len(numbers)} 0123abcd")
    return path


def expected(numbers, sparse=()):
    return {
        n: ({"n": n, "says": f"Text {n}."}, plain(from_vectors(vectors_of(n, sparse))))
        for n in numbers
    }


def test_points_vectors_payloads_indexes_and_metadata_are_as_before(tmp_path):
    lay_out(tmp_path, "Räume & co", range(70))
    lay_out(tmp_path, "b", range(40), SPARSE)
    lay_out(tmp_path, "empty", range(0))
    here = Here(tmp_path)
    assert here.store.names() == ["Räume & co", "b", "empty"]
    for name in here.store.names():
        with pytest.raises(EngineFailure, match=f"'{name}' is being converted .* in a moment"):
            here.points(name)
    here.take_over()

    for _ in range(2):
        assert here.points("Räume & co") == expected(range(70))
        assert here.points("b") == expected(range(40), SPARSE)
        assert here.points("empty") == {}
        info = here.info("Räume & co")
        assert info.config.metadata == {"model": "Räume & co"}
        assert here.store.get("Räume & co").entry.created_at == "2025-01-02T03:04:05+00:00"
        schema = info.payload_schema
        assert {field: one.data_type for field, one in schema.items()} == {
            "n": "integer",
            "says": "text",
        }
        assert schema["says"].params.model_dump(exclude_none=True) == INDEXES["says"]
        assert (here.damage("Räume & co"), here.number("Räume & co")) == (None, 70)
        here.again()
    assert not (tmp_path / "shards").exists()
    here.store.close()


def test_the_latest_written_comes_first_and_one_that_is_asked_for_next(tmp_path):
    import os

    for age, name in enumerate(("new", "middle", "old")):
        segments = lay_out(tmp_path, name, range(3)) / "segments"
        os.utime(segments, (10**9 - age,) * 2)
    here = Here(tmp_path)
    assert [*here.store.earlier] == ["new", "middle", "old"]
    with pytest.raises(EngineFailure):
        here.points("old")
    assert [*here.store.earlier] == ["old", "new", "middle"]
    here.store.close()


def test_in_mid_exchange_the_new_folder_is_read(tmp_path):
    lay_out(tmp_path, "b", range(3))
    lay_out(tmp_path, "b", range(10, 14), slug="c-b.next")
    here = Here(tmp_path)
    here.take_over()

    assert here.points("b") == expected(range(10, 14))
    assert not (tmp_path / "shards").exists()
    here.store.close()


def test_points_that_were_missing_before_are_missing_after(tmp_path):
    path = lay_out(tmp_path, "a", range(5))
    (path / "points").write_text("8")
    here = Here(tmp_path)
    here.take_over()

    assert here.damage().startswith("3 of its 8 points are missing")
    here.store.close()


DAMAGE = {
    "no description": lambda path: (path / "collection.json").unlink(),
    "a torn description": lambda path: (path / "collection.json").write_text("{"),
    "a damaged engine": lambda path: (path / "edge_config.json").write_text("{"),
    "five deaths": lambda path: (path / "opening").write_text("....."),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_one_that_is_damaged_stays_and_says_so_and_the_others_come(tmp_path, kind):
    path = lay_out(tmp_path, "a", range(5))
    lay_out(tmp_path, "b", range(4))
    DAMAGE[kind](path)
    here = Here(tmp_path)
    here.take_over()

    assert here.store.names() == ["a", "b"]
    assert here.points("b") == expected(range(4))
    for call in (lambda: here.points("a"), lambda: here.do(upsert(1))):
        with pytest.raises(EngineFailure, match="'a' of an earlier version could not be converted"):
            call()
    assert path.is_dir()
    assert here.do(("delete_collection", "a")) == [True]
    assert not path.exists()
    here.again()
    assert here.store.names() == ["b"]
    here.store.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_one_that_is_dropped_or_restored_meanwhile_does_not_come_back(tmp_path, replaced):
    lay_out(tmp_path, "a", range(64))
    here = Here(tmp_path)
    if replaced:
        here.do(("create_described", "\0staged", made()), upsert(1000, name="\0staged"))

    async def pauses():
        """At the last page it is gone."""
        (space,) = here.store.spaces.values()
        if sum(space.census.present.values()) >= 64 and "a" in here.store.earlier:
            if replaced:
                await here.client.adopt("a", "\0staged", overwrite=True)
            else:
                await here.client.delete_collection("a")

    asyncio.run(migrate_all(here.store, pauses))
    here.tidy()
    here.again()

    if replaced:
        assert set(here.points()) == {1000}
    else:
        with pytest.raises(UnknownCollection):
            here.points()
    here.store.close()


def test_what_a_killed_one_left_is_removed_while_the_next_one_fills_the_same_space(tmp_path):
    lay_out(tmp_path, "a", range(64))
    here = Here(tmp_path)
    key = here.store.space(VECTORS, {})
    here.store.catalogue.mark_unwanted("0123456789abcdef", key)

    async def pauses():
        await here.store.remove_unwanted(nothing)

    async def nothing():
        pass

    asyncio.run(migrate_all(here.store, pauses))

    assert here.points() == expected(range(64))
    here.store.close()


async def test_kills_of_the_process_at_random_moments_lose_nothing(tmp_path, rounds):
    sizes = {f"c{n}": 60 + 30 * n for n in range(5)}
    for name, size in sizes.items():
        lay_out(tmp_path, name, range(size), SPARSE)
    dice = random.Random(11)
    for round_ in range(max(rounds, 5)):
        with storing(tmp_path, round_ * 10_000) as child, child.stdout:
            child.stdout.readline()
            await asyncio.sleep(dice.random() * 0.15)
    for deaths in tmp_path.glob(f"*/*/{OPENING}"):  # of shards and of spaces
        deaths.unlink()  # as some minutes later
    client = await EdgeClient.open(tmp_path, timeout=60)
    await client.delete_collection("c")
    names = {one.name for one in (await client.get_collections()).collections}
    assert names == {*sizes}
    await until(lambda: not (tmp_path / "shards").exists())
    for name, size in sizes.items():
        records, _ = await client.scroll(name, limit=1000, with_vectors=True)
        assert {one.id: one.payload["says"] for one in records} == {
            n: f"Text {n}." for n in range(size)
        }
        assert all(set(one.vector) == {"d", "s"} for one in records)
        assert (await client.get_collection(name)).warnings is None
    await client.close()
