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
)
from mcp_server_qdrant.core.notation import document_id, heir_id, own_id, shown_id
from mcp_server_qdrant.core.writes import Stored
from mcp_server_qdrant.tools import rendering

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


def find_output(page: SearchPage, mode: str, *, points: bool = False) -> dict[str, Any]:
    """A page as structured content."""
    output: dict[str, Any] = {
        "results": [_result(one, full=mode == "full", points=points) for one in page.results],
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


def _id(one: Document, *, points: bool) -> str:
    """The id of a text as all tools show it, or that of its point."""
    return str(one.id) if points else shown_id(one)


def _result(one: Result, *, full: bool, points: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"date": rendering.day(one.document)}
    found |= document(one.document) if full else {"source": rendering.source(one.document) or None}
    copies = [{"collection": each.collection, "id": _id(each, points=points)} for each in one.also]
    found |= {
        "id": _id(one.document, points=points),
        "document": document_id(one.document) if points or full else None,
        "collection": one.document.collection,
        "relevance": None if one.relevance is None else round(one.relevance, 3),
        "text": one.document.text if full else one.passage or None,
        "title": one.document.heading,
        "stored_by": _writer(one.document),
        "part": _part(one.document),
        "passages": [_passage(each, points=points) for each in one.passages[1:]] or None,
        "more_passages": one.left or None,
        "supersedes": one.supersedes,
        "why": _rounded(one.why) if one.why else None,
        "superseded_by": heir_id(one.document),
        "also_in": copies or None,
    }
    return _present(found)


def _writer(one: Document) -> dict[str, str] | None:
    return dict(one.stored_by) if one.stored_by and rendering.writer(one) else None


def _passage(one: Passage, *, points: bool) -> dict[str, Any]:
    shown = {"id": _id(one.part, points=points), "part": _part(one.part)}
    return _present(shown | {"section": one.section, "text": one.text})


def _part(document: Document) -> str | None:
    return rendering.part(document).removeprefix(" part ") or None


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def document(one: Document, *, points: bool = False) -> dict[str, Any]:
    """One document as structured content; `points`: under the id of its point, for programs."""
    values = {
        "id": _id(one, points=points),
        "collection": one.collection,
        "document": document_id(one),  # not a hash of what may be hidden from the caller
        "text": one.text,
        "title": one.heading,
        "part": _part(one),
        "metadata": dict(one.metadata) if one.metadata else None,
        "tags": list(one.tags) or None,
        "source": one.source,
        "stored_by": _writer(one),
        "created_at": one.created_at,
        "revision": one.revision,
        "superseded_by": heir_id(one),
    }
    return _present(values)


def stored(done: Stored) -> dict[str, Any]:
    """The result of storing as structured content."""
    values: dict[str, Any] = {
        "collection": done.collection,
        "id": own_id(done.collection, done.ids[0], done.document),
        "parts": len(done.ids),
    }
    if done.before.id:
        values["before"] = done.before.id
    if done.near:
        known, cosine = done.near
        values["near"] = {"id": document_id(known), "relevance": round(cosine, 3)}
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
        "stored_by": list(info.writers) or None,
        "note": info.note,
        "sync": sync,
        "dead_letters": dict(islice(dead.items(), MAX_LETTERS)) if dead else None,
    }
    return _present(values)
