"""What an upgrade leaves in metadata and names."""

from pathlib import Path

import pytest

from mcp_server_qdrant.qdrant.marks import (
    FOLDER_KEY,
    filling,
    folder,
    innermost,
    of_folder,
    shown,
    stands_for,
)


@pytest.mark.parametrize("metadata", [None, {}, {"filling": None}, {"filling": "bm25"}])
def test_nothing_is_being_filled_unless_it_says_so(metadata):
    assert filling(metadata) == frozenset()


def test_the_vectors_that_are_being_filled_are_named():
    assert filling({"filling": ["bm25", "fast-x"], "x": 1}) == {"bm25", "fast-x"}


@pytest.mark.parametrize(
    ("name", "original"),
    [
        *(("notes~1", "notes"), ("a~b~12", "a~b")),
        *((name, None) for name in ("notes", "notes~", "~1", "notes~x")),
    ],
)
def test_a_copy_is_known_by_its_name(name, original):
    assert stands_for(name) == original


@pytest.mark.parametrize(
    ("names", "aliases", "expected"),
    [
        (["b", "a"], {}, ["a", "b"]),
        (["notes~1"], {"notes": "notes~1"}, ["notes"]),
        (["notes", "notes~1"], {}, ["notes"]),  # the copy is not complete
        (["notes~1", "notes~2"], {"notes": "notes~1"}, ["notes"]),
        (["notes~1"], {}, ["notes~1"]),  # somebody's own, or its alias is still missing
        (["v3"], {"live": "v3"}, ["v3"]),  # somebody's own alias
    ],
)
def test_a_copy_goes_by_the_name_of_what_it_stands_for(names, aliases, expected):
    assert shown(names, aliases) == expected


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
