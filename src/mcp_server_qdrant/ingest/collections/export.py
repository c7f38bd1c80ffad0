"""Exports a collection as a folder of files from which `ingest` restores it."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.drafts import drafted
from mcp_server_qdrant.ingest.formats.exported import line_of, markdown_of, name_of, record_of
from mcp_server_qdrant.qdrant.read.lookup import PAGE, RACES, join_chunks
from mcp_server_qdrant.qdrant.write.bulk import Bulk

MARKER = ".mcp-server-qdrant-export"  # hidden, so that `ingest` ignores it
LINES = 5_000_000  # bytes per file of JSON lines, since `ingest` reads a file as a whole

Form = Literal["markdown", "jsonl"]
Texts = list[tuple[Document, dict[str, Any]]]  # (text, record)


@dataclass(slots=True)
class Exported:
    """What was written: `textless` points were left out, `torn` texts lack parts."""

    texts: int = 0
    files: int = 0
    textless: int = 0
    torn: int = 0


async def export(
    bulk: Bulk,
    name: str,
    folder: Path,
    form: Form,
    tell: Callable[[str, int, int], None],
    *,
    replace: bool,
) -> Exported:
    """Write the collection's texts as files; the folder appears when all are written.

    `tell` gets the collection, the number of finished points, and their total. Raises
    RequestError, EngineFailure.
    """
    done, seen, total = Exported(), 0, await bulk.count(name)
    with drafted(folder, MARKER, "an export", replace=replace) as draft:
        write = _write_markdown if form == "markdown" else _write_lines
        async for page in bulk.documents(name, PAGE):
            seen += len(page)
            heads = [one for one in page if one.head is None]
            texts = [await _read_whole(bulk, one) for one in heads if not one.textless]
            await asyncio.to_thread(write, draft, texts, done)
            done.texts += len(texts)
            done.textless += len(heads) - len(texts)
            done.torn += sum(text.torn for text, _ in texts)
            tell(name, seen, max(total, seen))
        (draft / MARKER).write_text(json.dumps({"collection": name, "texts": done.texts}), "utf-8")
    return done


async def _read_whole(bulk: Bulk, head: Document) -> tuple[Document, dict[str, Any]]:
    """The whole text of this first part, and its record."""
    parts = [head]
    for _ in range(RACES if head.document is not None and head.chunks > 1 else 0):
        parts = await bulk.parts(head, 0, head.chunks - 1)
        now = await bulk.by_id(head.collection, [head.id])
        if len(parts) == head.chunks or not now or now[0].version == head.version:
            break
        head = now[0]  # replaced meanwhile
    text = join_chunks(parts, head, lacking=len(parts) < head.chunks) if parts else head
    sections = any(one.section or one.sections for one in parts)
    return text, record_of(text, sections=sections)


def _write_markdown(draft: Path, texts: Texts, done: Exported) -> None:
    for text, record in texts:
        (draft / name_of(text, record)).write_bytes(markdown_of(text, record))
    done.files += len(texts)


def _write_lines(draft: Path, texts: Texts, done: Exported) -> None:
    for text, record in texts:
        last = draft / f"texts-{done.files:03}.jsonl"
        done.files += not done.files or last.stat().st_size > LINES
        with (draft / f"texts-{done.files:03}.jsonl").open("ab") as lines:
            lines.write(line_of(text, record))
