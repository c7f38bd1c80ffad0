"""Hits below a threshold are not shown.

A caller who gave no threshold is spared the tail, which has less than a quarter of the best
relevance. A hit in the tail stays where a reranker places it near its best.
"""

from collections.abc import Sequence

from mcp_server_qdrant.core.datatypes import Hit

TAIL = 0.25


def cut(hits: Sequence[Hit], threshold: float | None) -> list[Hit]:
    """The hits that may be shown, in their order; `threshold` as the caller gave it.

    Relevance equal to the threshold is enough.
    """
    if threshold is not None:
        return [hit for hit in hits if hit.relevance >= threshold]
    least = TAIL * max((hit.relevance for hit in hits), default=0.0)
    near = TAIL * max((hit.reranked or 0.0 for hit in hits), default=0.0) if least > 0 else 0.0
    return [hit for hit in hits if hit.relevance >= least or (hit.reranked or 0.0) >= near > 0]
