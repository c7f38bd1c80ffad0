"""A staged collection takes a shard's place, as a whole at every moment."""

import json
import sys
from pathlib import Path

import pytest
import qdrant_edge as edge

from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.qdrant.edge import optimise
from mcp_server_qdrant.qdrant.edge.files import Folder
from mcp_server_qdrant.qdrant.edge.shards import Shards
from tests.qdrant.edge.here import Here

VECTORS = {"v": {"size": 2, "distance": "Dot"}}


class Killed(BaseException):
    """The process ends here."""


def opened(root: Path) -> Shards:
    """The shards as the next host finds them."""
    folder = Folder(root, 0)
    folder.prepare()
    shards = Shards(folder, 8)
    shards.scan()
    return shards


def make(shards: Shards, name: str, points: int, says: str) -> None:
    sidecar = {"vectors": VECTORS, "sparse_vectors": {}, "metadata": {"says": says}}
    shards.create(name, sidecar)
    shard = shards.get(name)
    rows = [edge.Point(n, {"v": [1.0, n]}, {"says": says}) for n in range(points)]
    shard.apply(edge.UpdateOperation.upsert_points(rows))
    shard.flush()
    shard.close()


def seen(shards: Shards, name: str = "notes") -> tuple[str, int, set[str], str | None]:
    """What a collection says, its description and its points, and what it misses."""
    shard = shards.get(name)
    records, _ = shard.engine.scroll(edge.ScrollRequest(limit=100, with_payload=True))
    said = {record.payload["says"] for record in records}
    return shard.sidecar["metadata"]["says"], shard.count(), said, shard.damage()


def stage(root: Path, tmp_path: Path) -> Path:
    """Another collection of that name, staged."""
    make(opened(tmp_path / "elsewhere"), "notes", 3, "new")
    place = root / "work" / "restored-1"
    (tmp_path / "elsewhere" / "shards" / "c-notes").rename(place)
    return place


OLD, NEW = ("old", 5, {"old"}, None), ("new", 3, {"new"}, None)
STEPS = 12


@pytest.mark.parametrize("old", [OLD, None])
def test_a_kill_at_any_step_leaves_the_old_collection_or_the_new_one(tmp_path, monkeypatch, old):
    found = []
    for step in range(STEPS):
        base = tmp_path / str(step)
        shards = opened(base / "engine")
        if old:
            make(shards, "notes", 5, "old")
            seen(shards)
        place, left = stage(base / "engine", base), [step]

        def dying(real, left=left):
            def call(*arguments, **options):
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return real(*arguments, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("rename", "replace", "unlink", "rmdir"):
                patch.setattr(Path, name, dying(getattr(Path, name)))
            try:
                shards.adopt(json.loads((place / "collection.json").read_text()), place)
                done = True
            except Killed:
                done = False
        shards.close_all()
        again = opened(base / "engine")
        found.append(seen(again) if "notes" in again.names() else None)
        if done:
            assert found[-1] == NEW
        again.close_all()
        left_over = {path.name for path in (base / "engine" / "shards").iterdir()}
        assert {name for name in left_over if "next" in name} == set()

    assert found[0] == old
    assert found[-1] == NEW
    assert [one for one in found if one not in (old, NEW)] == []


def test_what_was_known_of_the_old_one_is_not_said_of_the_new_one(tmp_path):
    shards = opened(tmp_path / "engine")
    make(shards, "notes", 5, "old")
    assert seen(shards) == OLD
    place = stage(tmp_path / "engine", tmp_path)
    (place / "points").unlink()  # a backup may lack it

    shards.adopt(json.loads((place / "collection.json").read_text()), place)

    assert seen(shards) == NEW
    shards.close_all()


def stage_alone(tmp_path: Path) -> Path:
    opened(tmp_path / "engine")
    return stage(tmp_path / "engine", tmp_path)


async def test_what_ends_the_process_that_opens_it_is_a_sentence(tmp_path, monkeypatch):
    place = stage_alone(tmp_path)
    await optimise.try_staged(place, "notes", 3)
    aborting = tmp_path / "python"
    aborting.write_text("#!/bin/sh\nkill -ABRT $$\n")
    aborting.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(aborting))

    with pytest.raises(RequestError, match="the engine cannot read its 3 points"):
        await optimise.try_staged(place, "notes", 3)


async def test_one_that_lacks_points_is_refused(tmp_path):
    with pytest.raises(RequestError, match="'notes' is damaged: the engine cannot read"):
        await optimise.try_staged(stage_alone(tmp_path), "notes", 4)


async def test_it_is_tried_without_anything_of_the_working_directory(tmp_path, monkeypatch):
    place = stage_alone(tmp_path)
    (place / "json.py").write_text("1 / 0\n")
    (tmp_path / "json.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)

    await optimise.try_staged(place, "notes", 3)


@pytest.mark.parametrize("change", [{"name": "other"}, {"metadata": []}, {"vectors": {}}])
def test_what_is_described_as_something_else_takes_no_place(tmp_path, change):
    here = Here(opened(tmp_path / "engine"))
    make(here.shards, "notes", 5, "old")
    place = stage(tmp_path / "engine", tmp_path)
    sidecar = json.loads((place / "collection.json").read_text()) | change
    (place / "collection.json").write_text(json.dumps(sidecar))

    with pytest.raises((EngineFailure, RequestError)):
        here.write("adopt", "notes", place.name, True)
    assert seen(here.shards) == OLD
