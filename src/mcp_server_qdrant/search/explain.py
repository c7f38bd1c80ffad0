"""What the ranking used, gathered for `explain`."""

from collections.abc import Iterable, Mapping

from mcp_server_qdrant.core.datatypes import Found, PointId

Ranks = tuple[tuple[str, int], ...]


def ranks(found: Iterable[Found]) -> dict[tuple[str, PointId], Ranks]:
    """Each candidate's place, from 1, on each leg of its collection; equal scores share one.

    A candidate without that vector, or without any word of the query, has none.
    """
    placed: dict[tuple[str, PointId], Ranks] = {}
    for one in found:
        for leg, scores in (("meaning", one.dense), ("words", one.sparse)):
            for point, place in _places(scores).items():
                key = one.target.collection, point
                placed[key] = (*placed.get(key, ()), (leg, place))
    return placed


def _places(scores: Mapping[PointId, float]) -> dict[PointId, int]:
    ordered = sorted(scores.values(), reverse=True)
    first = {score: place for place, score in reversed(list(enumerate(ordered, 1)))}
    return {point: first[score] for point, score in scores.items() if score > 0}
