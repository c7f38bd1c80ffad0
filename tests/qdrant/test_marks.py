"""What an upgrade leaves in metadata and names."""

from pathlib import Path

import pytest

from mcp_server_qdrant.qdrant.marks import (
    FOLDER_KEY,
    INODE_KEY,
    around,
    filling,
    find_renamed,
    folder_metadata,
    folders,
)


def test_the_vectors_that_are_being_filled_are_named():
    for metadata in (None, {}, {"filling": None}, {"filling": "bm25"}):
        assert filling(metadata) == frozenset(), metadata
    assert filling({"filling": ["bm25", "fast-x"], "x": 1}) == {"bm25", "fast-x"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *((None, []), ("", []), ([7], [])),
        *(("/a", ["/a"]), (["/a"], ["/a"]), (["/a", "/b/c"], ["/a", "/b/c"])),
    ],
)
def test_a_collection_belongs_to_the_folders_that_it_says(written, read):
    assert list(map(str, folders({FOLDER_KEY: written}))) == read
    assert folders(None) == folders({}) == []


def test_the_folder_that_is_written_is_whole_and_read_back(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)

    assert folders(folder_metadata([tmp_path / "link" / ".."])) == [tmp_path.parent]
    assert folders(folder_metadata([tmp_path, tmp_path / "link"])) == [tmp_path]
    assert folders(folder_metadata([])) == []


def test_the_folders_around_a_place_have_its_collections(tmp_path):
    inner = tmp_path / "in"
    known = {"a": [tmp_path], "b": [inner], "c": [tmp_path, inner], "d": [Path("/else")]}

    assert around(inner / "it", known) == {"a": tmp_path, "b": inner, "c": inner}
    assert around(tmp_path / "into", known) == {"a": tmp_path, "c": tmp_path}
    assert around(Path("/"), known) == {}


def test_a_folder_that_was_renamed_is_known_by_its_inode(tmp_path):
    for name in ("old", "other", "gone"):
        (tmp_path / name).mkdir()
    marked = {name: folder_metadata([tmp_path / name]) for name in ("old", "other")} | {"none": {}}
    (tmp_path / "old").rename(tmp_path / "new")

    assert find_renamed(tmp_path / "new" / "deep", marked) == ["old"]
    assert find_renamed(tmp_path / "other", marked) == []


def test_folders_of_another_machine_have_no_inode_in_common(tmp_path):
    marked = {"theirs": folder_metadata([tmp_path / "there"])}

    assert find_renamed(tmp_path / "elsewhere", marked) == []
    assert (
        find_renamed(tmp_path / "elsewhere", {"old": {FOLDER_KEY: ["/x"], INODE_KEY: ["None"]}})
        == []
    )
