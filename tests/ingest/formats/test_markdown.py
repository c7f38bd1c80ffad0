"""Markdown: front matter, title, headings."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.ingest.formats.base import Mark
from mcp_server_qdrant.ingest.formats.markdown import MAX_FRONT, read, visible

# Each line of merges holds ten times as much as the one before it.
MERGES = "".join(
    f"a{n}: &a{n} {{{', '.join(f'k{n}{i}: v' for i in range(9))}, "
    f"<<: [{', '.join([f'*a{n - 1}'] * 10 if n else [])}]}}\n"
    for n in range(12)
).rstrip()
NOTE = """\
---
title: The shed
tags: [house, key]
date: 2026-01-03
owner: {name: Ada, rooms: 2}
---
# The shed

Text.

## Key
"""


def test_front_matter_becomes_metadata_title_tags_and_date():
    (one,) = read("n/shed.md", NOTE).texts

    assert one.title == "The shed"
    assert one.tags == ("house", "key")
    assert one.created_at == datetime(2026, 1, 3, tzinfo=UTC)
    assert one.metadata == {
        "title": "The shed",
        "tags": ["house", "key"],
        "date": "2026-01-03",
        "owner": {"name": "Ada", "rooms": 2},
    }


def test_offsets_are_those_of_the_file():
    (one,) = read("n/shed.md", NOTE).texts

    assert NOTE[one.offset :] == one.text
    assert one.text.startswith("# The shed")
    assert one.marks == (Mark(0, 1, ""), Mark(19, 2, "Key")), "the title names no part"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## Second\n\n# First", "First"),
        ("First\n=====\n\ntext", "First"),
        ("no heading", "shed"),
        ("---\ntitle: 7\n---\n# First", "First"),
        ("# First #", "First"),
        ("#nothing\n\n    # code\n", "shed"),
        ('<h1 align="center">\n  <img src="a.png">\n  First\n</h1>\n', "First"),
        ("[![Build](https://a/b)](https://c)\n# [First](https://d) ![x](y) \n", "First"),
        ("# 2.0.0\n\n# 1.0.0\n", "shed"),
        ("# 2.0.0\n\n## 1.0.0\n", "shed"),
        ("# First\n\n# Second\n", "shed"),
        ("# Changes\n\n## 2.0.0\n\n## 1.0.0\n", "Changes"),
        ("# 2.0.0\n\n## Fixes\n", "2.0.0"),
    ],
)
def test_the_title_is_the_outermost_heading_or_the_files_name(text, title):
    assert read("n/shed.md", text).texts[0].title == title


def test_headings_of_both_kinds_are_found_but_not_in_fenced_code():
    fenced = "```sh\n# no\n~~~\n```\n\nThree\n---\n\n~~~\n# no\n```\n# no\n~~~\n"
    text = f"One\n===\n\n## Two\n\n{fenced}#### Four"
    (one,) = read("n/x.md", text).texts

    assert [(mark.level, mark.name) for mark in one.marks] == [
        (1, ""),
        (2, "Two"),
        (2, "Three"),
        (4, "Four"),
    ]
    assert all(text[mark.start :].lstrip("# ").startswith(mark.name) for mark in one.marks)


def test_a_table_and_a_list_are_no_headings():
    text = "| a | b |\n|---|---|\n\n- item\n---\n\n> quote\n---\n"

    assert read("n/x.md", text).texts[0].marks == ()


@pytest.mark.parametrize(
    ("front", "note"),
    [
        ("title: a: b", "has front matter that is not YAML, line 2; it is taken for text"),
        (f"a: {'b' * MAX_FRONT}", "has front matter of more than 200,000 characters; it is"),
        (MERGES, "has metadata of more than 10,000 values; it is taken for text"),
        ("a: &a [*a]", "has metadata nested deeper than 32 levels; it is taken for text"),
        ("{? " * 150, "has front matter that is not YAML"),
        ("a: " + "[" * 60_000, "has front matter with more than 200 brackets open at once"),
        ("just words", "has front matter without names; it is taken for text"),
        ("? [a]\n: b", "has front matter that is not YAML"),
    ],
)
def test_front_matter_that_is_none_stays_text_and_is_noted(front, note):
    contents = read("n/x.md", f"---\n{front}\n---\ntext")

    assert contents.texts[0].text.startswith(f"---\n{front[:10]}")
    assert contents.notes[0].startswith(note)


@pytest.mark.parametrize("deep", [100, 600, 100_000])
@pytest.mark.parametrize("sign", ["[", "{? ", "- ", "a: {", "? "])
def test_front_matter_of_any_depth_is_read_or_noted(sign, deep):
    contents = read("n/x.md", f"---\n{sign * deep}\n---\ntext")

    assert contents.texts[0].text.endswith("text")


@pytest.mark.parametrize("text", ["---\n\n---\ntext", "---\r\n# a comment\r\n---\r\ntext"])
def test_empty_front_matter_is_no_metadata(text):
    (one,) = read("n/x.md", text).texts

    assert (one.text, one.metadata) == ("text", None)


def test_a_rule_that_is_never_closed_is_no_front_matter():
    assert read("n/x.md", "---\ntitle: x\n").texts[0].metadata is None


@pytest.mark.parametrize(
    "date",
    [
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
        "2026-02-30",
        "2026-01-01 10:00:00 -99:00",
        "253402300800000",
    ],
)
def test_a_date_that_no_calendar_has_is_named_and_the_files_own_is_taken(date):
    contents = read("n/x.md", f"---\ntags: [a]\ncreated_at: {date}\n---\ntext")
    (one,) = contents.texts

    assert (one.text, one.tags, one.created_at) == ("text", ("a",), None)
    assert contents.notes == [
        "has 'created_at' that is no time between the years 1 and 9999 in UTC"
    ]


def test_another_date_serves_where_one_is_none():
    contents = read("n/x.md", "---\ndate: 2026-02-30\npublished: 2026-02-28\n---\ntext")

    assert contents.texts[0].created_at == datetime(2026, 2, 28, tzinfo=UTC)
    assert len(contents.notes) == 1


@pytest.mark.parametrize("published", ["true", "false", "no", "", "soon"])
def test_whether_something_is_published_is_no_date(published):
    contents = read("n/x.md", f"---\npublished: {published}\n---\ntext")

    assert (contents.texts[0].created_at, contents.notes) == (None, [])


@pytest.mark.parametrize(
    ("scalar", "text"),
    [
        ("!!bool abc", None),
        ("!!int ''", None),
        ("!!timestamp abc", None),
        ("007", "007"),
        ("12:30", "12:30"),
        ("2026-02-30", "2026-02-30"),
        ("0x" + "f" * 9_000, "0x" + "f" * 9_000),
        ("9" * 9_000, "9" * 9_000),
        ("1" + ":59" * 60_000, "1" + ":59" * 60_000),
        ("1" + ":59" * 300 + ".5", "1" + ":59" * 300 + ".5"),
    ],
    ids=lambda one: str(one)[:15],
)
def test_a_scalar_that_is_not_what_it_looks_like_is_a_text(scalar, text):
    contents = read("n/x.md", f"---\ntitle: T\nn: {scalar}\n---\ntext")

    if text is not None:
        assert contents.texts[0].metadata == {"title": "T", "n": text}
    else:
        assert contents.notes == ["has front matter that is not YAML; it is taken for text"]
    assert contents.texts[0].text.endswith("text")


def test_a_heading_may_be_closed_and_any_length_is_read():
    spaced = "a" + " " * 100_000 + "b"  # with a regular expression that takes centuries
    found = [
        one.name for one in read("n/x.md", f"# {spaced}\n## c ##\n### d#\n## #\n").texts[0].marks
    ]

    assert found == ["", "c", "d#"]


@pytest.mark.parametrize(
    ("heading", "seen"),
    [
        ("[`1.2.3`](https://a/b) (2024)", "1.2.3 (2024)"),
        ("`log([data][, ...args])` of `Vec<T>`", "log([data][, ...args]) of Vec<T>"),
        ("![logo](a.png) [text][ref] <a id='x'></a>", "text"),
        ("**bold** ~~no~~ \\_x __init__", "bold no _x __init__"),
        ("[1.2.3] - 2024", "[1.2.3] - 2024"),
        ("Compiler {#compiler}", "Compiler"),
    ],
)
def test_a_heading_is_what_a_reader_sees_of_it(heading, seen):
    assert visible(heading) == seen


front_matter = st.one_of(
    st.text(),
    st.text(alphabet="abc:-[]{}&*!?|>%@#'\"<=\n 0123456789.~"),
    st.builds(
        "{}: {}".format,
        st.sampled_from(["title", "date", "created_at", "tags", "published", "<<", "? ", "a: &a"]),
        st.one_of(
            st.floats().map(str),
            st.integers().map(hex),
            st.datetimes().map(str),
            st.sampled_from(["!!omap [a]", "!!set {a}", "!!binary é", "*a", "!!pairs x", "!x y"]),
            st.from_regex(
                r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[Tt ][0-9:.]{1,12} ?[+-][0-9]{1,2}(:[0-9]{2})?"
            ),
        ),
    ),
)


@settings(deadline=None)
@given(front_matter.filter(lambda text: "\0" not in text))  # with one a file is binary
def test_whatever_stands_in_front_the_file_is_read(front):
    text = f"---\n{front}\n---\nlamp"
    contents = read("n/x.md", text)

    assert contents.texts[0].text.endswith("lamp")
    assert all("unexpected" not in note for note in contents.notes)
