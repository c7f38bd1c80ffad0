"""Patterns as in .gitignore."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.ingest.files.patterns import Patterns

MATCHES = [
    ("*.md", "a/b.md", True),
    ("*.md", "a/b.txt", None),
    ("!*.md", "b.md", False),
    ("# note", "# note", None),
    (r"\#a", "#a", True),
    (r"\!a", "!a", True),
    ("a ", "a", True),
    (r"a\ ", "a ", True),
    ("", "a", None),
    ("/", "a/", None),
    ("a/", "a/", True),
    ("a/", "a", None),
    ("a/", "x/a/", True),
    ("a/", "x/a/b", None),
    ("*/", "a/b/", True),
    ("*/", "a/b", None),
    ("!/", "a", None),
    ("/a", "x/a", None),
    ("/a", "a", True),
    ("a/b", "a/b", True),
    ("a/b", "x/a/b", None),
    ("a/b", "a/b/c", None),
    (r"a\/b", "a/b", True),
    ("a\r", "a", True),
    ("a/**/", "a/", None),
    ("a/**/", "a/b/c/", True),
    ("a***b", "axxb", True),
    ("[[:digit:]]x", "1x", True),
    ("x[!a]y", "x/y", None),
    ("a/*/c", "a/b/c", True),
    ("a/*/c", "a/b/b/c", None),
    ("a/**/c", "a/c", True),
    ("a/**/c", "a/b/b/c", True),
    ("**/c", "a/b/c", True),
    ("a/**", "a/b/c", True),
    ("a/**", "a", None),
    ("**", "a/b", True),
    ("[ab]?", "ax", True),
    ("[!ab]", "c", True),
    ("[^ab]", "a", None),
    ("*a*b*c*", "xaxbxcx", True),
]


@pytest.mark.parametrize(("line", "path", "expected"), MATCHES)
def test_a_line_means_what_git_takes_it_for(line, path, expected):
    assert Patterns([line]).match(path) is expected


def test_the_last_line_that_matches_counts_however_many_stars_it_has():
    ignore = Patterns(["*.md", "!*k*e*e*p*", "k*e*e*p*s*.md"])

    assert ignore.match("a/x.md") is True
    assert ignore.match("a/keep.md") is False
    assert ignore.match("keeps.md") is True
    assert ignore.match("x.txt") is None


HOSTILE = ["*" + "a*" * 20 + "b", "**/a/" * 9 + "b", "[a-c]*" * 12, "*" * 4000, "a*" * 2000 + "b"]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: line[:9])
def test_no_pattern_takes_long_for_a_path(line):
    """With backtracking each of the first two would outlast the universe."""
    ignore = Patterns([line])
    for path in ("a" * 250, "a/" * 1000 + "c", "a" * 250 + "/" + "a" * 250):
        assert ignore.match(path) in (None, True)


@pytest.mark.parametrize("line", [r"[{\-*a]", "!", "\\", "[z-a]"])
def test_what_is_no_pattern_matches_nothing_and_spoils_nothing(line):
    assert Patterns([line, "b"]).match("b") is True
    assert Patterns([line]).match("ab") is None


@given(st.lists(st.text(max_size=20), max_size=4), st.text(min_size=1, max_size=20))
def test_any_line_is_taken(lines, path):
    assert Patterns(lines).match(path) in (None, True, False)
