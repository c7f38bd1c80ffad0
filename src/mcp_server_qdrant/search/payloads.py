"""The payloads of hits: fetched, of the version that their text has now, and read in full."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from mcp_server_qdrant.core.datatypes import (
    Document,
    Found,
    Hit,
    Payload,
    PointId,
    Status,
    Target,
)
from mcp_server_qdrant.core.deadline import within
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.notation import PARTIAL
from mcp_server_qdrant.search.engine import Engine, ask, failed

Place = tuple[str, PointId]  # collection, id
Payloads = tuple[dict[Place, Payload], list[Status]]  # and the collections that failed


async def hydrate(
    engine: Engine, found: Mapping[str, Found], hits: Sequence[Hit], deadline: float
) -> tuple[list[Hit], list[Status]]:
    """The hits with their payloads, in `deadline` seconds, and the collections that failed.

    Hits of these are left out. An engine may have given the payloads with the candidates.
    """
    wanted: dict[str, list[PointId]] = {}
    for hit in hits:
        if hit.payload is None:
            wanted.setdefault(hit.collection, []).append(hit.id)
    if not wanted:
        return list(hits), []
    known, late = await payloads_of(engine, found, wanted, deadline)
    read = (
        hit
        if hit.payload is not None
        else hit._replace(payload=known.get((hit.collection, hit.id)))
        for hit in hits
    )
    return [hit for hit in read if hit.payload is not None], late


async def payloads_of(
    engine: Engine,
    found: Mapping[str, Found],
    wanted: Mapping[str, Iterable[PointId]],
    deadline: float,
) -> Payloads:
    """The payloads of points by collection and id, and the collections that failed."""

    async def fetch(
        group: Sequence[Target],
    ) -> Sequence[Mapping[PointId, Payload] | QdrantMcpError]:
        return await engine.payloads([(t, list(wanted[t.collection])) for t in group])

    late: list[Status] = []
    payloads: dict[Place, Payload] = {}
    targets = [found[name].target for name in wanted]
    for target, answer in await ask(engine, targets, fetch, deadline):
        name = target.collection
        if isinstance(answer, QdrantMcpError):
            late.append(failed(name, answer))
        else:
            payloads |= {(name, point): payload for point, payload in answer.items()}
    return payloads, late


def current(
    hits: Sequence[Hit], document: Callable[[Hit], Document]
) -> tuple[list[Hit], list[Document]]:
    """The hits without parts of texts that were replaced, or are not completely written yet.

    Second those parts. The engine has compared each with the first part of its text.
    """
    kept, replaced = [], []
    for hit in hits:
        doc = (hit.payload or {}).get("doc")
        if isinstance(doc, dict) and doc.get("chunk") and doc.get("current") is False:
            replaced.append(document(hit))
        else:
            kept.append(hit)
    return kept, replaced


async def completed(
    engine: Engine,
    found: Mapping[str, Found],
    hits: Sequence[Hit],
    needy: Sequence[Hit],
    deadline: float,
) -> list[Hit]:
    """The hits; needy ones of which a part was read have their whole payload, if it can be had."""
    wanted: dict[str, list[PointId]] = {}
    for hit in needy:
        if PARTIAL in (hit.payload or {}):
            wanted.setdefault(hit.collection, []).append(hit.id)
    payloads: dict[Place, Payload] = {}
    with within(deadline), suppress(QdrantMcpError):
        for name, ids in wanted.items():
            whole = await engine.whole(found[name].target, ids)
            payloads |= {(name, point): payload for point, payload in whole.items()}
    if not payloads:
        return list(hits)
    return [
        hit._replace(payload=payloads.get((hit.collection, hit.id), hit.payload)) for hit in hits
    ]
