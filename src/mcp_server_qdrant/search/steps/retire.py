"""Texts that another one supersedes rank behind all others; their relevance stays."""

from collections.abc import Sequence

from mcp_server_qdrant.core.datatypes import SUPERSEDED_KEY, Hit, by_score

FACTOR = 0.01


def retire(hits: Sequence[Hit]) -> list[Hit]:
    """The hits, those with the mark behind the others."""
    if not any(map(_marked, hits)):
        return list(hits)
    return by_score(hit.rescored("superseded", FACTOR) if _marked(hit) else hit for hit in hits)


def _marked(hit: Hit) -> bool:
    return bool((hit.payload or {}).get(SUPERSEDED_KEY))
