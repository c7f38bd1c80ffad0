"""Markdown: front matter, title, headings."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.ingest.load import Mark
from mcp_server_qdrant.ingest.load_markdown import NESTING, read

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
    assert one.marks == (Mark(19, 2, "Key"),), "a heading that is the title names no part"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## Second\n\n# First", "First"),
        ("First\n=====\n\ntext", "First"),
        ("no heading", "shed"),
        ("---\ntitle: 7\n---\n# First", "First"),
        ("# First #", "First"),
        ("#nothing\n\n    # code\n", "shed"),
    ],
)
def test_the_title_is_the_outermost_heading_or_the_files_name(text, title):
    assert read("n/shed.md", text).texts[0].title == title


def test_headings_of_both_kinds_are_found_but_not_in_fenced_code():
    fenced = "```sh\n# no\n~~~\n```\n\nThree\n---\n\n~~~\n# no\n```\n# no\n~~~\n"
    text = f"One\n===\n\n## Two\n\n{fenced}#### Four"
    (one,) = read("n/x.md", text).texts

    assert [(mark.level, mark.name) for mark in one.marks] == [
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
        ("date: 2026-13-45", "has front matter that is not YAML; it is taken for text"),
        ("[" * 5000, "has front matter that is not YAML"),
        ("just words", "has front matter without names; it is taken for text"),
        ("? [a]\n: b", "has front matter that is not YAML"),
    ],
)
def test_front_matter_that_is_none_stays_text_and_is_noted(front, note):
    contents = read("n/x.md", f"---\n{front}\n---\ntext")

    assert contents.texts[0].text.startswith(f"---\n{front[:10]}")
    assert contents.notes[0].startswith(note)


@pytest.mark.parametrize("deep", [NESTING // 4, NESTING + 1, 100_000])
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
