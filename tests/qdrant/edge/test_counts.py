"""What a store lost on the disk is noticed when it is opened; nothing else passes for a loss."""

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
from mcp_server_qdrant.qdrant.edge import space as edge_space
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE
from mcp_server_qdrant.qdrant.edge.files import name_of, slug_of
from mcp_server_qdrant.qdrant.edge.optimise import Optimiser
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests import forked
from tests.qdrant.edge.here import ODD, SPARSE, Here, delete, filtered, made, upsert
from tests.qdrant.edge.storing import make, point, started

GONE = "47 of its 48 points are missing on the disk."


def lose_segments(shard: Path) -> None:
    for segment in (shard / "segments").iterdir():
        shutil.rmtree(segment)


@pytest.fixture
def here(tmp_path):
    """48 points in `a`, the last of them in the log too, 3 in `b` and 2 in `c`, another space's."""
    here = Here(tmp_path, "a", "b")
    here.do(("create_described", "c", made(sparse=SPARSE)), upsert(1, 2, name="c"))
    here.do(upsert(1, 2, 3, name="b"), upsert(*range(47)), upsert(47))
    yield here
    here.store.close()


def lost(here: Here) -> None:
    shard = here.shard()
    here.store.close()
    lose_segments(shard)
    here.again()


def test_a_store_without_its_segments_says_of_each_collection_how_many_points_it_misses(
    here, caplog
):
    lost(here)

    assert here.damage().startswith(GONE)
    assert "mcp-server-qdrant accept-loss 'a'" in here.damage()
    assert here.damage("b").startswith("3 of its 3 points are missing")
    assert here.damage("c") is None
    assert here.store.get("a").damage(numbers=False) == INCOMPLETE
    here.store.close()
    here.damage()
    assert caplog.text.count("points are missing") == 1, "said once"


def test_a_store_whose_folder_of_segments_is_gone_says_so_too(here):
    shard = here.shard()
    here.store.close()
    shutil.rmtree(shard / "segments")
    here.again()

    assert here.damage().startswith(GONE), "one was still in the log"


@pytest.mark.parametrize("text", [None, "", "x", "48", "9" * 90, "\x00" * 34, '{"a": "x"}', "[1]"])
def test_numbers_that_are_damaged_or_not_there_say_nothing(here, text):
    shard, number = here.shard(), here.space().path / "points"
    here.store.close()
    number.unlink() if text is None else number.write_text(text)
    lose_segments(shard)
    here.again()

    assert here.damage() is None
    assert here.number() == 1, "from now on it is remembered"


def test_what_a_sound_store_goes_through_is_no_loss(here):
    steps = [
        [upsert(*range(48, 90)), upsert(*range(10)), delete(50)],
        [delete(1, 2, 3, 999)],
        [("delete", "a", ODD), upsert(7, 9), ("delete", "a", ODD)],
        [("delete", "a", filtered({"must": []}))],
        [upsert(*range(5)), delete(*range(5))],
        [upsert(*range(20))],
    ]
    for calls in steps:
        here.do(*calls)
        assert here.damage() is None
        assert here.number() == here.store.get("a").count()
        here.again()
        assert here.damage() is None
        assert here.damage("b") is None
        assert here.number("b") == 3


def test_a_store_that_is_optimised_keeps_its_numbers_and_its_loss(here):
    lost(here)
    here.do(upsert(100, 101, 102))
    optimiser = Optimiser(here.store, asyncio.Lock())
    assert asyncio.run(optimiser.optimise(here.space()))

    assert here.space().optimised == 4
    for _ in range(2):
        assert here.damage().startswith("44 of its 48")
        assert here.damage("b").startswith("3 of its 3")
        assert here.number() == 48
        here.again()


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
def test_a_number_is_never_higher_than_what_a_crash_leaves(here, monkeypatch, call, before):
    synced = []
    monkeypatch.setattr(edge_counts, "sync", synced.append)
    space = here.space()
    space._engine = Watched(space.engine, here.number)
    here.do(call)

    assert space.engine.seen == [("update", before)]
    assert len(synced) == (before is None), "durably before what it allows"
    assert here.number() == here.store.get("a").count()
    assert here.number("b") == 3


@pytest.mark.parametrize("log_is_enough", [True, False])
def test_a_write_that_is_not_durable_is_not_counted(here, monkeypatch, log_is_enough):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(edge_space, "LOG_IS_ENOUGH", log_is_enough)
        broken.setattr(edge_space, "sync_tree", full)
        broken.setattr(here.space(), "flush", full)
        with pytest.raises(EngineFailure, match=r"be made durable.* may or may not"):
            here.do(upsert(100))
    assert here.number() == 48
    here.do(upsert(3, name="c"))
    here.store.settle()
    assert here.number("c") == 3, "told once"


def test_what_is_missing_stays_missing_while_others_are_deleted_and_stored(here):
    lost(here)
    assert here.damage().startswith(GONE)
    here.do(upsert(100, 101, 102))
    assert here.damage().startswith("44 of its 48")
    here.do(upsert(103), delete(100, 101), ("delete", "a", ODD))
    missing = int(here.damage().split()[0])
    here.do(delete(102))

    assert int(here.damage().split()[0]) == missing == 43
    here.again()
    assert int(here.damage().split()[0]) == missing
    assert here.damage("b").startswith("3 of its 3"), "others change nothing for it"


def test_points_that_are_stored_again_end_the_damage(here):
    lost(here)
    assert here.damage()
    here.do(upsert(*range(48)))

    assert here.damage() is None
    assert here.number() == 48


def test_a_loss_that_is_accepted_is_not_told_again(here):
    lost(here)

    assert here.do(("accept_loss", "a")) == [(47, 1)]
    assert here.damage() is None
    assert here.damage("b")
    here.again()
    assert here.damage() is None
    assert here.damage("b")
    assert here.do(("accept_loss", "a")) == [(0, 1)]


async def test_another_engine_has_no_loss_to_accept(memory):
    with pytest.raises(RequestError, match="Only the embedded engine"):
        await Bulk(memory, ()).accept_loss("a")


def test_a_dropped_collection_is_missed_by_nobody(here):
    lost(here)
    here.do(("delete_collection", "a"))
    here.tidy()
    here.do(("create_described", "a", made()), upsert(5))
    here.again()

    assert here.damage() is None
    assert here.number() == 1


def test_a_space_whose_folder_is_deleted_is_named_and_the_others_stay(here):
    path = here.space().path
    here.store.close()
    shutil.rmtree(path)
    here.again()

    assert here.store.names() == ["a", "b", "c"]
    with pytest.raises(EngineFailure, match="files of the collection 'a' are missing on the disk"):
        here.points()
    assert len(here.points("c")) == 2
    assert here.do(("delete_collection", "a"), ("create_described", "a", made()), upsert(5))[0]
    assert set(here.points()) == {5}


def descriptions(here: Here) -> list[Path]:
    return [*(here.root / "collections").glob(f"{slug_of('a')}.*")]


@pytest.mark.parametrize("text", ["", "{", '{"name": "a"}', "[]"])
def test_a_collection_without_description_says_so_and_is_not_begun_anew(here, text):
    kept = {path: path.read_text() for path in descriptions(here)}
    for path in kept:
        path.write_text(text)
    here.again()

    assert here.store.names() == ["a", "b", "c"]
    with pytest.raises(EngineFailure, match="description of the collection 'a' is missing"):
        here.do(upsert(1))
    with pytest.raises(RequestError, match="already exists"):
        here.do(("create_described", "a", made()))
    for path, description in kept.items():
        path.write_text(description)
    here.again()
    assert here.damage() is None
    assert len(here.points()) == 48


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_text("{")])
def test_a_description_is_there_twice(here, harm):
    for path in descriptions(here):
        kept = path.read_text()
        harm(path)
        here.again()
        assert len(here.points()) == 48
        assert path.read_text() == kept


def test_a_collection_without_description_can_be_deleted(here):
    for path in descriptions(here):
        path.write_text("{")
    here.again()

    assert here.do(("delete_collection", "a")) == [True]
    here.again()
    assert here.store.names() == ["b", "c"]


@pytest.mark.parametrize("twin", ["c-a.bak.json", "c-a (copy).json", "a.json"])
def test_a_copy_that_a_person_left_there_is_no_collection(here, twin):
    (path, _) = descriptions(here)
    shutil.copyfile(path, path.with_name(twin))
    here.again()

    assert here.store.names() == ["a", "b", "c"]
    assert here.damage() is None


@pytest.mark.parametrize("name", ["a", "Ärger.ü", "A B", "x" * 60, "50%", "名"])
def test_a_folder_tells_its_collections_name(name):
    assert name_of(slug_of(name)) == name


def test_names_stay_distinct_on_disks_that_ignore_case():
    names = ["Notes", "notes", "NOTES", "con", "a.b", "a%2eb", "日本", "ü", "x" * 255]

    assert len({slug_of(name).lower() for name in names}) == len(names)
    assert slug_of(name_of(slug_of("x" * 300))) == slug_of("x" * 300), "of a name too long for one"


CHILD = """
import random, sys
from pathlib import Path
from tests.qdrant.edge.here import Here, ODD, delete, upsert

store = Here(Path(sys.argv[1]))
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
        store.do(upsert(*ids, name="b"), upsert(*ids[:9]), delete(*ids[5:]), upsert(*ids[7:20]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_no_moment_at_which_the_process_is_killed_looks_like_a_loss(tmp_path, rounds):
    Here(tmp_path, "a", "b").store.close()
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
        here = Here(tmp_path)
        assert (here.damage(), here.damage("b")) == (None, None)
        here.store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be deleted there")
def test_a_store_whose_files_are_replaced_while_it_is_open_ends_the_process(here, monkeypatch):
    class Ended(BaseException):
        pass

    def ended(code):
        raise Ended

    monkeypatch.setattr(edge_space.os, "_exit", ended)
    here.do(upsert(*range(200)), delete(3))
    shard, twin = here.shard(), here.root / "twin"
    shutil.copytree(shard, twin)
    shutil.rmtree(shard)
    twin.rename(shard)

    with pytest.raises(Ended):
        here.space().flush()


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be deleted there")
def test_a_write_to_a_store_whose_files_are_gone_is_not_acknowledged(here):
    shutil.rmtree(here.shard())
    with pytest.raises(EngineFailure, match="was deleted or moved"):
        here.do(upsert(1))


async def test_nothing_is_written_into_files_that_took_the_place_of_the_open_ones(tmp_path):
    folder, old = tmp_path / "engine", tmp_path / "older"
    client = await EdgeClient.open(folder)
    await make(client)
    await client.upsert("c", [point(i) for i in range(10)])
    await client.close()
    (space,) = (folder / "spaces").iterdir()
    shutil.copytree(space, old)
    child = started(folder, 10)
    with child.stdout:
        for _ in range(3):
            child.stdout.readline()
        space.rename(tmp_path / "elsewhere")
        old.rename(space)
    assert await asyncio.to_thread(child.wait, 60) == 1, "it ended"

    client = await EdgeClient.open(folder)
    assert (await client.count("c")).count == 10
    assert (await client.get_collection("c")).warnings is None
    await client.close()
