"""What an upgrade leaves in metadata and names."""

import pytest

from mcp_server_qdrant.qdrant.marks import filling, shown, stands_for


@pytest.mark.parametrize("metadata", [None, {}, {"filling": None}, {"filling": "bm25"}])
def test_nothing_is_being_filled_unless_it_says_so(metadata):
    assert filling(metadata) == frozenset()


def test_the_vectors_that_are_being_filled_are_named():
    assert filling({"filling": ["bm25", "fast-x"], "x": 1}) == {"bm25", "fast-x"}


@pytest.mark.parametrize(
    ("name", "original"),
    [
        *(("notes~1", "notes"), ("a~b~12", "a~b"), ("notes~restored-1", "notes")),
        *((name, None) for name in ("notes", "notes~", "~1", "notes~restored", "notes~restored-x")),
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
