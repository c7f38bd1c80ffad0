"""Source code: where classes and functions begin."""

import pytest

from mcp_server_qdrant.ingest.formats.code import marks

LANGUAGES = {
    "class Shed(Base):\n    async def open(self):\n        pass\n": [(1, "Shed"), (5, "open")],
    "export default class Shed {\n\tstatic async function* open() {}\n}": [
        (1, "Shed"),
        (5, "open"),
    ],
    "func (s *Shed) Open() error {\n}": [(1, "Open")],
    "pub(crate) unsafe fn open<T>() {}\nimpl Shed {": [(1, "open<T>"), (1, "Shed")],
    "public sealed class Shed {\n  private record Key(int a);": [(1, "Shed"), (3, "Key")],
    "CREATE TABLE shed (id int);": [(1, "shed")],
    "defmodule Shed.Key do\n  def open, do: 1": [(1, "Shed.Key"), (3, "open")],
    "a definition of a class act\n# class No": [],
}


@pytest.mark.parametrize("text", LANGUAGES)
def test_definitions_are_found_by_their_first_words(text):
    assert [(mark.level, mark.name) for mark in marks(text)] == LANGUAGES[text]
