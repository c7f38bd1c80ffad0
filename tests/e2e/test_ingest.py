"""The commands `ingest` and `sync` as a person runs them."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.e2e.raw import RawServer, clean_environment
from tests.ingest.test_documents import LINKS, book
from tests.ingest.test_pictures import BASE64, URI, property_of
from tests.made_documents import form, slides, word

pytestmark = pytest.mark.model(False)

COMMAND = (sys.executable, "-P", "-m", "mcp_server_qdrant")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "key.md").write_text("# Key\n\nThe key is under the flower pot.\n")
    (folder / "parcel.md").write_text("# Parcel\n\nYour parcel with the lamp is late.\n")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\0")
    return folder


def run(env: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    return forked.run(
        [*COMMAND, *map(str, arguments)],
        env=clean_environment(env),
        timeout=120,
    )


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


FOUND = {  # a word -> the file that has it
    "drawnbox": "boat.docx",
    "simplefield": "boat.docx",
    "smartart": "boat.pptx",
    "Lovelace": "boat.pdf",
    "harbour": "boat.epub",
    "gull": "boat.md",
    "regatta": "boat.vcf",
}


def test_words_of_documents_are_found_and_what_was_left_out_is_said(env, tmp_path):
    folder = tmp_path / "boats"
    folder.mkdir()
    (folder / "boat.docx").write_bytes(word())
    (folder / "boat.pptx").write_bytes(slides())
    (folder / "boat.pdf").write_bytes(form())
    (folder / "boat.epub").write_bytes(book(*LINKS["quoted"]))
    (folder / "boat.md").write_text(f"# Boat\n\nA gull ![a gull]({URI})\n")
    (folder / "boat.vcf").write_text(property_of(f"PHOTO;ENCODING=b:{BASE64}") + "\r\nFN:regatta")
    done = run(env, "ingest", folder, "--collection", "boats")
    server = RawServer(env, tmp_path)
    found = {
        word: server.call("qdrant-find", query=f'"{word}"', collections=["boats"]) for word in FOUND
    }
    server.close()

    assert done.stdout.startswith("boats: 6 new, 0 changed, 0 removed, 0 unchanged, 0 not read; 6 ")
    assert sorted(done.stdout.partition("Stored, with a note (4):\n")[2].splitlines()) == [
        "  boats/boat.md has pictures, or other data in base64 or hex, that were left out",
        "  boats/boat.pdf 1 attached file was not read",
        "  boats/boat.pptx 1 embedded file was not read",
        "  boats/boat.vcf has pictures, or other data in base64 or hex, that were left out",
    ]
    for text, page in found.items():
        assert page["structuredContent"]["results"][0]["id"] == f"boats/{FOUND[text]}", text


def test_notes_and_chats_are_found_as_people_write_them(env, tmp_path):
    folder = tmp_path / "boats"
    folder.mkdir()
    (folder / "skiff.md").write_text(
        "---\ntitle: Skiff: a history\nby: @ada\ntags: #Sail\n---\n"
        "<!--\n# Draft\n-->\nIt floats. #harbour"
    )
    (folder / "rules.md").write_text("---\n# Rowing\n---\nKeep left. Not #1 or #fff.\n")
    (folder / "table.md").write_text(
        "---\ntype: Table\ndescription: One row per regatta.\n"
        "timestamp: 2026-05-28T14:30:00Z\n---\n# Races\n"
    )
    spoken = {"content_type": "audio_transcription", "text": "Where is the oar?"}
    told = "In the boathouse \ue200cite\ue202turn0search0\ue201."
    mapping = {
        role: {
            "parent": parent,
            "message": {"author": {"role": role}, "content": {"parts": [part]}},
        }
        for role, parent, part in (("user", None, spoken), ("assistant", "user", told))
    }
    chat = {"id": "g", "title": "Oars", "mapping": mapping, "current_node": "assistant"}
    (folder / "conversations.json").write_text(json.dumps([chat]))
    done = run(env, "ingest", folder, "--collection", "boats")
    server = RawServer(env, tmp_path)
    asked: list[dict[str, object]] = [
        {"query": "history", "tags": ["sail", "harbour"]},
        {"query": "rowing"},
        {"query": "regatta", "since": "2026-05-28", "until": "2026-05-28"},
        {"query": '"boathouse"'},
    ]
    pages = [server.call("qdrant-find", collections=["boats"], **one) for one in asked]
    server.close()

    assert done.stdout.startswith("boats: 4 new, 0 changed, 0 removed, 0 unchanged, 0 not read; 4 ")
    assert "boats/skiff.md has front matter that is not YAML, line 2; what can be" in done.stdout
    first = [page["structuredContent"]["results"][0] for page in pages]
    assert [(one["title"], one["text"]) for one in first] == [
        ("Skiff: a history", "<!--\n# Draft\n-->\nIt floats. #harbour"),
        ("Rowing", "# Rowing\n---\nKeep left. Not #1 or #fff."),
        ("Races", "One row per regatta.\n\n# Races"),
        ("Oars > Where is the oar?", "User: Where is the oar?\n\nChatGPT: In the boathouse."),
    ]


def test_on_a_terminal_a_line_says_how_far_it_is(env, notes):
    ours, theirs = pty.openpty()
    process = forked.Popen(
        [*COMMAND, "ingest", str(notes), "--collection", "notes"],
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown, _ = process.communicate(timeout=120)
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123
        said = terminal.read(10_000)

    assert said.startswith(b"\r\x1b[KLooking for files")
    assert b"\n" not in said
    assert said.endswith(b"\r\x1b[K"), "the line is empty at the end"
    assert shown.startswith(b"notes: 2 new")


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
    assert said.endswith(b"Interrupted; the same command goes on from here.\r\n")
    assert b"Traceback" not in said
