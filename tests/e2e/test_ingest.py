"""The commands `ingest` and `sync` as a person runs them."""

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.e2e.raw import COMMAND, RawServer, clean_environment, run

pytestmark = pytest.mark.model(False)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "key.md").write_text("# Key\n\nThe key is under the flower pot.\n")
    (folder / "parcel.md").write_text("# Parcel\n\nYour parcel with the lamp is late.\n")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\0")
    return folder


def test_a_folder_is_searchable_after_ingest_and_in_step_after_sync(env, tmp_path, notes):
    first = run(env, "ingest", notes, "--collection", "notes")
    (notes / "key.md").unlink()
    (notes / "parcel.md").write_text("# Parcel\n\nThe parcel has come.\n")
    dry = run(env, "sync", notes, "--collection", "notes", "--dry-run")
    second = run(env | {"COLLECTION_NAME": "notes"}, "sync", notes)
    server = RawServer(env, tmp_path)
    found = server.call("qdrant-find", query="parcel", collections=["notes"])
    server.close()

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("notes: 2 new, 0 changed, 0 removed, 0 unchanged, 1 not read; 2")
    assert first.stdout.endswith("Not read (1):\n  notes/photo.jpg is binary\n")
    assert "  ~ notes/parcel.md\n  - notes/key.md\n" in dry.stdout
    assert second.stdout.startswith("notes: 0 new, 1 changed, 1 removed, 0 unchanged, 1 not read;")
    assert [one["text"] for one in found["structuredContent"]["results"]] == [
        "The parcel has come."
    ]


def test_a_watched_folder_is_followed_until_it_is_interrupted(env, notes):
    process = forked.Popen(
        [*COMMAND, "sync", str(notes), "--collection", "notes", "--watch"],
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().startswith("notes: 2 new")
    assert process.stderr.readline() == "Watching for changes; Ctrl-C ends it.\n"
    (notes / "new.md").write_text("# New\n\nA third note.\n")
    while not (line := process.stdout.readline()).startswith("notes: "):
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)

    assert line.startswith("notes: 1 new, 0 changed, 0 removed, 2 unchanged")
    assert process.returncode == 0
    assert "Traceback" not in said


def test_an_interrupt_says_that_it_can_be_taken_up(env, notes):
    for number in range(1000):  # short ones: the first batch is soon there, the last one is not
        (notes / f"n{number}.md").write_text(f"Words of {number}.")
    ours, theirs = pty.openpty()
    process = forked.Popen(
        [*COMMAND, "ingest", str(notes), "--collection", "notes"],
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123
        said = b""
        while b"Storing" not in said:
            said += terminal.read(100)
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=60)
        said += terminal.read(4000)

    assert (process.returncode, shown) == (130, b"")
    assert said.endswith(b"Interrupted; run the same command again to continue.\r\n")
    assert b"Traceback" not in said
