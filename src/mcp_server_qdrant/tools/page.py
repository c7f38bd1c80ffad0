"""Answers of limited length: of texts, of metadata, of lists."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mcp_server_qdrant.core.datatypes import CollectionInfo, Document, SearchPage
from mcp_server_qdrant.core.find import LINES, MAX_LIMIT
from mcp_server_qdrant.core.notation import amount, called, document_id, every, shown_id, some
from mcp_server_qdrant.core.tokens import tokens
from mcp_server_qdrant.tools import rendering

LIST_ROOM = 740  # tokens of a list of collections


def fitted(page: SearchPage) -> SearchPage:
    """The results with passages, and a few more on a line each."""
    last = max((n for n, one in enumerate(page.results, 1) if one.passages), default=0)
    shown = page.results[: last + LINES]
    return replace(page, results=shown, more=page.more + len(page.results) - len(shown))


def concluded(page: SearchPage) -> SearchPage:
    """The page with notes on the passages and the results that are not shown."""
    said = []
    if deep := next((n for n, one in enumerate(page.results, 1) if one.left), 0):
        parts = amount(page.results[deep - 1].left, "more passage")
        said.append(f"{parts} in result {deep}: give its id as within.")
    if page.more and not page.weak and len(page.results) < MAX_LIMIT:
        said.append(f"{amount(page.more, 'more result')}: raise limit.")
    return replace(page, notes=[*page.notes, *said])


def with_coming(page: SearchPage, coming: Collection[str]) -> SearchPage:
    """The page with a note on files that are still to be read: then nothing is ruled out."""
    if not coming:
        return page
    said = [note for note in page.notes if page.results or not note.startswith("Nothing ")]
    return replace(page, notes=[*coming, *said])


def fitting(found: Sequence[Document], room: int, most: int) -> tuple[list[Document], list[str]]:
    """As many of the documents, in order, as have room together, and notes of what is not there.

    The first is always shown: cut to `room` characters where it alone has more; a call may ask for
    `most`.
    """
    first, *others = found
    shown, notes, length = [first], [], len(first.text)
    if length > room:
        shown = [first._replace(text=first.text[:room])]
        rest = f"size={length} gives the rest"
        if length > most:
            rest = "qdrant-find within it shows passages of the rest"
        notes.append(
            f"id {called(shown_id(first))} is cut after {room:,} of {length:,} characters: {rest}."
        )
    left: list[Document] = []
    used = len(first.text)
    for document in others:
        used += len(document.text)
        (left if used > room else shown).append(document)
    if left:
        names = every(shown_id(document) for document in left)
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
            used += len(rendering.compact(document.metadata))
        if document.metadata and shown and used > room:
            left.append(called(shown_id(document)))
            document = document._replace(metadata=None)  # noqa: PLW2901
        shown.append(document)
    many = f"Metadata left out for its length, to be asked for with qdrant-get: id {some(left)}."
    return shown, [many] if left else []


def whole(page: SearchPage) -> SearchPage:
    """The page with a note of the results that are parts of longer texts."""
    parts = [one.document for one in page.results if one.document.chunks > 1]
    ids = list(dict.fromkeys(called(document_id(one)) for one in parts))
    note = f"Parts of longer texts, which qdrant-get gives whole: id {some(ids)}."
    return replace(page, notes=[*page.notes, *([note] if ids else [])])


def slim(page: SearchPage, room: int) -> SearchPage:
    """The page with as much of its metadata as has room."""
    shown, notes = described([one.document for one in page.results], room)
    results = [replace(one, document=new) for one, new in zip(page.results, shown, strict=True)]
    return replace(page, results=results, notes=[*page.notes, *notes])


def listed(infos: Sequence[CollectionInfo], syncs: Mapping[str, str]) -> list[str]:
    """The collections by line, in full where all of them fit, else as many in brief as do."""
    full = [rendering.collection(info, syncs.get(info.name)) for info in infos]
    if sum(tokens(one) + 1 for one in full) <= LIST_ROOM:
        return full
    lines, room = list[str](), LIST_ROOM
    for info in infos:
        lines.append(rendering.collection(info, brief=True))
        room -= tokens(lines[-1]) + 1
        if room < 0:
            break
    return lines[:-1] if room < 0 and len(lines) > 1 else lines
