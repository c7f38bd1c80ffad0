"""The texts that supersede others, read where a search did not find them itself."""

from collections.abc import Mapping, Sequence

from mcp_server_qdrant.core.datatypes import Found, Hit, PointId, Status
from mcp_server_qdrant.search.engine import Engine
from mcp_server_qdrant.search.payloads import payloads_of
from mcp_server_qdrant.search.steps.retire import LONGEST, successor_of
from mcp_server_qdrant.search.texts import Texts


async def with_successors(
    engine: Engine, found: Mapping[str, Found], hits: Sequence[Hit], texts: Texts, deadline: float
) -> tuple[list[Hit], list[Status]]:
    """The hits, those that supersede some of them too, and the collections that failed."""
    known = {(hit.collection, hit.id) for hit in hits}
    every, newest, late = list(hits), list(hits), list[Status]()
    for _ in range(LONGEST):
        wanted: dict[str, set[PointId]] = {}
        for hit in newest:
            if new := successor_of(hit):
                place, first = new[0], texts.first_of(*new)
                if place in found and (place, first) not in known:
                    known.add((place, first))
                    wanted.setdefault(place, set()).add(first)
        if not wanted:
            break
        payloads, failed = await payloads_of(engine, found, wanted, deadline)
        newest = [
            Hit(name, point, 0.0, 0.0, 0.0, None, None, payload)
            for (name, point), payload in payloads.items()
        ]
        every += newest
        late += failed
    return every, late
