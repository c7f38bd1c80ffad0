"""Chunks of one document -> one hit, its best."""

from collections.abc import Iterable

from mcp_server_qdrant.core.datatypes import Hit, Payload, PointId


def group(hits: Iterable[Hit]) -> list[Hit]:
    """The first hit of each document, in the order given, with the others as its parts."""
    documents: dict[tuple[str, PointId], list[Hit]] = {}
    for hit in hits:
        key = (hit.collection, document_id(hit.payload) or hit.id)
        documents.setdefault(key, []).append(hit)
    return [
        first._replace(parts=tuple(others)) if others else first
        for first, *others in documents.values()
    ]


def document_id(payload: Payload | None) -> str | None:
    """The document that a chunk is linked to; None for points that other tools wrote."""
    doc = (payload or {}).get("doc")
    value = doc.get("id") if isinstance(doc, dict) else None
    return value if isinstance(value, str) else None
