"""What a kill at any step leaves is the state before or after, whole, and room is given back."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import qdrant_edge as edge
from qdrant_client import models

from mcp_server_qdrant.core import disk
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.edge import optimise, rebuild
from mcp_server_qdrant.qdrant.edge.files import STAGED, allocated, copy_sparse
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from tests import forked
from tests.qdrant.edge.here import SPARSE, Here, made, pause, upsert

STAGE = f"{STAGED}1"
WORDS = models.SparseVectorNameConfig(sparse=models.SparseVectorConfig())
STEPS = ("rename", "replace", "unlink", "rmdir", "mkdir", "touch")


class Killed(SystemExit):
    """The process ends here."""


def optimised(here: Here) -> bool:
    optimiser = Optimiser(here.store, asyncio.Lock())
    return asyncio.run(optimiser.optimise(here.space("kept")))


def as_earlier(here: Here, name: str = "a", points: int = 5) -> Path:
    """A collection as the versions before had it: a shard of its own."""
    from tests.qdrant.edge.test_takeover import lay_out

    return lay_out(here.root, name, range(points))


def renew(here: Here) -> None:
    here.do(("create_described", STAGE, made()), upsert(*range(8), name=STAGE, says="new"))


# What is there before, what is done, and the point ids of `a` before and after; None: no `a`.
CALLS = {
    "create": ([], lambda here: here.do(("create_described", "a", made())), None, set()),
    "create in a new space": (
        [],
        lambda here: here.do(("create_described", "a", made(sparse=SPARSE))),
        None,
        set(),
    ),
    "drop": (
        ["a"],
        lambda here: (here.do(("delete_collection", "a")), here.tidy()),
        {*range(5)},
        None,
    ),
    "drop the last of its space": (
        ["a in another space"],
        lambda here: (here.do(("delete_collection", "a")), here.tidy()),
        {*range(5)},
        None,
    ),
    "add a vector": (
        ["a"],
        lambda here: (here.do(("create_vector_name", "a", "t", WORDS)), here.tidy()),
        {*range(5)},
        {*range(5)},
    ),
    "restore": (
        ["staged"],
        lambda here: here.write("adopt", "a", STAGE, overwrite=False),
        None,
        {*range(8)},
    ),
    "restore in its place": (
        ["a", "staged"],
        lambda here: (here.write("adopt", "a", STAGE, overwrite=True), here.tidy()),
        {*range(5)},
        {*range(8)},
    ),
    "optimise": (["a"], optimised, {*range(5)}, {*range(5)}),
    "take over": (["earlier"], lambda here: here.take_over(), {*range(5)}, {*range(5)}),
    "rebuild": (["a"], lambda here: here.do(("rebuild",)), {*range(5)}, {*range(5)}),
}


def prepared(root: Path, kinds: list[str]) -> Here:
    here = Here(root, "kept")
    here.do(upsert(*range(3), name="kept"))
    if "a" in kinds:
        here.do(("create_described", "a", made()), upsert(*range(5), says="old"))
    if "a in another space" in kinds:
        here.do(("create_described", "a", made(sparse=SPARSE)), upsert(*range(5)))
    if "earlier" in kinds:
        here.store.close()
        as_earlier(here)
        here.open()
    if "staged" in kinds:
        renew(here)
    return here


def killed(here: Here, call, step: int, monkeypatch) -> bool:
    """Whether it was killed before that step; what was on the disk then is a copy of it."""
    left = [step]

    def dying(real):
        def one(*arguments, **options):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*arguments, **options)

        return one

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(Path, name, dying(getattr(Path, name)))
        patch.setattr(disk.os, "replace", dying(os.replace))
        try:
            call(here)
        except Killed:
            return True
        return False


def seen(here: Here) -> set | None:
    return set(here.points()) if "a" in here.store.names() else None


def left_over(root: Path, here: Here) -> list[str]:
    """What nobody needs: other files, and points of no collection."""
    known = {entry.id for entry in here.store.catalogue}
    left = [str(path) for folder in ("trash", "work") for path in (root / folder).iterdir()]
    left += [path.name for path in (root / "unwanted").iterdir() if here.store.unwanted()]
    left += [str(path) for path in root.rglob("*.tmp*")]
    for space in here.store.spaces.values():
        left += [str(path) for path in space.old_generations()]
        hits = space.engine.facet(edge.FacetRequest("__collection__", limit=99, exact=True)).hits
        left += [f"points of {hit.value}" for hit in hits if hit.value not in known]
    return left


@pytest.mark.parametrize("kind", CALLS)
def test_a_kill_at_any_step_leaves_the_old_or_the_new_whole(tmp_path, monkeypatch, kind):
    kinds, call, old, new = CALLS[kind]
    monkeypatch.setattr(optimise, "start", Optimised)
    monkeypatch.setattr(rebuild, "subprocess", FORKED)
    found, step, going = [], 0, True
    while going:
        root, copy = tmp_path / f"{step}", tmp_path / f"{step}-left"
        here = prepared(root, kinds)
        going = killed(here, call, step, monkeypatch)
        shutil.rmtree(root / "trash", ignore_errors=True)
        copy_sparse(root, copy)
        here.store.close()
        shutil.rmtree(root)

        again = Here(copy)
        again.take_over()
        found.append(seen(again))
        assert set(again.points("kept")) == {0, 1, 2}
        assert again.damage("kept") is None
        if found[-1] is not None:
            assert again.damage() is None
        again.tidy()
        again.again()
        again.tidy()
        assert left_over(copy, again) == [], f"step {step}"
        again.store.close()
        shutil.rmtree(copy)
        step += 1

    assert step > 2, "there were steps"
    assert (found[0], found[-1]) == (old, new)
    assert [one for one in found if one not in (old, new)] == []


class Optimised:
    """Optimises in this process, and has ended at once."""

    def __init__(self, place: Path) -> None:
        optimise.main([str(place)])

    def poll(self) -> int:
        return 0

    kill = wait = poll


def forked_run(args, *, cwd, **_):
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return SimpleNamespace(returncode=forked.Popen(args, cwd=cwd, env=os.environ, **streams).wait())


FORKED = SimpleNamespace(run=forked_run, DEVNULL=None)


def texts_of(here: Here) -> int:
    """Bytes that payloads take; the engine makes room for vectors and its log in large pieces."""
    return sum(map(allocated, here.shard("kept").glob("segments/*/payload_storage")))


def test_a_dropped_collection_gives_its_room_back_and_comes_back_empty(tmp_path):
    here = Here(tmp_path, "kept", "a")
    here.do(("create_described", "alone", made(sparse=SPARSE)))
    for name in ("kept", "a", "alone"):
        here.do(upsert(1, 2, 3, name=name))
    alone = here.space("alone").path
    for start in range(0, 4000, 500):
        here.do(upsert(*range(start, start + 500), says=os.urandom(1000).hex()))
    assert optimised(here)
    full = texts_of(here)

    here.do(
        ("delete_collection", "a"),
        ("delete_collection", "alone"),
        ("create_described", "a", made()),
    )
    assert here.points() == {}
    assert here.count("a") == 0
    here.tidy()
    assert not alone.exists()
    here.do(upsert(7))
    assert set(here.points()) == {7}
    assert set(here.points("kept")) == {1, 2, 3}
    assert here.space().deleted == 4000, "a reason to optimise"
    assert optimised(here)
    assert texts_of(here) < full / 4
    assert here.store.unwanted() == []
    here.again()
    assert (set(here.points()), here.damage()) == ({7}, None)
    here.store.close()


def test_ids_of_collections_that_were_dropped_are_not_given_again_before_their_points_are_gone(
    tmp_path,
):
    """Else an id follows from the name: equal scores come in the same order in every store."""
    here, other = Here(tmp_path / "here", "a"), Here(tmp_path / "other", "b", "a")
    first = here.store.get("a").entry.id
    assert other.store.get("a").entry.id == first
    here.do(upsert(1), ("delete_collection", "a"))
    assert here.store.catalogue.new_id("a")[:8] != first[:8]

    asyncio.run(here.store.remove_unwanted(pause))
    assert here.store.catalogue.new_id("a") == first
    here.store.close()
    other.store.close()


def test_a_copy_that_lacks_points_is_given_up(tmp_path):
    here = Here(tmp_path, "kept")
    entry = here.store.new_entry("a", made())
    with pytest.raises(EngineFailure, match="0 of its 3 points were copied"):
        asyncio.run(here.store.fill(entry, [], 3, pause))

    assert "a" not in here.store.names()
    here.store.close()


def test_a_change_is_on_the_disk_before_it_is_acknowledged(tmp_path, monkeypatch):
    here, seen = Here(tmp_path, "kept"), []
    monkeypatch.setattr(disk, "sync_folder", lambda path: seen.append(path.name))
    monkeypatch.setattr(
        "mcp_server_qdrant.qdrant.edge.catalogue.sync_folder", lambda path: seen.append(path.name)
    )
    here.do(("create_described", "a", made()))
    assert seen == ["collections"]
    here.do(("delete_collection", "a"))

    assert seen == ["collections", "unwanted", "collections"], "its points are known before"
    here.store.close()
