"""Patterns as in .gitignore."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.ingest.files import patterns
from mcp_server_qdrant.ingest.files.patterns import Patterns

names = st.text("ab*?", min_size=1, max_size=6) | st.sampled_from(["**", "[ab]*", "[!a]", "[^b]*"])
lines = st.builds(
    lambda start, inside, end: start + "/".join(inside) + end,
    st.sampled_from(["", "/", "!", "**/", "#"]),
    st.lists(names, min_size=1, max_size=5),
    st.sampled_from(["", "/", "/**", " "]),
)
paths = st.builds(
    lambda inside, end: "/".join(inside) + end,
    st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=6),
    st.sampled_from(["", "/"]),
)


@settings(max_examples=300, deadline=None)
@given(lines, paths)
def test_a_line_of_many_stars_means_what_pathspec_takes_it_for(line, path):
    # What is in a folder is not that folder, as git has it.
    assume(not line.endswith("**/") and not (line.rstrip().endswith("**") and path.endswith("/")))
    expected = GitIgnoreSpec.from_lines([line]).check_file(path).include

    assert patterns._by_folder(line)(path) is expected


def test_the_last_line_that_matches_counts_however_many_stars_it_has():
    ignore = Patterns(["*.md", "!*k*e*e*p*", "k*e*e*p*s*.md"])

    assert ignore.match("a/x.md") is True
    assert ignore.match("a/keep.md") is False
    assert ignore.match("keeps.md") is True
    assert ignore.match("x.txt") is None


HOSTILE = ["*" + "a*" * 20 + "b", "**/a/" * 9 + "b", "[a-c]*" * 12, "*" * 4000, "a*" * 2000 + "b"]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: line[:9])
def test_no_pattern_takes_long_for_a_path(line):
    """With a regular expression each of the first two would outlast the universe."""
    ignore = Patterns([line])
    for path in ("a" * 250, "a/" * 1000 + "c", "a" * 250 + "/" + "a" * 250):
        assert ignore.match(path) in (None, True)


@pytest.mark.parametrize("line", [r"[{\-*a]", "!", "\\", "[z-a]"])
def test_what_is_no_pattern_is_dropped_or_refused(line):
    assert Patterns([line, "b"], forgiving=True).match("b") is True
    with pytest.raises(RequestError, match=r"patterns are those of .gitignore"):
        Patterns([line])


@given(st.lists(st.text(max_size=20), max_size=4), st.text(min_size=1, max_size=20))
def test_a_forgiving_reader_takes_any_line(lines, path):
    assert Patterns(lines, forgiving=True).match(path) in (None, True, False)
