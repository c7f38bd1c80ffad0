"""The parts of a text: preferred starts, sections, version and ids."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.core.notation import Identify, part_id, shortened_path
from mcp_server_qdrant.ingest.attributes import MAX_TITLE
from mcp_server_qdrant.ingest.formats.base import VERSION, Mark
from mcp_server_qdrant.qdrant.payload import MOST_PARTS

Span = tuple[int, int]  # start and end of a part
Section = tuple[int, str]  # start, and the path of headings


def breaks(text: str, marks: Sequence[Mark]) -> list[int]:
    """Where parts should begin: at headings, except those directly below another one."""
    places: list[int] = []
    above: Mark | None = None
    for mark in marks:
        if not mark.name or not mark.level:
            continue
        if above is None or mark.level <= above.level or _says(text[above.start : mark.start]):
            places.append(mark.start)
        above = mark
    return places


def _says(section: str) -> bool:
    """True if a section has more than its heading's line."""
    return "\n" in section.strip()


def sections(marks: Sequence[Mark]) -> list[Section]:
    """All sections in order. The name is empty after a section's end if no other one continues."""
    found: list[Section] = []
    path: list[Mark] = []
    for mark in marks:
        level = mark.level
        if version := VERSION.match(mark.name):
            # Changelogs may nest a patch release below the one before it; make it a sibling.
            level = min([level, *(one.level for one in path if _other(one, version[1]))])
        path = [*(one for one in path if one.level < level), replace(mark, level=level)]
        name = " > ".join(one.name for one in path if one.name)
        found.append((mark.start, shortened_path(name, MAX_TITLE)[:MAX_TITLE]))
    return found


def _other(mark: Mark, number: str) -> bool:
    """True for a heading of another version; 2.3.1 belongs to 2.3."""
    version = VERSION.match(mark.name)
    return version is not None and not number.startswith(f"{version[1]}.")


def sections_of(
    text: str, marks: Sequence[Mark], chunks: Sequence[Span]
) -> Iterator[tuple[str | None, tuple[Section, ...]]]:
    """For each chunk, the section in which it starts and those that start within it."""
    found = sections(marks)
    starts = [start for start, _ in found]
    for begin, close in chunks:
        own = text[begin:close]
        seen = begin + len(own) - len(own.lstrip())
        first, last = bisect_right(starts, seen), bisect_left(starts, close)
        ends = [*starts[first:last], close][1:]
        inside = tuple(
            (start - begin, name)
            for (start, name), end in zip(found[first:last], ends, strict=True)
            if text[start:end].strip()
        )
        yield (found[first - 1][1] or None if first else None), inside


def parts_of(whole: Document, text: str, chunks: Sequence[Span], offset: int = 0) -> list[Document]:
    """The parts of a text that begins at `offset`, each with the fields of the whole."""
    return [
        whole._replace(
            text=text[start:end],
            chunk=number,
            chunks=len(chunks),
            start=start + offset,
            end=end + offset,
        )
        for number, (start, end) in enumerate(chunks)
    ]


def numbered(parts: Sequence[Document], identify: Identify) -> list[Document]:
    """The parts of a text with ids, and with a version if there are several.

    Raises UnusableFile if there are more than can be read as one text.
    """
    if len(parts) > MOST_PARTS:
        raise UnusableFile(f"has {len(parts):,} parts, of {MOST_PARTS:,} at most: split it")
    one = parts[0]
    first = identify(one.collection, one.document or "", 0)
    if len(parts) == 1:
        return [one._replace(id=first)]
    version = version_of(parts)
    return [
        part._replace(
            id=part_id(first, version, part.chunk) if part.chunk else first,
            version=version,
            head=first if part.chunk else None,
        )
        for part in parts
    ]


def version_of(parts: Sequence[Document]) -> str:
    """A hash of all that a reader sees of the parts, except the time of writing.

    The same text written again has the same version and the same points.
    """
    dumped = partial(json.dumps, sort_keys=True, default=str)
    metadata = {id(part.metadata): dumped(part.metadata) for part in parts[:1]}  # shared by all
    each = []
    for a in parts:
        kept = metadata.get(id(a.metadata)) or dumped(a.metadata)
        known = [*map(dumped, (a.text, a.start, a.end, a.section, a.title, a.source)), kept]
        # Without sections the hash is that of texts stored before sections existed.
        each.append(f"[{', '.join([*known, *map(dumped, (a.tags, *a.sections))])}]")
    written = f"[{', '.join(each)}]"
    return blake2b(written.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
