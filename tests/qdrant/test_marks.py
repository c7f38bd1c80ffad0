"""What an upgrade leaves in metadata and names."""

from pathlib import Path

import pytest

from mcp_server_qdrant.qdrant.marks import (
    FOLDER_KEY,
    filling,
    folder,
    innermost,
    of_folder,
    renamed,
)


@pytest.mark.parametrize("metadata", [None, {}, {"filling": None}, {"filling": "bm25"}])
def test_nothing_is_being_filled_unless_it_says_so(metadata):
    assert filling(metadata) == frozenset()


def test_the_vectors_that_are_being_filled_are_named():
    assert filling({"filling": ["bm25", "fast-x"], "x": 1}) == {"bm25", "fast-x"}


@pytest.mark.parametrize("metadata", [None, {}, {FOLDER_KEY: ""}, {FOLDER_KEY: ["/a"]}])
def test_a_collection_belongs_to_no_folder_unless_it_says_so(metadata):
    assert folder(metadata) is None


def test_the_folder_that_is_written_is_whole_and_read_back(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)

    assert folder(of_folder(tmp_path / "link" / "..")) == tmp_path.parent
    assert folder(of_folder(None)) is None


def test_the_nearest_folder_above_has_its_collections(tmp_path):
    folders = {"a": tmp_path, "b": tmp_path / "in", "c": tmp_path / "in", "d": Path("/else")}

    assert innermost(tmp_path / "in" / "it", folders) == ["b", "c"]
    assert innermost(tmp_path / "into", folders) == ["a"]
    assert innermost(Path("/"), folders) == []


def test_a_folder_that_was_renamed_is_known_by_its_inode(tmp_path):
    for name in ("old", "other", "gone"):
        (tmp_path / name).mkdir()
    marked = {name: of_folder(tmp_path / name) for name in ("old", "other")} | {"none": {}}
    (tmp_path / "old").rename(tmp_path / "new")

    assert renamed(tmp_path / "new" / "deep", marked) == ["old"]
    assert renamed(tmp_path / "other", marked) == []
