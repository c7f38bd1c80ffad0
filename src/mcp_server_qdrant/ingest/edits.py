"""Edits a text: append, prepend, replace a passage, replace a section."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import cite, first_few, one_line
from mcp_server_qdrant.ingest.formats.base import Mark
from mcp_server_qdrant.ingest.formats.front import front_matter
from mcp_server_qdrant.ingest.formats.markdown import LINE, headings, visible

FORMS = {"append"}, {"prepend"}, {"replace", "with"}, {"section", "with"}
USAGE = (
    'edit is one of {"append": text}, {"prepend": text}, {"replace": old, "with": new} and '
    '{"section": "A > B", "with": text}.'
)
PLACES, HEADINGS = 3, 12  # most that an error names
CONTEXT = 40  # characters shown on either side of a match
COMPARED = 200_000  # characters of a text searched for a passage similar to a missing one
SIMILAR = 60  # lowest similarity, of 100, of a suggested passage
SMALL = 3  # parts shorter than a third of the longest are split again with a neighbour

Span = tuple[int, int]


class Edited(NamedTuple):
    """The new text; the edit is the span from `start` to `end`."""

    text: str
    start: int
    end: int

    @property
    def lines(self) -> Span:
        """The first and last changed line, counted from 1."""
        new = self.text[self.start : self.end]
        first = self.start + (len(new) - len(new.lstrip()) if new.strip() else 0)
        last = max(first, self.start + len(new.rstrip()))
        return 1 + self.text.count("\n", 0, first), 1 + self.text.count("\n", 0, last)


def check(edit: Mapping[str, Any]) -> Mapping[str, str]:
    """The edit unchanged, if it is valid. Raises RequestError."""
    if set(edit) not in FORMS or not all(isinstance(one, str) for one in edit.values()):
        raise RequestError(USAGE)
    if empty := [key for key, one in edit.items() if key != "with" and not one.strip()]:
        raise RequestError(f"edit.{empty[0]} is empty: nothing was changed. {USAGE}")
    return edit


def apply_edit(text: str, edit: Mapping[str, str]) -> Edited:
    """The text after a checked edit.

    Raises RequestError if the edit is ambiguous, changes nothing or leaves no text.
    """
    if "append" in edit:
        start, end, new = len(text), len(text), _apart(text, edit["append"]) + edit["append"]
    elif "prepend" in edit:
        start, end, new = 0, 0, edit["prepend"] + _apart(edit["prepend"], text)
    elif "replace" in edit:
        start, end = _find_passage(text, edit["replace"])
        new = edit["with"]
    else:
        start, end, new = _replace_section(text, edit["section"], edit["with"])
    if text[start:end] == new:
        raise RequestError("The text says that already: nothing was changed.")
    changed = text[:start] + new + text[end:]
    if not changed.strip():
        raise RequestError(
            "The edit leaves no text: nothing was changed. Use qdrant-delete to delete the text."
        )
    return Edited(changed, start, start + len(new))


def _apart(before: str, after: str) -> str:
    """A line break, unless white space already separates the two."""
    return "" if before[-1:].isspace() or after[:1].isspace() or not before else "\n"


def _find_passage(text: str, old: str) -> Span:
    """The span of a passage, if need be with other white space. Raises RequestError."""
    found, at = list[Span](), text.find(old)
    while at >= 0:
        found.append((at, at + len(old)))
        at = text.find(old, at + 1)
    if not found:
        words = re.compile(r"\s+".join(map(re.escape, old.split())))
        found = [one.span() for one in words.finditer(text)]
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - PLACES:,} more" if len(found) > PLACES else ""
        places = "; ".join(_place(text, *one) for one in found[:PLACES])
        raise RequestError(
            f"The passage occurs {len(found):,} times: {places}{more}. Nothing was changed: "
            "include more of the surrounding words."
        )
    raise RequestError(
        "The passage is not in the text: nothing was changed. Read the text with qdrant-get, and "
        f"copy a passage exactly.{_suggest(text, old)}"
    )


def _place(text: str, start: int, end: int) -> str:
    """The line number of a span and the words around it."""
    around = one_line(text[max(start - CONTEXT, 0) : end + CONTEXT], 3 * CONTEXT)
    return f"line {1 + text.count(chr(10), 0, start):,} ({cite(around)})"


def _suggest(text: str, old: str) -> str:
    """A sentence on the passage most similar to the missing one, or nothing."""
    from rapidfuzz import fuzz  # needed only for a missing passage

    seen, old = text[:COMPARED], old.strip()[:1_000]
    found = fuzz.partial_ratio_alignment(old, seen, score_cutoff=SIMILAR)
    if found is None:
        return ""
    start, near = found.dest_start, seen[found.dest_start : found.dest_end]
    start += len(near) - len(near.lstrip())
    return f" The nearest is in {_place(text, start, found.dest_end)}."


def _replace_section(text: str, wanted: str, new: str) -> tuple[int, int, str]:
    """The span of the text below a heading, and its replacement. Raises RequestError."""
    first = front_matter(text).end
    marks = [replace(one, start=one.start + first) for one in headings(text[first:])]
    mark = _find_heading(text, marks, wanted)
    start = _below(text, mark.start)
    later = (one.start for one in marks if one.start > mark.start and one.level <= mark.level)
    end = next(later, len(text))
    again = next(headings(new.lstrip()), None)
    if again and again.start == 0 and _folded(again.name) == _folded(mark.name):
        new = new.lstrip()[_below(new.lstrip(), 0) :]  # `new` repeats the heading
    new, body = new.strip("\r\n"), text[start:end]
    if body.strip():
        lead = body[: len(body) - len(body.lstrip())] if new else ""
        new = f"{lead}{new}{body[len(body.rstrip()) :]}"
    elif new:
        above = "" if text[:start].endswith("\n") else "\n"
        new = f"{above}{new}{'' if end == len(text) else chr(10)}{body}"
    return start, end, new


def _below(text: str, heading: int) -> int:
    """The start of the line after the heading at this position."""
    found = LINE.match(text, heading)
    return text.find("\n", found.end() if found else heading) + 1 or len(text)


def _find_heading(text: str, marks: Sequence[Mark], wanted: str) -> Mark:
    """The heading with this path, or with a path that ends so. Raises RequestError."""
    paths, above = list[str](), list[Mark]()
    for mark in marks:
        above = [*(one for one in above if one.level < mark.level), mark]
        paths.append(" > ".join(one.name for one in above))
    whole = " > ".join(_folded(visible(one.strip().lstrip("#"))) for one in wanted.split(" > "))
    folded = [_folded(path) for path in paths]
    for way in (whole.__eq__, lambda path: path.endswith(f" > {whole}")):
        found = [mark for mark, path in zip(marks, folded, strict=True) if way(path)]
        if len(found) == 1:
            return found[0]
        if found:
            places = "; ".join(_place(text, one.start, one.start) for one in found[:PLACES])
            raise RequestError(
                f"{len(found):,} sections are called {cite(wanted)}: {places}. Nothing was "
                "changed: name the headings above it too (A > B), or use replace."
            )
    there = f"there are {first_few(paths, HEADINGS, cite)}" if paths else "it has no headings"
    raise RequestError(f"The text has no section {cite(wanted)}: {there}. Nothing was changed.")


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def choose_kept(spans: Sequence[Span], done: Edited, grown: int) -> tuple[int, int, Span]:
    """How many parts before and after an edit are kept, and the span between, to split again.

    `spans` are the parts of the old text, without gaps; `grown` is the change in length. Parts that
    touch the edit are split again, and so are small ones next to it.
    """
    start, end = done.start, done.end - grown  # in the old text
    before = sum(close < start for _, close in spans)
    after = sum(begin > end for begin, _ in spans)
    size = [close - begin for begin, close in spans]
    least = max(size) // SMALL
    while True:
        first, last = spans[before][0], spans[-after - 1][1] + grown
        if before and min(size[before - 1], last - first) < least:
            before -= 1
        elif after and min(size[-after], last - first) < least:
            after -= 1
        else:
            return before, after, (first, last)
