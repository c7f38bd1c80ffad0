"""Parses a text answer by its lines, like an agent: results, notes, stored text."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

NAME = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\w(?:[\w.~@+/#:=%-]*\w)?)"""
SAID = rf"(?:from the web: |written by |stored with )?(?:{NAME[1:-1]})"
HEAD = rf"{NAME} \(id {NAME}(?:, {SAID})*\)(?: part [\d/-]+)?(?: · .*)?"
KINDS = {
    "stored": r">(?: .*)?",
    "result": rf"\d+\. (?:\[\d\.\d\d\] )?{HEAD}",
    "head": HEAD,
    "note": r"Note: .*",
    "passage": rf"\+ (?::\d+/\d+|{NAME[1:-1]})(?: · .*)?",
    "listed": rf"- {NAME}: .*",
    "example": rf"- id {NAME} · .*",
    "deletion": rf"(?:- |Deleted: ){NAME} \(id {NAME}(?:, \d+ parts)?\) · .*",
    "said": r"(?:also in|superseded by|supersedes|why|metadata|tags|source|created|expires"
    r"|whole text|Corrected|Reranked|Not reranked|Not found): .*",
    "sentence": r"(?:Map of|The query is nearest to|Nothing is deleted yet|Delete \d+"
    r"|\d+ points? of|Call again with|\(\d+ more\)|No map:|There is no collection).*",
    "blank": "",
}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Line(NamedTuple):
    """One line: its kind, the names and ids in it, and the whole line."""

    kind: str
    names: tuple[str, ...]
    text: str


def read(answer: str) -> list[Line]:
    """Parse the lines of an answer; an unknown kind is an error."""
    return list(_lines(answer))


def of(answer: str, *kinds: str) -> list[tuple[str, ...]]:
    """The names and ids in the lines of these kinds."""
    return [line.names for line in read(answer) if line.kind in kinds]


def _lines(answer: str) -> Iterator[Line]:
    for text in answer.split("\n") if answer else ():
        assert not UNSEEN.search(text), repr(text)
        assert text.splitlines() in ([], [text])
        matches = {kind: re.fullmatch(pattern, text) for kind, pattern in KINDS.items()}
        kind = next((kind for kind, match in matches.items() if match), None)
        assert kind, f"This line is of no kind: {text!r}"
        yield Line(kind, tuple(map(_name, matches[kind].groups())), text)


def _name(written: str) -> str:
    return ast.literal_eval(written) if written[0] in "'\"" else written
