"""A text's sentences."""

import pytest

from mcp_server_qdrant.core.sentences import sentences

DOCTOR = "Dr. Who met J. Smith on 3. Mai in St. Louis."
WRAPPED = """Backups run every night at two on the server in the basement,
because the uplink is idle at that time of the day. They
are kept for a week.
See below."""
WIDE = "A line of a comment that is wider than fifty letters"
MARKDOWN = """# Backups

## Retention

Keep seven daily snapshots. Older ones go.

```sh
restic prune
restic check
```

The plans:

| plan | keep |
|------|------|
| home | 7 |
| work | 30 |
"""


# So long a line is prose, if anything is.
LONG = "Filler so long that no line of code is as long and none of a wrapped text " * 2 + "either. "


def split(text: str) -> list[str]:
    return [" ".join(text[s.start : s.end].split()) for s in sentences(text, 20_000)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Run renew.sh now. Use 0.18 then.", ["Run renew.sh now.", "Use 0.18 then."]),
        ("Dr. Who met J. Smith on 3. Mai in St. Louis. End.", [DOCTOR, "End."]),
        ("He said “stop.” Then he left.", ["He said “stop.”", "Then he left."]),
        ("Some, e.g. this, are kept. So what.", ["Some, e.g. this, are kept.", "So what."]),
        ("备份每天运行。明天下雨。", ["备份每天运行。", "明天下雨。"]),
    ],
)
def test_the_sentences_of_a_long_line_end_at_stops(text, expected):
    assert split(LONG + text) == [LONG.strip(), *expected]
    assert split(text) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- one item\n- two items", ["- one item", "- two items"]),
        ("short line\nanother line", ["short line", "another line"]),
        (f"    {WIDE}\n    goes on. So", [WIDE, "goes on. So"]),
        (WRAPPED, WRAPPED.splitlines()),
        ("Text.\n[1.0]: https://example.org/1.0\n[note]: say so", ["Text.", "[note]: say so"]),
        ("", []),
        ("  \n\n", []),
    ],
)
def test_a_line_that_may_be_code_is_not_split_and_not_joined(text, expected):
    assert split(text) == expected


def test_a_heading_begins_the_sentence_below_and_marks_are_left_out():
    assert split(MARKDOWN) == [
        "# Backups ## Retention Keep seven daily snapshots. Older ones go.",
        "restic prune",
        "restic check",
        "The plans:",
        "| plan | keep |",
        "| home | 7 |",
        "| work | 30 |",
    ]


def test_a_heading_with_nothing_below_it_is_a_sentence():
    assert split("Text.\n\n# The end") == ["Text.", "# The end"]


def test_a_long_text_is_read_at_its_beginning_only():
    assert len(sentences("One.\n" * 100, 50)) == 10
