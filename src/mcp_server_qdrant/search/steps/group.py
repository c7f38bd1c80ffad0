"""Chunks of one document -> one hit, its best."""

from collections.abc import Iterable

from mcp_server_qdrant.core.datatypes import Hit, Payload, PointId


def group(hits: Iterable[Hit]) -> list[Hit]:
    """The first hit of each document, in the order given."""
    seen: set[tuple[str, PointId]] = set()
    kept = []
    for hit in hits:
        key = (hit.collection, document_id(hit.payload) or hit.id)
        if key not in seen:
            seen.add(key)
            kept.append(hit)
    return kept


def document_id(payload: Payload | None) -> str | None:
    """The document that a chunk is linked to; None for points that other tools wrote."""
    doc = (payload or {}).get("doc")
    value = doc.get("id") if isinstance(doc, dict) else None
    return value if isinstance(value, str) else None
