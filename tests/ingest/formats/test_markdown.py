"""Markdown: front matter, title, headings."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.ingest.formats.base import Mark
from mcp_server_qdrant.ingest.formats.front import MAX_FRONT
from mcp_server_qdrant.ingest.formats.load import load
from mcp_server_qdrant.ingest.formats.markdown import read, visible

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


FENCED = "```sh\n# no\n~~~\n```\n\nThree\n---\n\n~~~\n# no\n```\n# no\n~~~\n"


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        (
            f"One\n===\n\n## Two\n\n{FENCED}#### Four",
            [(1, ""), (2, "Two"), (2, "Three"), (4, "Four")],
        ),
        # A comment that is never closed hides nothing, and a fence all below it.
        ("<!-- # no\n\n# One\n\n## Two\n\n```\n## Three\n", [(1, ""), (2, "Two")]),
        ("| a | b |\n|---|---|\n\n- item\n---\n\n> quote\n---\n", []),
        # With a regular expression that backtracks, this takes centuries.
        (f"# a{' ' * 100_000}b\n## c ##\n### d#\n## #\n", [(1, ""), (2, "c"), (3, "d#")]),
    ],
    ids=["both kinds", "unclosed", "table and list", "closed and long"],
)
def test_headings_of_all_kinds_are_found_but_not_in_fenced_code(text, headings):
    (one,) = read("n/x.md", text).texts

    assert [(mark.level, mark.name) for mark in one.marks] == headings
    assert all(text[mark.start :].lstrip("# ").startswith(mark.name) for mark in one.marks)


@pytest.mark.parametrize(
    "hidden",
    [
        *("<!-- # no -->", "<!--\n# no\n-->", "<!--\n```\n# no\n-->", "`<!--`\n\nwords"),
        *("words <!--\n\n# no\n\nNo\n--\n-->", "```\n<!--\n# no\n```", "--> <!->"),
        *("<pre>\n# no\n</pre>", "- item\n\n    ```sh\n# no\n    ```", "> ```\n> # no\n> ```"),
        *("``` `a` ```\n", "    ~~~\n    # no\n    ~~~"),
    ],
)
def test_headings_in_comments_and_code_do_not_count(hidden):
    text = f"# One\n\n{hidden}\n\n## Two <!-- c -->\n\n```\n# no\n```\n## Three\n"
    (one,) = read("n/x.md", text).texts

    assert [mark.name for mark in one.marks] == ["", "Two", "Three"]
    assert one.text == text
    assert text[one.marks[1].start :].startswith("## Two")


@pytest.mark.parametrize(
    ("front", "tags"),
    [
        ("tags: [sail, oar]", ["sail", "oar"]),
        ("tags: sail oar", ["sail", "oar"]),
        ("tags: sail, long oar", ["sail", "long oar"]),
        ("tags: '#sail'", ["sail"]),
        ("tags: #sail #oar", ["sail", "oar"]),
        ("tags: [#sail, '#oar']", ["sail", "oar"]),
        ("tags:\n  - #sail\n  - '#oar'", ["sail", "oar"]),
        ("tags:\n\t- sail\n\t- @oar", ["sail", "@oar"]),
        ("tag: sail", ["sail"]),
        ("Tags: [Sail, sail, SAIL, oar]", ["Sail", "oar"]),
        ("tags: [sail]\ntag: oar\nkeywords: wind", ["sail", "oar"]),
        ("keywords: long oar, wind", ["long oar", "wind"]),
        ("tags: 2024", ["2024"]),
        ("tags: [a/b-c_d, 7]", ["a/b-c_d", "7"]),
        ("tags:\ntitle: T", []),
        ("tags: true", []),
        ("tags: {a: b}", []),
    ],
)
def test_tags_of_front_matter_are_read_in_every_form(front, tags):
    (one,) = read("n/x.md", f"---\n{front}\n---\ntext").texts

    assert list(one.tags) == tags
    assert one.text == "text"


@pytest.mark.parametrize(
    ("body", "tags"),
    [
        ("A #sail, an #oar.", ["sail", "oar"]),
        ("#sail\n\t#oar\n- #wind", ["sail", "oar", "wind"]),
        ("#sail/red-one_2 #y1984 #1st", ["sail/red-one_2", "y1984", "1st"]),
        ("#Sail #sail #SAIL", ["Sail"]),
        ("#segeln-für #парус #帆船\uff0c很好 #हिन्दी", ["segeln-für", "парус", "帆船", "हिन्दी"]),
        ("# Title\n\n## Two #three\n", ["three"]),
        ("#1 #42, PR #1234. a#b ##c \\#d (#e) &#38; https://a.b/#f", []),
        ("#fff #FFFFFF #a1b2c3 #fafafa #1a2b3c4d; #cafe #dead #2FA", ["cafe", "dead", "2FA"]),
        ("`#a` ``x ` #b`` `x\n #c` #d", ["d"]),
        ("```\n#a\n```\n#b\n~~~\n#c\n~~~", ["b"]),
        ("text\n\n    #a\n    b #c\n\n#d", ["d"]),
        ("- item\n\n    - #a\n    more #b", ["a", "b"]),
        ("<!-- #a -->#b <b #c> #d</b>", ["d"]),
        ("[a #b](c) [[d #e]] [x]( #f) ![ #g](h) [ #i][j]\n\n[1]: #k\n\n[ #l ]", ["l"]),
        ("#a/ #b-- #/c #- #_", ["a", "b", "_"]),
        (f"#{'a' * 100} #{'b' * 101}", ["a" * 100]),
    ],
)
def test_tags_in_the_text_are_read_as_obsidian_does(body, tags):
    assert list(read("n/x.md", body).texts[0].tags) == tags


def test_tags_of_front_matter_come_first_and_all_together_are_at_most_a_hundred():
    body = " ".join(f"#t{number}" for number in range(200))
    (one,) = read("n/x.md", f"---\ntags: [T7, own]\n---\n{body}").texts

    assert one.tags[:4] == ("T7", "own", "t0", "t1")
    assert len(one.tags) == 100
    assert "t7" not in one.tags


def test_the_open_knowledge_format_gives_date_link_and_type_and_a_description_to_search():
    text = (
        "---\ntype: BigQuery Table\ntitle: Boats\ndescription: >\n  One row\n  per boat.\n"
        "resource: https://a.b/c\ntags: [sales]\ntimestamp: 2026-05-28T14:30:00Z\n---\n"
        "# Schema\n\nText.\n"
    )
    (one,) = read("n/boats.md", text).texts

    assert (one.title, one.tags) == ("Boats", ("sales",))
    assert one.created_at == datetime(2026, 5, 28, 14, 30, tzinfo=UTC)
    assert one.text == "One row per boat.\n\n# Schema\n\nText.\n"
    assert one.marks == (Mark(19, 1, "Schema"),)
    assert text[one.offset + 19 :].startswith("# Schema")
    assert {key: one.metadata[key] for key in ("type", "resource", "description")} == {
        "type": "BigQuery Table",
        "resource": "https://a.b/c",
        "description": "One row per boat.\n",
    }


def test_a_description_that_the_text_has_is_not_repeated():
    text = "---\ndescription: One row per boat.\n---\n# Boats\n\nOne row\nper boat. It floats.\n"

    assert read("n/x.md", text).texts[0].text.startswith("# Boats")


@pytest.mark.parametrize("value", ["7", "[a, b]", "", "{a: b}"])
def test_a_description_that_is_no_text_is_only_metadata(value):
    assert read("n/x.md", f"---\ntitle: T\ndescription: {value}\n---\ntext").texts[0].text == "text"


def test_of_front_matter_that_is_not_quite_yaml_each_key_is_kept():
    front = (
        "title: Boats: a history\nauthor: @ada\naliases:\n\t- skiff\n\t- yawl\ncover: {{t}}\n"
        "due:2026-05-01\nrating: 5\ndate:\t2026-01-03\nseen:\n- 'a' b\n- c # d\n"
    )
    contents = read("n/x.md", f"---\n{front}---\n# Sails\n\nText.")
    (one,) = contents.texts

    assert (one.title, one.text) == ("Boats: a history", "# Sails\n\nText.")
    assert one.created_at == datetime(2026, 1, 3, tzinfo=UTC)
    assert one.metadata == {
        "title": "Boats: a history",
        "author": "@ada",
        "aliases": ["skiff", "yawl"],
        "cover": "{{t}}",
        "due": "2026-05-01",
        "rating": 5,
        "date": "2026-01-03",
        "seen": ["'a' b", "c # d"],
    }
    assert contents.notes == [
        "has front matter that is not YAML, line 2; the readable part is used"
    ]


@pytest.mark.parametrize(
    "value", ["@x", "`x`", "%x", "*x", "!x y", '"a" b', "[a", "{a: b", "[[A]] and [[B]]", "&a [*a]"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_value_that_is_not_yaml_stays_as_it_is_written(value, end):
    front = end.join(["---", "title: Skiff", f"odd: {value}", "tags: [a, b]", "---", "text"])
    (one,) = read("n/x.md", front).texts

    assert one.metadata == {"title": "Skiff", "odd": value, "tags": ["a", "b"]}
    assert (one.title, one.tags, one.text) == ("Skiff", ("a", "b"), "text")


def test_a_line_of_front_matter_that_belongs_to_no_key_is_read_with_the_text():
    text = "---\ntitle: Skiff\n<%* await lantern() %>\ntags: [a]\n---\n# Sails\n"
    (one,) = read("n/x.md", text).texts

    assert one.text == "<%* await lantern() %>\n\n# Sails\n"
    assert (one.title, one.tags, one.marks) == ("Skiff", ("a",), (Mark(24, 1, "Sails"),))


@pytest.mark.parametrize(
    ("front", "note", "kept"),
    [
        (f"cover: {'b ' * MAX_FRONT}\ntitle: T", "more than 200,000 characters", {"title": "T"}),
        (f"{MERGES}\ntitle: T", "metadata of more than 10,000 values", {"title": "T"}),
        ("a: &a [*a]", "metadata nested deeper than 32 levels", {"a": "&a [*a]"}),
        ("a: " + "[" * 999, "front matter with more than 200 brackets", {"a": "[" * 999}),
        ("title: !!bool abc", "front matter that is not YAML;", {"title": "!!bool abc"}),
        ("a: !!int ''", "front matter that is not YAML;", {"a": "!!int ''"}),
        ("a: !!timestamp abc", "front matter that is not YAML;", {"a": "!!timestamp abc"}),
    ],
    ids=lambda one: str(one)[:15],
)
def test_of_front_matter_that_is_too_much_the_rest_is_kept_and_it_is_noted(front, note, kept):
    contents = read("n/x.md", f"---\n{front}\n---\ntext")

    assert contents.texts[0].text == "text"
    assert contents.texts[0].metadata.items() >= kept.items()
    assert note in contents.notes[0]
    assert "; the readable part is used" in contents.notes[0]


def test_a_picture_in_front_matter_is_named_and_takes_no_other_key_with_it():
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 30_000
    contents = load("n/x.md", f"---\ncover: {picture}\ntitle: T\ntags: [a]\n---\ntext".encode())
    (one,) = contents.texts

    assert (one.title, one.tags, one.text) == ("T", ("a",), "text")
    assert one.metadata == {"title": "T", "tags": ["a"]}
    assert contents.notes == [
        "has front matter of more than 200,000 characters; the readable part is used, "
        "'cover' is left out"
    ]


def test_front_matter_of_too_many_values_is_taken_for_text_and_noted():
    many = f"[{'a,' * 6_000}]"
    contents = read("n/x.md", f"---\na: {many}\nb: {many}\n---\ntext")

    assert contents.texts[0].text.startswith("---\na: [")
    assert contents.notes == ["has metadata of more than 10,000 values; it is treated as text"]


@pytest.mark.parametrize(
    ("between", "title"),
    [
        ("# Boats", "Boats"),
        ("\n# Boats\n\nNote: sails are wet.\n", "Boats"),
        ("# Boats\n\nNote: sails are wet.\n", "Boats"),
        ("\nDear reader: this is a letter.\n", "x"),
        ("Dear reader: this is a letter.\nIt was wet.", "It was wet."),
        ("Step one: do this.", "Step one: do this."),
        ("just words", "just words"),
        ("- item\n- item", "x"),
        ("* * *\n", "x"),
        ("https://a.b/c", "https://a.b/c"),
        ("? [a]\n: b", ": b"),
        # Objects that cannot be read.
        *((front, front.strip()) for front in ("{? " * 150, "{a: [}", "{a: &a [*a]}")),
    ],
    ids=lambda one: str(one)[:15],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_between_two_rules_is_no_front_matter(between, title, end):
    text = f"---\n{between}\n---\n\ntext".replace("\n", end)
    contents = read("n/x.md", text)
    (one,) = contents.texts

    assert (one.text, one.metadata, one.offset) == (text, None, 0)
    assert (one.title.removeprefix("n/"), contents.notes) == (title, [])


@pytest.mark.parametrize(
    "front",
    [
        *("# a comment\ntitle: T", "# Feel free.\n# See a.\n\ntitle: T", "\ntitle: T\n"),
        *("  title: T", "\ttitle: T", '"title": T', "{title: T}"),
    ],
)
def test_front_matter_may_begin_with_a_comment_a_blank_line_or_an_indent(front):
    (one,) = read("n/x.md", f"---\n{front}\n---\ntext").texts

    assert (one.text, one.title, one.metadata) == ("text", "T", {"title": "T"})


@pytest.mark.parametrize("deep", [100, 600, 100_000])
@pytest.mark.parametrize("sign", ["[", "{? ", "- ", "a: {", "? "])
def test_front_matter_of_any_depth_is_read_or_noted(sign, deep):
    contents = read("n/x.md", f"---\n{sign * deep}\n---\ntext")

    assert contents.texts[0].text.endswith("text")


def test_empty_front_matter_and_a_rule_that_is_never_closed_are_no_metadata():
    found = [read("n/x.md", text).texts[0] for text in ("---\n\n---\ntext", "---\ntitle: x\n")]

    assert [(one.text, one.metadata) for one in found] == [
        ("text", None),
        ("---\ntitle: x\n", None),
    ]


@pytest.mark.parametrize(
    "date",
    [
        *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-02-30"),
        *("2026-01-01 10:00:00 -99:00", "253402300800000"),
    ],
)
def test_a_date_that_no_calendar_has_is_named_and_another_one_taken(date):
    contents = read("n/x.md", f"---\ntags: [a]\ncreated_at: {date}\n---\ntext")
    other = read("n/x.md", f"---\ndate: {date}\npublished: 2026-02-28\n---\ntext")
    (one,) = contents.texts

    assert (one.text, one.tags, one.created_at) == ("text", ("a",), None)
    assert contents.notes == [
        "has 'created_at' that is no day of the calendar, or not between the years 1 and 9999"
    ]
    assert (other.texts[0].created_at, len(other.notes)) == (datetime(2026, 2, 28, tzinfo=UTC), 1)


@pytest.mark.parametrize("published", ["true", "false", "no", "", "soon"])
def test_whether_something_is_published_is_no_date(published):
    contents = read("n/x.md", f"---\npublished: {published}\n---\ntext")

    assert (contents.texts[0].created_at, contents.notes) == (None, [])


@pytest.mark.parametrize(
    "scalar",
    [
        *("007", "12:30", "2026-02-30", "0x" + "f" * 9_000, "9" * 9_000),
        *("1" + ":59" * 60_000, "1" + ":59" * 300 + ".5"),
    ],
    ids=lambda one: str(one)[:15],
)
def test_a_scalar_that_is_not_what_it_looks_like_is_a_text(scalar):
    contents = read("n/x.md", f"---\ntitle: T\nn: {scalar}\n---\ntext")

    assert contents.texts[0].metadata == {"title": "T", "n": scalar}
    assert contents.texts[0].text.endswith("text")


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


@pytest.mark.parametrize("above", ["", "\n \n"])
def test_front_matter_may_be_toml_and_below_blank_lines(above):
    toml = load(
        "n/x.md",
        f'{above}+++\ntitle = "Boats"\ntags = ["red"]\ndate = 2026-01-02\n+++\nend'.encode(),
    )
    yaml = load(
        "n/x.md", f"{above}---\ntitle: Boats\ntags: red\ndate: 2026-01-02\n---\nend".encode()
    )

    for (one,) in (toml.texts, yaml.texts):
        assert (one.text, one.title, one.tags) == ("end", "Boats", ("red",))
        assert one.created_at == datetime(2026, 1, 2, tzinfo=UTC)


def test_toml_that_is_not_valid_is_text():
    (one,) = load("n/x.md", b"+++\ntitle = Boats\n+++\nend").texts

    assert one.text == "+++\ntitle = Boats\n+++\nend"
