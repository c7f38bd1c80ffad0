"""Files opened so that no link leads out of the folder."""

import os
from pathlib import Path

import pytest

from mcp_server_qdrant.core import disk
from mcp_server_qdrant.core.disk import NO_FILE, OUTSIDE, open_file
from mcp_server_qdrant.core.errors import UnusableFile


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with a file in it, and a secret beside it."""
    (tmp_path / "notes" / "sub").mkdir(parents=True)
    (tmp_path / "notes" / "sub" / "a.md").write_text("inside")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.md").write_text("the key")
    return tmp_path / "notes"


def read(file: Path, within: Path | None) -> str:
    with open_file(file, within) as opening:
        return opening.read().decode()


def test_a_file_in_the_folder_is_read(notes):
    assert read(notes / "sub" / "a.md", notes) == "inside"
    assert read(notes / "sub" / "a.md", notes / "sub") == "inside"


INSIDE = ["sub/a.md", "./sub/../sub/a.md", "../notes/sub/a.md", "{}/sub/a.md"]
OUT = ["../secret/a.md", "sub/../../secret/a.md", "{}/../secret/a.md", "/dev/zero", "/etc/passwd"]


@pytest.mark.parametrize("target", INSIDE)
def test_a_link_that_stays_in_the_folder_is_read(target, notes):
    (notes / "link").symlink_to(target.format(notes))

    assert read(notes / "link", notes) == "inside"


@pytest.mark.parametrize("target", OUT)
def test_a_link_out_of_the_folder_is_not_opened(target, notes):
    (notes / "link").symlink_to(target.format(notes))
    (notes / "link to a link").symlink_to("link")
    for name in ("link", "link to a link"):
        with pytest.raises(UnusableFile, match=OUTSIDE):
            read(notes / name, notes)


def test_a_folder_that_became_a_link_leads_nowhere_either(notes):
    (notes / "sub").rename(notes / "old")
    (notes / "sub").symlink_to("../secret")

    with pytest.raises(UnusableFile, match=OUTSIDE):
        read(notes / "sub" / "a.md", notes)


@pytest.mark.parametrize("swapped", ["sub", "sub/a.md"])
def test_what_becomes_a_link_after_the_look_is_not_followed(swapped, notes, monkeypatch):
    """The look says where the file is; whoever moves it then makes the opening fail."""
    look = disk.place_in

    def then_swapped(folder: Path, file: Path) -> tuple[str, tuple[str, ...]] | None:
        place = look(folder, file)
        (notes / swapped).rename(notes / "old")
        (notes / swapped).symlink_to(notes.parent / swapped.replace("sub", "secret"))
        return place

    monkeypatch.setattr(disk, "place_in", then_swapped)
    with pytest.raises(OSError, match=r"(?i)not a directory|symbolic links"):
        read(notes / "sub" / "a.md", notes)


def test_a_folder_that_is_a_link_itself_is_the_one_that_was_named(notes):
    (notes.parent / "named").symlink_to("notes")

    assert read(notes.parent / "named" / "sub" / "a.md", notes.parent / "named") == "inside"


def test_where_links_are_followed_they_may_lead_anywhere(notes):
    (notes / "link").symlink_to("../secret/a.md")

    assert read(notes / "link", None) == "the key"


@pytest.mark.parametrize("follow", [True, False])
def test_what_is_no_regular_file_is_not_read_and_not_waited_for(follow, notes):
    os.mkfifo(notes / "pipe")
    (notes / "zero").symlink_to("/dev/zero" if follow else "pipe")
    for name in ("pipe", "zero", "sub"):
        with pytest.raises(UnusableFile, match=NO_FILE):
            read(notes / name, None if follow else notes)


def test_nothing_stays_open(notes):
    os.mkfifo(notes / "pipe")
    (notes / "out").symlink_to("../secret/a.md")
    before = len([*Path("/dev/fd").iterdir()])
    for name in ("pipe", "sub", "out", "sub/a.md", "gone", "sub/a.md/x"):
        for within in (notes, None):
            try:
                read(notes / name, within)
            except (OSError, UnusableFile):
                continue

    assert len([*Path("/dev/fd").iterdir()]) == before


def test_without_a_way_to_open_step_by_step_the_look_decides(notes, monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", frozenset())
    (notes / "out").symlink_to("../secret/a.md")

    assert read(notes / "sub" / "a.md", notes) == "inside"
    with pytest.raises(UnusableFile, match=OUTSIDE):
        read(notes / "out", notes)
