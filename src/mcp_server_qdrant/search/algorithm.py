"""The legs of a search, and the weight of each."""

from collections.abc import Sequence
from dataclasses import replace

from mcp_server_qdrant.core.datatypes import Algorithm, Target
from mcp_server_qdrant.core.errors import RequestError

# A weight of 0 would divide by 0 in the fusion's formula.
LEAST_WEIGHT = 0.01


def narrowed(targets: Sequence[Target], algorithm: Algorithm) -> list[Target]:
    """The targets with the legs that the algorithm searches; without any, with the reason."""
    return [_narrowed(target, algorithm) for target in targets]


def _narrowed(target: Target, algorithm: Algorithm) -> Target:
    if algorithm == "semantic" and target.sparse is not None:
        note = target.note or "semantic search needs a dense vector, and it has none"
        return replace(target, sparse=None, note=None if target.dense else note)
    if algorithm in ("keyword", "fuzzy") and target.dense is not None:
        note = f"{algorithm} search needs a bm25 vector, and it has none"
        return replace(target, dense=None, note=None if target.sparse else note)
    return target


def dense_share(semantic: float | None, keyword: float | None) -> float | None:
    """The dense leg's share of the relevance that the caller's weights ask for.

    Weights are from 0 to 1, their sum is at most 1 and one of them is above 0; one that is not
    given is what the other leaves. None where neither is given. Raises RequestError.
    """
    given = [weight for weight in (semantic, keyword) if weight is not None]
    if sum(given) > 1 + 1e-9:
        raise RequestError("Weights must not add up to more than 1.")
    if semantic is None and keyword is None:
        return None
    remainder = max(1 - sum(given), 0.0)
    meaning = remainder if semantic is None else semantic
    words = remainder if keyword is None else keyword
    if meaning + words <= 0:
        raise RequestError("One of the weights must be above 0.")
    return meaning / (meaning + words)


def fusion_weights(share: float | None) -> tuple[float, float] | None:
    """The legs' weights (dense, sparse) in the fusion, together 2; None where none were asked for.

    Half and half are 1 and 1, which is the unweighted fusion.
    """
    if share is None:
        return None
    return max(2 * share, LEAST_WEIGHT), max(2 * (1 - share), LEAST_WEIGHT)
