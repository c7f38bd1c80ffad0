"""Plain text: underlined headings, questions and numbers."""

import pytest

from mcp_server_qdrant.ingest.formats.text import read

UNDERLINED = """\
=====
Sheds
=====

Text.

Keys
----
They hang.

Short
--

  indented
  --------

| a
---

Doors
-----

First
~~~~~
"""
QUESTIONS = """\
Q: Why does the door
   of the shed not open?

A: It is locked.

Q: Where is the key?

A: On a nail.
"""
NUMBERED = """\
Chapter 1. Sheds

1.1 Doors

They open.

1.2. Keys

1. Take the key.

2. Turn it.
"""


@pytest.mark.parametrize(
    ("text", "title", "marks"),
    [
        (UNDERLINED, "Sheds", [(1, ""), (2, "Keys"), (2, "Doors"), (3, "First")]),
        (
            QUESTIONS,
            "shed",
            [(1, "Q: Why does the door of the shed not open?"), (1, "Q: Where is the key?")],
        ),
        (NUMBERED, "Chapter 1. Sheds", [(1, ""), (2, "1.1 Doors"), (2, "1.2. Keys")]),
        ("1. A list of one\n\nand more\n", "shed.txt", []),
        ("no heading\nat all\n", "shed.txt", []),
        ("one line\n-----\nof a table\n", "shed.txt", []),
        ("2.0\n===\n\n1.9\n===\n", "shed", [(1, "2.0"), (1, "1.9")]),
    ],
)
def test_headings_of_plain_text_are_found(text, title, marks):
    (one,) = read("n/shed.txt", text).texts

    assert one.title == title
    assert [(mark.level, mark.name) for mark in one.marks] == marks
