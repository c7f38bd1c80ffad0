"""What an agent reads: compact text for each tool's result."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_server_qdrant.datatypes import (
    CollectionInfo,
    Document,
    Mode,
    Result,
    SearchPage,
    Stored,
    Why,
)

LINE = 120
STEERING = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"
)


def page(found: SearchPage, mode: Mode) -> str:
    """A page of results, a few lines each, then what the caller should know."""
    lines = [result(number, one, mode) for number, one in enumerate(found.results, 1)]
    if found.corrections:
        said = "; ".join(f"{line(one.word)} → {line(one.to)}" for one in found.corrections)
        lines.insert(0, f"Corrected: {said}")
    return "\n".join([*lines, *(f"Note: {note}" for note in found.notes)])


def result(number: int, one: Result, mode: Mode) -> str:
    """One result: relevance, collection, title, passage (or the whole text), id."""
    document = one.document
    head = f"{number}. [{one.relevance:.2f}] {heading(document)}"
    lines = [head, plain(one.passage)]
    if mode == "full":
        lines = [head, document.text, *details(document)]
    return "\n".join([*lines, *([why(one.why, one.relevance)] if one.why else [])])


def why(why: Why, relevance: float) -> str:
    """What made a result's place, on one line."""
    legs = [
        f"{share:.2f} x {name} {value:.3f}"
        for name, value, share in (
            ("meaning", why.meaning, why.alpha),
            ("words", why.words, 1 - why.alpha),
        )
        if value is not None
    ]
    steps = "".join(f" x {name} {factor:.3f}" for name, factor in why.factors)
    return f"why: {' + '.join(legs)} = {relevance:.3f}{steps} -> {why.score:.3f}; rrf {why.rrf:.4f}"


def heading(document: Document) -> str:
    """Where a text is, its title on one line, its id, and which part of how many it is."""
    title = f" · {line(document.title)}" if document.title else ""
    return f"{document.collection}{title} (id {document.id}){part(document)}"


def line(text: str, length: int = LINE) -> str:
    """The text on one line of at most `length` characters."""
    folded = plain(" ".join(text.split()))
    return folded if len(folded) <= length else f"{folded[: length - 1]}…"


def plain(text: str) -> str:
    """The text without what would steer a terminal or turn the direction of writing."""
    return STEERING.sub("", text)


def part(document: Document) -> str:
    """Which chunk of how many, where there are several."""
    return f" part {document.chunk + 1}/{document.chunks}" if document.chunks > 1 else ""


def details(document: Document) -> list[str]:
    """Metadata, tags, source and dates, as far as there are any."""
    pairs = {
        "metadata": compact(document.metadata) if document.metadata else None,
        "tags": ", ".join(document.tags) or None,
        "source": document.source,
        "created": document.created_at,
    }
    return [f"{name}: {value}" for name, value in pairs.items() if value]


def documents(
    found: Sequence[Document], missing: Sequence[str], failures: Sequence[str] = ()
) -> str:
    """Whole texts, the ids that are nowhere, and where could not be looked."""
    blocks = []
    for document in found:
        lines = [heading(document), document.text, *details(document)]
        if document.chunks > 1 and document.document is not None:
            lines.append(f"whole text: id {line(document.document)}")
        blocks.append("\n".join(lines))
    if missing:
        names = ", ".join(repr(line(one)) for one in missing)
        blocks.append(f"Not found: {names}. Use ids that qdrant-find returned.")
    blocks += [f"Note: not looked in {failure}" for failure in failures]
    return "\n\n".join(blocks)


def stored(done: Stored) -> str:
    """What storing did, in one line."""
    verb = "Updated" if done.updated else "Remembered"
    parts = f" in {len(done.ids)} parts" if len(done.ids) > 1 else ""
    made = " (new collection)" if done.created_collection else ""
    later = " Found by keywords now, by meaning once the model is there." if done.pending else ""
    if done.without_vector:
        later = f" Found by keywords only: {done.without_vector}."
    return f"{verb} in collection {done.collection}{made}{parts}: id {line(done.document)}.{later}"


def collections(found: Sequence[CollectionInfo]) -> str:
    """One line per collection."""
    if not found:
        return "There is no collection yet."
    return "\n".join(map(_collection, found))


def _collection(info: CollectionInfo) -> str:
    legs = " + ".join(info.legs) or "not searchable"
    model = f", {info.model}" if info.model else ""
    fresh = f", updated {info.updated_at}" if info.updated_at else ""
    note = f" ({info.note})" if info.note else ""
    return f"{info.name}: {info.points} points, {legs}{model}{fresh}{note}"


def compact(value: Mapping[str, Any]) -> str:
    """Metadata on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
