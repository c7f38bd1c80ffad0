"""The parts of one text: their version, and the ids that follow from it."""

import json
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b

from mcp_server_qdrant.core.datatypes import Chunk, Document
from mcp_server_qdrant.core.notation import Identify, part_id


def parts_of(whole: Document, chunks: Sequence[Chunk], offset: int = 0) -> list[Document]:
    """The parts of a text that begins at `offset`, each with what is stored of the whole."""
    return [
        whole._replace(
            text=chunk.text,
            chunk=number,
            chunks=len(chunks),
            start=chunk.start + offset,
            end=chunk.end + offset,
        )
        for number, chunk in enumerate(chunks)
    ]


def numbered(parts: Sequence[Document], identify: Identify) -> list[Document]:
    """The parts of one text with their ids, those of several with their version."""
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


def content_of(head: Document) -> tuple[str | None, str | None]:
    """What differs in the first parts of two versions of a text that a reader can tell apart."""
    return head.version or version_of([head]), head.created_at


def version_of(parts: Sequence[Document]) -> str:
    """A hash of all that a reader sees of the parts, but for when they were written.

    The same text written again is the same version, and has the same points.
    """
    dumped = partial(json.dumps, sort_keys=True, default=str)
    metadata = {id(part.metadata): dumped(part.metadata) for part in parts[:1]}  # all share it
    each = []
    for a in parts:
        kept = metadata.get(id(a.metadata)) or dumped(a.metadata)
        known = [*map(dumped, (a.text, a.start, a.end, a.section, a.title, a.source)), kept]
        # Without sections the version is that of texts stored before there were any.
        each.append(f"[{', '.join([*known, *map(dumped, (a.tags, *a.sections))])}]")
    written = f"[{', '.join(each)}]"
    return blake2b(written.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
