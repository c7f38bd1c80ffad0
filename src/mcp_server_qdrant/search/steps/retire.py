"""A text that another one supersedes gives its place to that one, whatever its relevance.

The superseded text itself ranks behind all others; its relevance stays.
"""

from collections.abc import Callable, Sequence

from mcp_server_qdrant.core.datatypes import (
    SUPERSEDED_IN,
    SUPERSEDED_KEY,
    Hit,
    PointId,
    by_score,
)
from mcp_server_qdrant.core.notation import own_id
from mcp_server_qdrant.search.steps.group import document_id

FACTOR = 0.01
LONGEST = 5  # versions that superseded one another

Key = tuple[str, PointId]


def retire(hits: Sequence[Hit], first_of: Callable[[str, str], PointId]) -> list[Hit]:
    """The hits, one per text, best first; successors in the place of what they supersede.

    `first_of` gives the first part of the text of an id in a collection.
    """
    if not any(map(successor_of, hits)):
        return list(hits)
    current = {_key(hit, first_of): hit for hit in hits if not successor_of(hit)}
    following = {
        _key(hit, first_of): (new[0], first_of(*new)) for hit in hits if (new := successor_of(hit))
    }
    ranked: list[Hit] = []
    for hit in hits:
        if not successor_of(hit):
            continue
        ranked.append(hit.rescored("superseded", FACTOR))
        key = _key(hit, first_of)
        for _ in range(LONGEST):
            key = following.get(key, key)
        heir = current.get(key)
        if heir is not None and heir.supersedes is None:
            old = own_id(*_key(hit, first_of), document_id(hit.payload))
            heir = heir._replace(supersedes=old)
            if hit.score > heir.score:
                relevance = max(hit.relevance, heir.relevance)
                heir = heir._replace(score=hit.score, relevance=relevance)
            current[key] = heir
    return by_score([*current.values(), *ranked])


def successor_of(hit: Hit) -> tuple[str, str] | None:
    """The collection and the id of the text that supersedes this one."""
    payload = hit.payload or {}
    value, place = payload.get(SUPERSEDED_KEY), payload.get(SUPERSEDED_IN)
    if not value or not isinstance(value, str):
        return None
    return (place if isinstance(place, str) else hit.collection), value


def _key(hit: Hit, first_of: Callable[[str, str], PointId]) -> Key:
    document = document_id(hit.payload)
    return hit.collection, first_of(hit.collection, document) if document else hit.id
