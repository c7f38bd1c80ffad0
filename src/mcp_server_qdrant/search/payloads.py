"""The payloads of hits: fetched, of the version that their text has now, and read in full."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
    engine: Engine,
    found: Mapping[str, Found],
    hits: Sequence[Hit],
    known: dict[Place, Payload],
    deadline: float,
) -> tuple[list[Hit], list[Status]]:
    """The hits with their payloads, in `deadline` seconds, and the collections that failed.

    Hits of these are left out. Payloads that are `known` are not fetched; others are added.
    """
    missing: dict[str, list[PointId]] = {}
    for hit in hits:
        if hit.payload is not None:
            known[hit.collection, hit.id] = hit.payload
        elif (hit.collection, hit.id) not in known:
            missing.setdefault(hit.collection, []).append(hit.id)
    late: list[Status] = []
    if missing:
        fetched, late = await payloads_of(engine, found, missing, deadline)
        known |= fetched
    kept = [
        hit._replace(payload=payload)
        for hit in hits
        if (payload := known.get((hit.collection, hit.id))) is not None
    ]
    return kept, late


async def payloads_of(
    engine: Engine,
    found: Mapping[str, Found],
    wanted: Mapping[str, Iterable[PointId]],
    deadline: float,
    fields: Sequence[str] | None = None,
) -> Payloads:
    """The payloads of points by collection and id, and the collections that failed."""

    async def fetch(
        group: Sequence[Target],
    ) -> Sequence[Mapping[PointId, Payload] | QdrantMcpError]:
        return await engine.payloads([(t, list(wanted[t.collection])) for t in group], fields)

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


async def current(
    hits: Sequence[Hit],
    document: Callable[[Hit], Document],
    fetch: Callable[[Mapping[str, set[PointId]]], Awaitable[Payloads]],
) -> tuple[list[Hit], list[Document], list[Status]]:
    """The hits without parts of texts that were replaced, or are not completely written yet.

    Second those parts, third the collections that failed now, whose further parts are left out. The
    first part of a text has its version; an engine may have compared them already, else `fetch`
    gives the payloads of the first parts.
    """
    replaced: list[Document] = []
    unknown: list[tuple[Hit, Document, PointId]] = []
    left_out: set[Place] = set()
    for hit in hits:
        verdict = _compared(hit)
        if verdict is False:
            replaced.append(document(hit))
            left_out.add((hit.collection, hit.id))
        elif verdict is None and (part := document(hit)).head is not None:
            unknown.append((hit, part, part.head))
    wanted: dict[str, set[PointId]] = {}
    for hit, _, head in unknown:
        wanted.setdefault(hit.collection, set()).add(head)
    firsts, late = await fetch(wanted) if wanted else ({}, [])
    silent = {status.collection for status in late}
    for hit, part, head in unknown:
        first = firsts.get((hit.collection, head))
        if first is None and hit.collection in silent:
            left_out.add((hit.collection, hit.id))
        elif not part.current(document(hit._replace(id=head, payload=first)) if first else None):
            replaced.append(part)
            left_out.add((hit.collection, hit.id))
    return [hit for hit in hits if (hit.collection, hit.id) not in left_out], replaced, late


def _compared(hit: Hit) -> bool | None:
    """True for a hit of the present version; None where the engine has not compared them."""
    doc = (hit.payload or {}).get("doc")
    if not isinstance(doc, dict) or not doc.get("chunk"):
        return True
    verdict = doc.get("current")
    return verdict if isinstance(verdict, bool) else None


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
