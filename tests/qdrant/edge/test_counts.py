"""What a shard lost on the disk is noticed when it is opened; nothing else passes for a loss."""

import asyncio
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.qdrant.edge import counts as edge_counts
from mcp_server_qdrant.qdrant.edge import shards as edge_shards
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE
from mcp_server_qdrant.qdrant.edge.files import name_of, slug_of
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests import forked
from tests.qdrant.edge.here import ODD, Store, delete, upsert
from tests.support import memory_engine

GONE = "47 of its 48 points are missing on the disk."


def lose_segments(path: Path) -> None:
    for segment in (path / "segments").iterdir():
        shutil.rmtree(segment)


@pytest.fixture
def store(tmp_path):
    """48 points in `a`, the last of them in the log too, and 3 in `b`."""
    store = Store(tmp_path, "a", "b")
    store.do(upsert(*range(47)))
    store.do(upsert(47))
    store.do(upsert(1, 2, 3, name="b"))
    yield store
    store.shards.close_all()


def lost(store: Store) -> None:
    store.shards.close_all()
    lose_segments(store.path())
    store.again()


def test_a_shard_without_one_of_its_segments_says_how_many_points_are_missing(store, caplog):
    lost(store)

    assert store.damage().startswith(GONE)
    assert "mcp-server-qdrant accept-loss 'a'" in store.damage()
    info = asyncio.run(Reads(store.shards).info("a"))
    assert info["damage"] == store.damage()
    assert store.damage("b") is None
    assert store.shards.get("a").damage(numbers=False) == INCOMPLETE
    store.shards.close_all()
    store.damage()
    assert caplog.text.count(GONE) == 1, "said once"


def test_a_shard_whose_folder_of_segments_is_gone_says_so_too(store):
    store.shards.close_all()
    shutil.rmtree(store.path() / "segments")
    store.again()

    assert store.damage().startswith(GONE), "one was still in the log"


@pytest.mark.parametrize("text", [None, "", "x", "48", "9" * 90, "\x00" * 34, "-1 a b"])
def test_a_number_that_is_damaged_or_not_there_says_nothing(store, text):
    store.shards.close_all()
    number = store.path() / "points"
    number.unlink() if text is None else number.write_text(text)
    lose_segments(store.path())
    store.again()

    assert store.damage() is None
    assert store.number() == 1, "from now on it is remembered"


def test_what_a_sound_shard_goes_through_is_no_loss(store):
    steps = [
        [upsert(*range(48, 90)), upsert(*range(10)), delete(50)],
        [delete(1, 2, 3, 999)],
        [("delete", "a", ODD), upsert(7, 9), ("delete", "a", ODD)],
        [("delete", "a", {"must": []})],
        [upsert(*range(5)), delete(*range(5))],
        [upsert(*range(20))],
        [("drop", "a")],
    ]
    for calls in steps[:-1]:
        store.do(*calls)
        assert store.damage() is None
        assert store.number() == store.shards.get("a").count()
        store.again()
        assert store.damage() is None
    store.do(*steps[-1])
    assert not list((store.folder / "shards").glob("c-a*"))


def test_a_shard_that_is_optimised_keeps_its_number_and_its_loss(store):
    lost(store)
    store.do(upsert(100, 101, 102))
    shard = store.shards.get("a")
    optimiser = Optimiser(store.shards, EdgeOptions(min_free=0), asyncio.Lock())
    assert asyncio.run(optimiser.optimise(shard))

    assert store.shards.get("a").sidecar["optimised_points"] == 4
    for _ in range(2):
        assert store.damage().startswith("44 of its 48")
        assert store.number() == 48
        store.again()


class Watched:
    """An engine that tells what is remembered when it is changed."""

    def __init__(self, engine, number):
        self._engine, self._number = engine, number
        self.seen = []

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def update(self, update):
        self.seen.append(("update", self._number()))
        return self._engine.update(update)


@pytest.mark.parametrize(
    ("call", "before"), [(delete(1), None), (("delete", "a", ODD), None), (upsert(1, 99), 48)]
)
def test_the_number_is_never_higher_than_what_a_crash_leaves(store, monkeypatch, call, before):
    synced = []
    monkeypatch.setattr(edge_counts, "sync", synced.append)
    shard = store.shards.get("a")
    shard._engine = Watched(shard.engine, store.number)
    store.do(call)

    assert shard.engine.seen == [("update", before)]
    assert len(synced) == (before is None), "durably before what it allows"
    assert store.number() == shard.count()


@pytest.mark.parametrize("log_is_enough", [True, False])
def test_a_write_that_is_not_durable_is_not_counted(store, monkeypatch, log_is_enough):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    shard = store.shards.get("a")
    monkeypatch.setattr(edge_shards, "LOG_IS_ENOUGH", log_is_enough)
    monkeypatch.setattr(edge_shards, "sync_tree", full)
    monkeypatch.setattr(shard, "flush", full)
    with pytest.raises(EngineFailure, match="may or may not have happened"):
        store.do(upsert(100))
    assert store.number() == 48


def test_what_is_missing_stays_missing_while_others_are_deleted_and_stored(store):
    lost(store)
    assert store.damage().startswith(GONE)
    store.do(upsert(100, 101, 102))
    assert store.damage().startswith("44 of its 48")
    store.do(upsert(103), delete(100, 101), ("delete", "a", ODD))
    missing = int(store.damage().split()[0])
    store.do(delete(102))

    assert int(store.damage().split()[0]) == missing == 43
    store.again()
    assert int(store.damage().split()[0]) == missing


def test_points_that_are_stored_again_end_the_damage(store):
    lost(store)
    assert store.damage()
    store.do(upsert(*range(48)))

    assert store.damage() is None
    assert store.number() == 48


def test_a_backup_that_is_restored_ends_the_damage(store, tmp_path):
    store.shards.close_all()
    shutil.copytree(store.path(), tmp_path / "backup")
    lose_segments(store.path())
    store.again()
    assert store.damage()
    store.shards.close_all()
    shutil.rmtree(store.path())
    shutil.copytree(tmp_path / "backup", store.path())
    store.again()

    assert store.damage() is None


def test_a_loss_that_is_accepted_is_not_told_again(store):
    lost(store)

    assert store.do(("accept_loss", "a")) == [(47, 1)]
    assert store.damage() is None
    store.again()
    assert store.damage() is None
    assert store.do(("accept_loss", "a")) == [(0, 1)]


async def test_another_engine_has_no_loss_to_accept():
    async with memory_engine() as engine:
        with pytest.raises(RequestError, match="Only the embedded engine"):
            await Bulk(engine, ()).accept_loss("a")


def test_a_collection_whose_folder_is_deleted_is_gone_and_the_others_stay(store):
    store.shards.close_all()
    shutil.rmtree(store.path())
    store.again()

    assert store.shards.names() == ["b"]
    assert store.damage("b") is None


def lay_out_as_before(store: Store) -> None:
    """As versions before had it: description and number beside the folder of the shard."""
    store.shards.close_all()
    path = store.path()
    (path / "collection.json").rename(path.with_name("c-a.json"))
    number = (path / "points").read_text()
    (path / "points").unlink()
    path.with_name("c-a.count").write_text(f"{number} 0123abcd")


def test_a_collection_of_a_version_before_opens_unchanged(store):
    shard = store.shards.get("a")
    before = shard.sidecar
    lay_out_as_before(store)
    store.shards.folder.prepare()
    store.again()

    assert store.shards.get("a").sidecar == before
    assert store.damage() is None
    assert store.shards.get("a").count() == 48
    store.do(upsert(100))
    assert store.number() == 49
    assert {path.name for path in store.path().parent.iterdir()} == {"c-a", "c-b"}


def test_what_a_collection_of_a_version_before_lost_is_noticed(store):
    lay_out_as_before(store)
    lose_segments(store.path())
    store.shards.folder.prepare()
    store.again()

    assert store.damage().startswith(GONE)


@pytest.mark.parametrize("text", [None, "", "{", '{"name": "a"}', "[]"])
def test_a_collection_without_its_description_says_so_and_is_not_begun_anew(store, text, caplog):
    store.shards.close_all()
    sidecar = store.path() / "collection.json"
    kept = sidecar.read_text()
    sidecar.unlink() if text is None else sidecar.write_text(text)
    store.again()

    assert store.shards.names() == ["a", "b"]
    with pytest.raises(EngineFailure, match="description of the collection 'a' is missing"):
        store.do(upsert(1))
    vectors = {"d": {"size": 2, "distance": "Dot"}}
    made = {"vectors": vectors, "sparse_vectors": {}, "metadata": None}
    with pytest.raises(RequestError, match="already exists"):
        store.do(("create", "a", made))
    sidecar.write_text(kept)
    store.again()
    assert store.damage() is None
    assert store.shards.get("a").count() == 48


def test_a_collection_without_its_description_can_be_deleted(store):
    store.shards.close_all()
    (store.path() / "collection.json").unlink()
    store.again()

    assert store.do(("drop", "a")) == [True]
    store.again()
    assert store.shards.names() == ["b"]
    assert not list((store.folder / "shards").glob("c-a*"))


def test_a_description_that_something_brought_back_beside_the_folder_is_not_read(store):
    store.shards.close_all()
    stray = store.path().with_name("c-a.json")
    stray.write_text("{")
    store.shards.folder.prepare()
    store.again()

    assert store.shards.get("a").count() == 48
    assert stray.exists()


@pytest.mark.parametrize("twin", ["c-a.bak", "c-a (copy)", "a"])
def test_a_copy_that_a_person_left_there_is_no_collection(store, twin):
    store.shards.close_all()
    shutil.copytree(store.path(), store.folder / "shards" / twin)
    store.again()

    assert store.shards.names() == ["a", "b"]
    assert store.damage() is None


@pytest.mark.parametrize("name", ["a", "Ärger.ü", "A B", "x" * 60, "50%", "名"])
def test_a_folder_tells_its_collections_name(name):
    assert name_of(slug_of(name)) == name


def test_names_stay_distinct_on_disks_that_ignore_case():
    names = ["Notes", "notes", "NOTES", "con", "a.b", "a%2eb", "日本", "ü", "x" * 255]

    assert len({slug_of(name).lower() for name in names}) == len(names)


def test_the_folder_of_a_name_too_long_for_one_tells_what_it_can():
    assert slug_of(name_of(slug_of("x" * 300))) == slug_of("x" * 300)


CHILD = """
import random, sys
from pathlib import Path
from tests.qdrant.edge.here import Store, ODD, delete, upsert

store = Store(Path(sys.argv[1]))
dice = random.Random(int(sys.argv[2]))
print("ready", flush=True)
while True:
    ids = dice.sample(range(200), dice.randint(1, 60))
    kind = dice.random()
    if kind < 0.5:
        store.do(upsert(*ids))
    elif kind < 0.7:
        store.do(delete(*ids))
    elif kind < 0.8:
        store.do(("delete", "a", ODD), upsert(*ids))
    else:
        store.do(upsert(*ids[:9]), delete(*ids[5:]), upsert(*ids[7:20]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_no_moment_at_which_the_host_is_killed_looks_like_a_loss(tmp_path, rounds):
    Store(tmp_path, "a").shards.close_all()
    dice = random.Random(7)
    for round_ in range(rounds):
        child = forked.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(round_)],
            env=os.environ,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        assert child.stdout.readline() == b"ready\n"
        with child.stdout:
            try:
                child.wait(dice.random() * 0.3)
            except subprocess.TimeoutExpired:
                os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL, "it worked until it was killed"
        store = Store(tmp_path)
        assert store.damage() is None
        store.shards.close_all()


def copy_comes(shard: Path) -> None:
    twin = shard.with_name("twin")
    shutil.copytree(shard, twin)
    shutil.rmtree(shard)
    twin.rename(shard)


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be deleted there")
def test_a_shard_whose_files_are_replaced_while_it_is_open_ends_the_host(store, monkeypatch):
    class Ended(BaseException):
        pass

    def ended(code):
        raise Ended

    monkeypatch.setattr(edge_shards.os, "_exit", ended)
    shard = store.shards.get("a")
    _ = shard.engine
    store.do(upsert(*range(200)), delete(3))

    copy_comes(store.path())
    with pytest.raises(Ended):
        shard.flush()


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be deleted there")
def test_a_write_to_a_shard_whose_files_are_gone_is_not_acknowledged(store):
    shutil.rmtree(store.path())

    with pytest.raises(EngineFailure, match="was deleted or moved"):
        store.do(upsert(1))


async def test_a_folder_that_is_replaced_under_the_host_is_opened_anew(tmp_path):
    from tests.hosts import pid_of
    from tests.qdrant.edge.test_host import make, opened, point

    client = await opened(tmp_path)
    await make(client)
    await client.upsert("c", [point(i) for i in range(10)])
    shard, old = tmp_path / "shards" / "c-c", tmp_path / "older"
    shutil.copytree(shard, old)
    await client.upsert("c", [point(i) for i in range(10, 30)])
    pid = pid_of(tmp_path)
    shutil.rmtree(shard)
    old.rename(shard)

    await client.upsert("c", [point(50)])  # by the next host: nothing is written into the old files
    assert pid_of(tmp_path) != pid
    assert (await client.count("c")).count == 11
    assert (await client.get_collection("c")).warnings is None
    log = (tmp_path / "engine-host.log").read_text()
    assert "were replaced while it was open" in log
    await client.close()
