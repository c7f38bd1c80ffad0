"""Source code: where classes and functions begin."""

import pytest

from mcp_server_qdrant.ingest.formats.code import find_marks, read
from mcp_server_qdrant.ingest.formats.load import load

LANGUAGES = {
    "class Shed(Base):\n    async def open(self):\n        pass\n": [(1, "Shed"), (5, "open")],
    "export default class Shed {\n\tstatic async function* open() {}\n}": [
        (1, "Shed"),
        (5, "open"),
        (1, ""),
    ],
    "func (s *Shed) Open() error {\n}": [(1, "Open"), (1, "")],
    "class Shed\n  def open\n  end\nend\n": [(1, "Shed"), (3, "open"), (3, ""), (1, "")],
    '{"a": {\n}\n}': [],
    "pub(crate) unsafe fn open<T>() {}\nimpl Shed {": [(1, "open<T>"), (1, "Shed")],
    "public sealed class Shed {\n  private record Key(int a);": [(1, "Shed"), (3, "Key")],
    "CREATE TABLE shed (id int);": [(1, "shed")],
    "defmodule Shed.Key do\n  def open, do: 1": [(1, "Shed.Key"), (3, "open")],
    "a definition of a class act\n# class No": [],
}


@pytest.mark.parametrize("text", LANGUAGES)
def test_definitions_are_found_by_their_first_words(text):
    assert [(mark.level, mark.name) for mark in find_marks(text)] == LANGUAGES[text]


PYTHON = """\
# What it opens.
@dataclass
class Shed:
    '''def none of these
    class at all
    '''

    def open(self):
        if self.key:
            def turn(): pass

    size = 3

print(Shed)
"""


def test_definitions_of_python_are_those_that_python_sees_with_their_ends():
    (one,) = read("n/shed.py", PYTHON).texts
    lines = PYTHON.splitlines()

    found = [(PYTHON[: mark.start].count("\n"), mark.level, mark.name) for mark in one.marks]

    assert found == [
        (0, 1, "Shed"),
        (7, 2, "open"),
        (9, 3, "turn"),
        (10, 2, ""),
        (10, 3, ""),
        (12, 1, ""),
    ]
    assert lines[9].strip() == "def turn(): pass"


def test_python_that_cannot_be_parsed_is_read_as_other_languages_are():
    (one,) = read("n/shed.py", "class Shed:\n  def open(self): print 'x'\n").texts

    assert [mark.name for mark in one.marks] == ["Shed", "open"]


@pytest.mark.parametrize("name", ["a.json", "conversations.json", "session-1.json"])
def test_the_escapes_of_json_hide_no_words(name):
    (one,) = load(
        f"n/{name}", rb'{"a": "Stra\u00dfe\npier \ud83d\ude00 \ud83d", "b": "x\\nx"}'
    ).texts

    assert one.text == '{"a": "Straße\npier 😀 \ufffd", "b": "x\\nx"}'
