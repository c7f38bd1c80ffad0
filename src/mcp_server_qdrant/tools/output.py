"""Results as structured content."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from mcp_server_qdrant.core.datatypes import (
    CollectionInfo,
    Document,
    Passage,
    Result,
    SearchPage,
    Why,
)
from mcp_server_qdrant.core.writes import Stored
from mcp_server_qdrant.tools import text as tool_text

MAX_LETTERS = 100
MAX_FAILED = 10  # collections with their fault; a note counts the others


Found = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "required": ["id", "collection"]}),
]


class FindOutput(BaseModel):
    """The result of qdrant-find: results best first, and sentences on them."""

    model_config = ConfigDict(extra="allow")

    results: list[Found]
    notes: list[str]


def find_output(page: SearchPage, mode: str) -> dict[str, Any]:
    """A page as structured content."""
    output = {
        "results": [_result(one, full=mode == "full") for one in page.results],
        "notes": list(page.notes),
    }
    failed = [status for status in page.statuses if status.state != "ok"]
    if failed:
        output["collections"] = {
            one.collection: f"{one.state}: {one.reason}" for one in failed[:MAX_FAILED]
        }
    if page.rerank:
        output["rerank"] = _present(asdict(page.rerank))
    if page.corrections:
        output["corrections"] = {one.word: one.to for one in page.corrections}
    return output


def _result(one: Result, *, full: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"date": tool_text.day(one.document)}
    found |= document(one.document) if full else {"source": tool_text.source(one.document) or None}
    found |= {
        "id": str(one.document.id),
        "document": tool_text.document_id(one.document),
        "collection": one.document.collection,
        "relevance": None if one.relevance is None else round(one.relevance, 3),
        "text": one.document.text if full else one.passage or None,
        "title": one.document.heading,
        "part": _part(one.document),
        "passages": [_passage(passage) for passage in one.passages[1:]] or None,
        "more_passages": one.left or None,
        "supersedes": one.supersedes,
        "why": _why(one.why) if one.why else None,
        "superseded_by": one.document.superseded_by,
        "also_in": [{"collection": name, "id": str(point)} for name, point in one.also] or None,
    }
    return _present(found)


def _passage(one: Passage) -> dict[str, Any]:
    part = one.part
    shown = {"id": str(part.id), "part": _part(part), "section": one.section, "text": one.text}
    return _present(shown)


def _part(document: Document) -> str | None:
    return tool_text.part(document).removeprefix(" part ") or None


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _why(why: Why) -> dict[str, Any]:
    values = asdict(why) | {"tags": list(why.tags)}
    for name in ("ranks", "weights", "gains", "factors"):
        values[name] = {key: round(value, 4) for key, value in values[name]}
    if why.reranked is None:
        del values["reranked"]
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}


def document(one: Document) -> dict[str, Any]:
    """One document as structured content."""
    values = {
        "id": str(one.id),
        "collection": one.collection,
        "document": tool_text.document_id(one),  # not a hash of what may be hidden from the caller
        "text": one.text,
        "title": one.heading,
        "part": _part(one),
        "metadata": dict(one.metadata) if one.metadata else None,
        "tags": list(one.tags) or None,
        "source": one.source,
        "created_at": one.created_at,
        "revision": one.revision,
        "superseded_by": one.superseded_by,
    }
    return _present(values)


def stored(done: Stored) -> dict[str, Any]:
    """The result of storing as structured content."""
    values: dict[str, Any] = {
        "collection": done.collection,
        "id": done.document,
        "parts": len(done.ids),
    }
    if done.near:
        known, cosine = done.near
        values["near"] = {"id": tool_text.asked_by(known), "relevance": round(cosine, 3)}
    return values


def collection(
    info: CollectionInfo, sync: str | None = None, dead: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """One collection as structured content, and the state of its folders.

    `dead` are files that were given up, with the reason; at most 100 are shown.
    """
    values = {
        "name": info.name,
        "description": info.description,
        "points": info.points,
        "legs": list(info.legs),
        "model": info.model,
        "updated_at": info.updated_at,
        "note": info.note,
        "sync": sync,
        "dead_letters": dict(islice(dead.items(), MAX_LETTERS)) if dead else None,
    }
    return _present(values)
