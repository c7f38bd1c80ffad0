"""Known answers: none is wrong, whatever happened to the shard between two hosts."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.edge import shards as edge_shards
from mcp_server_qdrant.qdrant.edge.answers import MOST
from mcp_server_qdrant.qdrant.edge.reads import Reads
from mcp_server_qdrant.qdrant.edge.writes import Writes
from tests import forked
from tests.qdrant.edge.test_counts import ODD, Store, delete, upsert

HAS_VECTOR = {"must": [{"has_vector": "d"}]}
UNDATED = {"must": [{"key": "n", "match": {"value": 99}}]}
NEWEST = {"key": "n", "direction": "desc"}
NOTHING = (False, False, None)


@pytest.fixture
def store(tmp_path):
    """9 points in `a`, indexed and known, of which a new host has opened none."""
    store = Store(tmp_path, "a")
    store.do(("index", "a", "n", "integer"), ("index", "a", "odd", "integer"))
    store.do(upsert(*range(8)))
    store.do(upsert(8))  # in the log too, as the last write is
    answers(store)
    store.again()
    yield store
    store.shards.close_all()


def done(steps):
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def answers(store):
    """All that a server asks of each collection before it searches, or lists it."""
    reads = Reads(store.shards)
    info = reads.info("a")
    return {
        "points": info["points_count"],
        "indexes": {key: found["points"] for key, found in info["payload_schema"].items()},
        "documents": done(reads.count("a", HAS_VECTOR)),
        "tags": sorted(map(tuple, done(reads.facet("a", "odd", None, 1_000)))),
        "newest": [row[0] for row in done(reads.ordered("a", None, 1, NEWEST, NOTHING))],
        "pending": list(done(reads.scroll("a", UNDATED, 32, None, NOTHING))),
    }


def after(*ids):
    """The answers about a shard with these points."""
    odd = sum(point % 2 for point in ids)
    return {
        "points": len(ids),
        "indexes": {"n": len(ids), "odd": len(ids)},
        "documents": len(ids),
        "tags": [(0, len(ids) - odd), (1, odd)],
        "newest": [max(ids)],
        "pending": [[], None],
    }


def opened(store) -> int:
    return len(store.shards.opened())


def file(store) -> Path:
    return store.path().with_name("c-a.answers")


def test_what_was_answered_before_needs_no_open_shard_after_a_start(store):
    assert answers(store) == after(*range(9))
    assert opened(store) == 0
    assert file(store).stat().st_mode & 0o077 == 0 or sys.platform == "win32"


@pytest.mark.parametrize(
    ("write", "left"),
    [
        (upsert(20), (*range(9), 20)),
        (delete(3), (0, 1, 2, 4, 5, 6, 7, 8)),
        (("delete", "a", ODD), (0, 2, 4, 6, 8)),
    ],
    ids=["upsert", "delete", "delete by filter"],
)
def test_a_write_ends_what_is_known_here_and_in_the_next_host(store, write, left):
    answers(store)
    store.do(write)
    assert not file(store).exists()
    assert answers(store) == after(*left)
    store.again()
    assert answers(store) == after(*left)
    assert opened(store) == 0


CHILD = """
import os, signal, sys
from tests.qdrant.edge.test_answers import answers
from tests.qdrant.edge.test_counts import EdgeOptions, Folder, Path, Shards
from tests.qdrant.edge.test_counts import Store, Worker, upsert

store = object.__new__(Store)
store.folder = Path(sys.argv[1])
store.shards = Shards(Folder(store.folder, 0), 8)
store.shards.scan()
store.writer = Worker(store.shards, EdgeOptions())
shard = store.shards.get("a")
exec(sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    ("steps", "points", "shards"),
    [
        ("answers(store)", range(9), 0),
        ("store.shards.engine(shard)", range(9), 1),
        ("store.shards.engine(shard); store.shards.keep(shard)", range(9), 0),
        ("store.do(upsert(9))", range(10), 1),
        ("store.do(upsert(9)); answers(store)", range(10), 1),
        ("store.do(upsert(9)); answers(store); store.shards.keep(shard)", range(10), 0),
        ("list(store.writer._writes.upsert(*upsert(9)[1:])); answers(store)", None, 1),
    ],
    ids=["asked", "open", "kept", "written to", "asked then", "kept then", "not flushed"],
)
def test_a_host_that_is_killed_leaves_no_wrong_answer(store, steps, points, shards):
    child = [sys.executable, "-c", CHILD, str(store.folder), steps]
    ended = forked.run(child, timeout=60, env=dict(os.environ), cwd=Path(__file__).parents[3])
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    store.again()

    found = answers(store)
    held = store.shards.exact_count(store.shards.get("a"))
    assert found == after(*(range(held) if points is None else points))
    assert opened(store) == shards
    shard = store.shards.get("a")
    assert len(store.shards.engine(shard).retrieve([*range(20)], False, False)) == found["points"]


def rewritten(store) -> None:
    """As an older version does, which knows nothing of the file."""
    kept = file(store).read_bytes()
    store.do(upsert(9))
    store.shards.close_all()
    file(store).write_bytes(kept)


def restored(store) -> None:
    """An older copy of the shard alone."""
    copy = store.folder / "copy"
    shutil.copytree(store.path(), copy)
    kept = file(store).read_bytes()
    store.do(upsert(9))
    answers(store)
    store.shards.close_all()
    shutil.rmtree(store.path())
    copy.rename(store.path())
    assert file(store).read_bytes() != kept


def copied(store) -> None:
    copy = store.folder / "copy"
    shutil.copytree(store.path(), copy)
    shutil.rmtree(store.path())
    copy.rename(store.path())


def torn(store) -> None:
    text = file(store).read_text()
    file(store).write_text(text.replace('"count": 9', '"count": 8'))


def another_name(store) -> None:
    kept = file(store).read_bytes()
    store.do(("drop", "a"))
    assert not file(store).exists()
    made = {"vectors": {"d": {"size": 2, "distance": "Dot"}}, "sparse_vectors": {}}
    store.do(("create", "a", {**made, "metadata": None, "token": "another"}))
    store.do(("index", "a", "n", "integer"), ("index", "a", "odd", "integer"), upsert(*range(10)))
    store.shards.close_all()
    file(store).write_bytes(kept)


@pytest.mark.parametrize(
    ("harm", "points"),
    [(rewritten, 10), (restored, 9), (copied, 9), (torn, 9), (another_name, 10)],
)
def test_where_anything_differs_the_shard_is_asked(store, harm, points):
    harm(store)
    store.again()
    assert answers(store) == after(*range(points))
    assert opened(store) == 1


def test_a_file_that_is_lost_is_noticed_though_the_answers_are_known(store):
    for segment in (store.path() / "segments").iterdir():
        shutil.rmtree(segment)
    store.again()
    assert "8 of its 9 points are missing" in Reads(store.shards).info("a")["damage"]
    store.again()
    assert "8 of its 9 points are missing" in Reads(store.shards).info("a")["damage"]


def test_a_shard_that_goes_while_the_host_runs_is_not_known_any_more(store):
    assert answers(store)
    shutil.rmtree(store.path())
    with pytest.raises(EngineFailure, match="is gone from the disk"):
        answers(store)


def test_what_could_not_be_flushed_is_not_kept(store, monkeypatch):
    def failing(*_: object) -> None:
        raise EngineFailure("full")

    shards, writes = store.shards, Writes(store.shards)
    monkeypatch.setattr(edge_shards.Shards, "flushed", failing)
    for _ in writes.upsert(*upsert(9)[1:]):
        pass
    for _ in writes.flush():
        pass
    assert answers(store) == after(*range(10))
    shards.keep(shards.get("a"))
    assert not file(store).exists()
    monkeypatch.undo()


def test_what_cannot_be_written_down_serves_until_the_end(store):
    answers(store)
    store.do(upsert(9))
    file(store).mkdir()
    assert answers(store) == after(*range(10))
    store.again()
    assert answers(store) == after(*range(10))
    assert opened(store) == 1
    file(store).rmdir()


def test_a_few_answers_are_remembered_those_of_every_search_among_them(store):
    reads = Reads(store.shards)
    for value in range(2 * MOST):
        done(reads.count("a", {"must": [{"key": "n", "match": {"value": value}}]}))
    known = store.shards.get("a").answers.known
    assert len(known) == MOST
    assert {"count", "info"} <= known.keys()
    long = {"must": [{"has_id": list(range(1_000))}]}
    assert done(reads.count("a", long)) == 9
    assert len(known) == MOST
