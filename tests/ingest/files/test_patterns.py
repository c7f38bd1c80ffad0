"""Patterns as in .gitignore."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.ingest.files.patterns import Patterns

HOSTILE = ["*" + "a*" * 20 + "b", "**/a/" * 9 + "b", "[a-c]*" * 12, "*" * 4000, "a*" * 2000 + "b"]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: line[:9])
def test_no_pattern_takes_long_for_a_path(line):
    """With backtracking each of the first two would outlast the universe."""
    ignore = Patterns([line])
    for path in ("a" * 250, "a/" * 1000 + "c", "a" * 250 + "/" + "a" * 250):
        assert ignore.match(path) in (None, True)


@given(st.lists(st.text(max_size=20), max_size=4), st.text(min_size=1, max_size=20))
def test_any_line_is_taken(lines, path):
    assert Patterns(lines).match(path) in (None, True, False)
