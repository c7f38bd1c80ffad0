"""Answers of limited length: the best results with their passage, the others on a line each."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcp_server_qdrant.core.datatypes import CollectionInfo, Document, SearchPage
from mcp_server_qdrant.core.find import MAX_LIMIT
from mcp_server_qdrant.core.notation import called, every, some
from mcp_server_qdrant.tools import text as tool_text
from mcp_server_qdrant.tools.output import find_output

ROOM = 560  # tokens of a page as counted here: models count up to 600
DATA = 3  # times as much for the page as structured content, with its keys and whole ids
LIST_ROOM = 740  # of a list of collections
PASSAGES = 5
LAST_NOTE = 30  # tokens of the sentence on what is not shown
_PIECE = re.compile(r"\d+|[A-Za-z]+|[^\W\d_]+|[^\w\s]|_|\n")
_IDEOGRAPHS = "\u2e80"  # from here on, most characters are words


def tokens(text: str) -> int:
    """About how many tokens a language model reads it as; seldom fewer than it does."""
    return sum(-(-len(piece) // _letters(piece[0])) for piece in _PIECE.findall(text))


def _letters(first: str) -> int:
    """The letters of a token in a word that begins so."""
    if first.isascii():
        return 6 if first.isalpha() else 3
    return 1 if first >= _IDEOGRAPHS else 3


def fitted(page: SearchPage, room: int = ROOM) -> SearchPage:
    """The first results with passages, then as many without as fit into `room` tokens."""
    room -= LAST_NOTE + tokens(tool_text.page(replace(page, results=()), "minimal"))
    results = []
    for number, one in enumerate(page.results, 1):
        shorter = replace(one, passage="")
        for shown in [one, shorter][number > PASSAGES :]:
            cost = tokens(tool_text.result(number, shown, "minimal")) + 1
            if cost <= room or number == 1:
                results.append(shown)
                room -= cost
                break
        else:
            break
    while len(results) > 1 and _data(replace(page, results=results)) > DATA * (ROOM - LAST_NOTE):
        results.pop()
    left_out = [one.relevance for one in page.results[len(results) :]]
    least = min(filter(None, [*left_out, page.least]), default=None)
    return replace(page, results=results, more=page.more + len(left_out), least=least)


def _data(page: SearchPage) -> int:
    """The tokens of a page as structured content."""
    return tokens(json.dumps(find_output(page, "minimal"), ensure_ascii=False))


def concluded(page: SearchPage) -> SearchPage:
    """The page with a note on the results that are not shown."""
    if not page.more:
        return page
    least = "" if page.least is None else f" with relevance {page.least:.2f} or better"
    how = ": raise limit" if len(page.results) < MAX_LIMIT else ""
    said = f"{page.more} more{least}{how}."
    return replace(page, notes=[*page.notes, said])


def fitting(found: Sequence[Document], room: int) -> tuple[list[Document], list[str]]:
    """As many of the documents, in order, as have room together, and notes of what is not there.

    The first is always shown: cut to `room` characters where it alone has more.
    """
    first, *others = found
    shown, notes = [first], []
    if len(first.text) > room:
        shown = [first._replace(text=first.text[:room], last=None)]
        notes.append(
            f"id {called(tool_text.shown_id(first))} is cut after {room:,} of "
            f"{len(first.text):,} characters: qdrant-find shows passages of the rest."
        )
    left: list[Document] = []
    used = len(first.text)
    for document in others:
        used += len(document.text)
        (left if used > room else shown).append(document)
    if left:
        names = every(tool_text.asked_by(document) for document in left)
        notes.append(f"Left out for their length, to be asked for in another call: {names}.")
    return shown, notes


def described(found: Sequence[Document], room: int) -> tuple[list[Document], list[str]]:
    """The documents with as much of their metadata as has room, and a note of what is left out.

    The first always has its own.
    """
    shown: list[Document] = []
    left: list[str] = []
    used = 0
    for document in found:
        if document.metadata and used <= room:
            used += len(tool_text.compact(document.metadata))
        if document.unread or (document.metadata and shown and used > room):
            left.append(called(tool_text.shown_id(document)))
            document = document._replace(metadata=None)  # noqa: PLW2901
        shown.append(document)
    many = f"Metadata left out for its length, to be asked for with qdrant-get: id {some(left)}."
    return shown, [many] if left else []


def slim(page: SearchPage, room: int) -> SearchPage:
    """The page with as much of its metadata as has room."""
    shown, notes = described([one.document for one in page.results], room)
    results = [replace(one, document=new) for one, new in zip(page.results, shown, strict=True)]
    return replace(page, results=results, notes=[*page.notes, *notes])


def listed(infos: Sequence[CollectionInfo], syncs: Mapping[str, str]) -> list[str]:
    """The collections by line, in full where all of them fit, else as many in brief as do."""
    full = [tool_text.collection(info, syncs.get(info.name)) for info in infos]
    if sum(tokens(one) + 1 for one in full) <= LIST_ROOM:
        return full
    lines, room = list[str](), LIST_ROOM
    for info in infos:
        lines.append(tool_text.collection(info, brief=True))
        room -= tokens(lines[-1]) + 1
        if room < 0:
            break
    return lines[:-1] if room < 0 and len(lines) > 1 else lines
