"""Folders kept in sync while the server runs."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest

from mcp_server_qdrant.core.datatypes import SyncedFolder
from mcp_server_qdrant.core.errors import EngineUnavailable, RequestError
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.ingest.files import background as background_module
from mcp_server_qdrant.ingest.files.background import (
    Background,
    FolderState,
    Pace,
    follow,
    list_watched,
    pause_after,
    wait_for_change,
)
from mcp_server_qdrant.ingest.files.state import KnownFile, Report, SyncRequest
from mcp_server_qdrant.ingest.files.walk import AWAY, Problem, sources

linux = pytest.mark.skipif(
    background_module.WHOLE, reason="the system itself follows no links there"
)


async def test_a_model_works_for_its_share_of_the_time_on_few_texts_at_once_as_all_of_a_pace_do():
    calls, working, most = list[int](), 0, 0

    async def encode(texts: Sequence[str]) -> list[list[float]]:
        nonlocal working, most
        calls.append(len(texts))
        working += 1
        most = max(most, working)
        await asyncio.sleep(0.02)
        working -= 1
        return [[float(len(text))] for text in texts]

    pace, began = Pace(0.25), monotonic()
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    vectors, _ = await asyncio.gather(pace(encode)(texts), pace(encode)(["x"]))

    assert vectors == [[1.0], [2.0], [3.0], [4.0], [5.0]]
    assert (sorted(calls), most) == ([1, 1, 2, 2], 1)
    assert monotonic() - began > 0.3, "of which it worked for 0.08"


FILE = KnownFile({}, set(), None, (1, 1))


def report(*problems: Problem, files: int = 2) -> Report:
    known = {f"n/{number}.md": FILE for number in range(files)}
    return Report(stored=known, problems=list(problems))


BAD = Problem("n/bad.pdf", "is locked", stamp=(5, 7))


def test_a_person_is_told_how_it_goes():
    state = FolderState()
    said = [state.sentence("notes")]
    state.last, state.fault = report(files=1200), None
    said.append(state.sentence("notes"))
    state.last = report(*(Problem(f"n/{n}", "is binary") for n in range(5)))
    said.append(state.sentence("notes"))
    state.last = report(Problem("notes/", "cannot be opened: No such file or directory"))
    said.append(state.sentence("notes"))
    state.running = Report(sizes=200, size=50.0, files=300, new=["n"] * 20, unchanged=100)
    said.append(state.sentence("notes"))
    state.end("Qdrant is away.")
    said.append(state.sentence("notes"))

    assert said == [
        "not in sync with notes: not read yet",
        "in sync with notes, 1,200 files",
        "in sync with notes, 2 files, 5 not read: n/0 is binary, n/1 is binary, n/2 is binary and "
        "2 more",
        "not in sync with notes: cannot be opened: No such file or directory",
        "syncing notes, 25%: 120 of 300 files read",
        "not in sync with notes: Qdrant is away",
    ]


class Syncing:
    """Notes what it is asked for, and says when."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[SyncRequest] = asyncio.Queue()
        self.error: Exception | None = None
        self.problems: list[Problem] = []

    async def run(self, request: SyncRequest, report: Report, before: Report | None) -> Report:
        self.asked.put_nowait(request)
        if self.error:
            raise self.error
        report.stored = {"n/a.md": FILE}
        report.problems += self.problems
        return report

    async def next(self) -> SyncRequest:
        async with asyncio.timeout(30):
            return await self.asked.get()


@pytest.fixture
def notes(tmp_path) -> Path:
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


async def test_a_folder_is_mirrored_at_the_start_and_after_each_change(notes):
    syncing = Syncing()
    background = Background(syncing.run, [SyncedFolder(notes, "things")], None)
    background.start()
    first = await syncing.next()
    (notes / "new.md").write_text("new")
    second = await syncing.next()
    await background.close()

    assert (first.collection, first.mirror, first.create) == ("things", True, True)
    assert first.sources[0].path == notes
    assert second == first
    assert background.status() == {"things": "in sync with notes, 1 file"}
    assert background.counts() == {
        "files_in_step": 1,
        "files_not_read": 0,
        "folders_not_in_step": 0,
    }


async def test_a_folder_is_added_and_removed_while_it_runs(notes, tmp_path):
    syncing = Syncing()
    background = Background(syncing.run, [], None)
    background.start()
    folder = SyncedFolder(notes, "things")
    background.add(folder)
    await syncing.next()
    background.add(folder)  # it is there already
    with pytest.raises(RequestError, match="choose another collection"):
        background.add(SyncedFolder(tmp_path / "other" / "notes", "things"))
    there = background.status()
    background.remove(folder)
    background.remove(folder)
    left = background.status()
    await background.close()

    assert (there.keys(), left) == ({"things"}, {})
    assert background._tasks._running == set()


async def test_what_cannot_be_read_is_listed_by_collection(notes):
    syncing = Syncing()
    syncing.problems = [BAD, Problem("n/locked.md", "cannot be read: Permission denied")]
    background = Background(syncing.run, [SyncedFolder(notes, "things")], None)
    background.start()
    await syncing.next()
    listed = background.dead_letters()
    await background.close()

    assert listed == {"things": {"n/bad.pdf": "is locked"}}, "the other is tried again"


async def test_a_failure_is_told_and_does_not_end_it(notes):
    syncing = Syncing()
    syncing.error = EngineUnavailable("Qdrant is away.")
    background = Background(syncing.run, [SyncedFolder(notes, "things")], None)
    background.start()
    await syncing.next()
    syncing.error = None
    told = background.status()
    (notes / "new.md").write_text("new")
    await syncing.next()
    await background.close()

    assert told == {"things": "not in sync with notes: Qdrant is away"}
    assert background.status() == {"things": "in sync with notes, 1 file"}


async def test_one_process_at_a_time_keeps_a_folder(notes, tmp_path, monkeypatch):
    """The other says so once it is sure; the only one never does."""
    monkeypatch.setattr("mcp_server_qdrant.ingest.files.background.TOLD_SECONDS", 0.01)
    syncing, other = Syncing(), Syncing()
    folders = [SyncedFolder(notes, "things")]
    one, two = (Background(each.run, folders, tmp_path / "locks") for each in (syncing, other))
    one.start()
    await asyncio.sleep(0)
    first = one.status()
    await syncing.next()
    two.start()
    while "not read yet" in (told := two.status())["things"]:
        await asyncio.sleep(0.01)
    await one.close()
    await two.close()
    three = Background(other.run, folders, tmp_path / "locks")
    three.start()
    await other.next()
    await three.close()

    assert first == {"things": "not in sync with notes: not read yet"}
    assert told == {"things": "not in sync with notes: another server syncs it"}


async def test_servers_of_two_engines_both_keep_a_folder(notes, tmp_path):
    folders = [SyncedFolder(notes, "things")]
    each = [Syncing(), Syncing()]
    both = [
        Background(syncing.run, folders, tmp_path / "locks", engine)
        for syncing, engine in zip(each, ("http://one:6333", "http://two:6333"), strict=True)
    ]
    for one, syncing in zip(both, each, strict=True):
        one.start()
        await syncing.next()
    for one in both:
        await one.close()


async def test_a_folder_that_is_not_there_is_waited_for(tmp_path):
    background = Background(Syncing().run, [SyncedFolder(tmp_path / "gone", "things")], None)
    background.start()
    gone = "not in sync with gone: the folder does not exist or is not readable"
    await told(background, gone)
    await background.close()


async def told(background: Background, sentence: str) -> None:
    async with asyncio.timeout(30):
        while background.status() != {"things": sentence}:
            await asyncio.sleep(0.01)


async def test_a_drive_that_hangs_holds_up_no_other_call_and_is_told(notes, monkeypatch):
    hanging, goes_on = threading.Event(), threading.Event()

    def hang(*_: object) -> SyncRequest:
        hanging.set()
        goes_on.wait(60)
        return asked(notes)

    monkeypatch.setattr(SyncRequest, "to_keep", hang)
    monkeypatch.setattr(background_module, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(background_module, "RETRY_SECONDS", 0.01)
    before, syncing = threading.active_count(), Syncing()
    background = Background(syncing.run, [SyncedFolder(notes, "things")], None)
    background.start()
    await asyncio.to_thread(hanging.wait, 30)
    await told(background, f"not in sync with notes: {AWAY.rstrip('.')}")
    await asyncio.sleep(0.3)
    threads = threading.active_count() - before
    goes_on.set()
    await syncing.next()
    await background.close()

    assert threads <= 2, "one that hangs, and one of the test's, however often it is tried"


async def test_a_folder_that_always_changes_is_compared_from_scratch_now_and_then(
    notes, monkeypatch
):
    monkeypatch.setattr(background_module, "AGAIN_SECONDS", 0.5)
    befores: asyncio.Queue[Report | None] = asyncio.Queue()

    async def run(before: Report | None) -> Report:
        befores.put_nowait(before)
        return report(BAD)

    following = asyncio.ensure_future(follow(asked(notes), run, lambda error: None))
    seen = list[Report | None]()
    async with asyncio.timeout(60):
        while len(seen) < 2 or seen[-1] is None or seen[-1].stored:
            seen.append(await befores.get())
            (notes / "new.md").write_text(f"new {len(seen)}")
    following.cancel()
    await asyncio.wait([following])

    assert seen[0] is None
    assert [one.path for one in seen[-1].problems] == ["n/bad.pdf"], "it is not tried again"


async def test_what_was_just_stored_need_not_be_compared_from_scratch(notes):
    befores: asyncio.Queue[Report | None] = asyncio.Queue()

    async def run(before: Report | None) -> Report:
        befores.put_nowait(before)
        return report()

    first = report()
    following = asyncio.ensure_future(follow(asked(notes), run, lambda error: None, first))
    async with asyncio.timeout(30):
        assert await befores.get() is first
    following.cancel()
    await asyncio.wait([following])


async def test_a_sync_that_dies_is_told_begun_anew_and_in_step_again(notes):
    syncing, pauses = Syncing(), []
    background = Background(syncing.run, [SyncedFolder(notes, "things")], None)

    async def sleep(seconds: float) -> None:
        pauses.append((seconds, background.status()["things"]))
        if len(pauses) == 3:
            syncing.error = None
        await asyncio.sleep(0)

    background._tasks = Tasks(sleep=sleep)
    syncing.error = OverflowError("date value out of range")
    background.start()
    for _ in range(4):
        await syncing.next()
    while "not in sync" in background.status()["things"]:
        await asyncio.sleep(0)
    await background.close()

    died = "not in sync with notes: The sync of notes stopped: an unexpected OverflowError; it "
    assert pauses == [(n, f"{died}starts again in {n} s") for n in (1, 2, 4)]
    assert background.status() == {"things": "in sync with notes, 1 file"}


async def test_a_watch_that_dies_is_told_and_begun_anew(notes, monkeypatch):
    syncing, told = Syncing(), asyncio.Event()
    background = Background(syncing.run, [SyncedFolder(notes, "things")], None)

    async def sleep(_: float) -> None:
        told.set()
        await asyncio.Event().wait()

    def refuse(*places, **options):
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.awatch", refuse)
    background._tasks = Tasks(sleep=sleep)
    background.start()
    async with asyncio.timeout(30):
        await told.wait()
    status, counts = background.status()["things"], background.counts()
    await background.close()

    assert "The sync of notes stopped: Changes cannot be watched: OSError; it starts" in status
    assert counts["folders_not_in_step"] == 1


def asked(*paths: Path) -> SyncRequest:
    return SyncRequest(tuple(sources(paths)), "things")


async def test_a_change_made_after_the_first_step_is_told_of(tmp_path):
    change = asyncio.ensure_future(wait_for_change(list_watched(asked(tmp_path))))
    await asyncio.sleep(0)
    (tmp_path / "a.md").write_text("new")

    async with asyncio.timeout(30):
        await change


def replace_file(file: Path) -> None:
    """As editors save."""
    (file.parent / "other").write_text("new")
    os.replace(file.parent / "other", file)  # noqa: PTH105


def replace_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name(f"old {file.parent.stat().st_ino}"))
    file.parent.mkdir()
    file.write_text("new")


@pytest.mark.parametrize("replace", [replace_file, replace_folder])
async def test_what_replaces_a_source_is_watched_in_its_place(replace, tmp_path):
    file = tmp_path / "notes" / "a.md"
    file.parent.mkdir()
    file.write_text("old")
    runs: asyncio.Queue[None] = asyncio.Queue()

    async def run(known):
        runs.put_nowait(None)
        return {}

    source = file if replace is replace_file else file.parent
    following = asyncio.ensure_future(follow(asked(source), run, lambda error: None))
    async with asyncio.timeout(60):
        for change in (replace, replace, lambda file: file.write_text("newer")):
            await runs.get()
            change(file)
        await runs.get()
    following.cancel()
    await asyncio.wait([following])


def test_runs_take_a_quarter_of_the_time_at_most_and_long_ones_rest_a_minute():
    assert [pause_after(took) for took in (0.0, 14.0, 3600.0)] == [0.0, 42.0, 60.0]


async def test_a_source_that_is_not_there_is_looked_for_again(tmp_path, monkeypatch):
    monkeypatch.setattr(background_module, "RETRY_SECONDS", 0.0)
    (tmp_path / "notes").mkdir()
    request = asked(tmp_path / "notes")
    (tmp_path / "notes").rmdir()

    async with asyncio.timeout(30):
        await wait_for_change(list_watched(request))


@linux
def test_links_out_of_a_folder_and_what_is_kept_out_of_it_are_not_watched(tmp_path):
    """A link to / would make the watch go through all of the machine."""
    for name in ("notes/sub/deep", "notes/.hidden", "notes/node_modules/x", "notes/old", "other"):
        (tmp_path / name).mkdir(parents=True)
    for place in (".", ".hidden", "node_modules"):
        (tmp_path / "notes" / place / "root").symlink_to("/")
    (tmp_path / "notes" / "linked").symlink_to("../other")
    (tmp_path / "notes" / ".gitignore").write_text("old/")
    (tmp_path / "one.md").write_text("one")
    below = [tmp_path / "one.md", *(tmp_path / "notes" / name for name in ("", "sub", "sub/deep"))]

    assert list_watched(asked(tmp_path / "notes", tmp_path / "one.md")) == below


async def test_what_is_made_in_a_new_folder_is_seen(tmp_path):
    runs: asyncio.Queue[list[str]] = asyncio.Queue()

    async def run(known):
        runs.put_nowait(sorted(file.name for file in tmp_path.rglob("*.md")))
        return {}

    following = asyncio.ensure_future(follow(asked(tmp_path), run, lambda error: None))
    async with asyncio.timeout(60):
        await runs.get()
        (tmp_path / "new" / "deep").mkdir(parents=True)
        await runs.get()
        (tmp_path / "new" / "deep" / "a.md").write_text("new")
        while await runs.get() != ["a.md"]:
            pass
    following.cancel()
    await asyncio.wait([following])
