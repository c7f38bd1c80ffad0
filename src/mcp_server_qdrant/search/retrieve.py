"""Candidates, their exact leg scores and their payloads, of all collections in parallel.

A collection that fails becomes a status; the others answer.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from mcp_server_qdrant.core.datatypes import (
    Document,
    Hit,
    LegQuery,
    Legs,
    Payload,
    PointId,
    QueryVectors,
    Scored,
    State,
    Status,
    Target,
    Terms,
)
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.models import Dense
from mcp_server_qdrant.search.engine import SearchEngine, ask, failed
from mcp_server_qdrant.search.query import Query, Retrieved
from mcp_server_qdrant.search.ranking import LONGEST, candidates, successor_of
from mcp_server_qdrant.search.texts import Texts

AT_ONCE = 64  # requests of one search

Place = tuple[str, PointId]  # collection, id
Payloads = tuple[dict[Place, Payload], list[Status]]  # and the collections that failed


async def retrieve(engine: SearchEngine, query: Query, texts: Texts) -> Retrieved:
    """The best candidates of all targets with their texts; a target that fails is a status."""
    found, statuses = await candidates_of(engine, query)
    scored = candidates(found.values(), query, texts)
    hits, late = await hydrate(engine, found, scored[: query.pool], query.seconds())
    hits, replaced = current(hits, texts.document)
    hits, failing = await with_successors(engine, found, hits, texts, query.seconds())
    cut = len(scored) > query.pool
    return Retrieved(hits, found, statuses, [*late, *failing], replaced, cut)


async def candidates_of(
    engine: SearchEngine, query: Query
) -> tuple[dict[str, Scored], dict[str, Status]]:
    """The candidates of each target, by its name, and its status; all are searched at once."""
    vectors, terms = query.vectors, query.terms
    queries = {target.collection: _query(target, query) for target in query.targets}
    askable = [t for t in query.targets if (q := queries[t.collection]).dense or q.sparse]
    statuses = {
        t.collection: _status(t, queries[t.collection], vectors, terms) for t in query.targets
    }
    gate = asyncio.Semaphore(AT_ONCE)

    async def search(group: Sequence[Target]) -> Sequence[Legs | QdrantMcpError]:
        async with gate:
            return await engine.search(
                [(target, queries[target.collection]) for target in group],
                depth=query.depth,
                condition=query.condition,
                period=query.period,
            )

    found: dict[str, Scored] = {}
    answers = await ask(engine, askable, search, query.seconds())
    for target, answer in answers:
        if isinstance(answer, QdrantMcpError):
            statuses[target.collection] = failed(target.collection, answer)
            continue
        found[target.collection] = _found(target, queries[target.collection], terms, answer)
        *_, damage = answer
        if damage:
            statuses[target.collection] = _damaged(statuses[target.collection], damage)
    return found, statuses


def _query(target: Target, query: Query) -> LegQuery:
    named = query.tags.get(target.collection)
    dense = query.vectors.dense.get(target.dense.model) if target.dense else None
    return LegQuery(
        dense=None if _misfit(target, dense) else dense,
        sparse=query.terms.sparse.get(target.collection),
        tags=named.values if named else (),
    )


def _misfit(target: Target, dense: Dense | None) -> str | None:
    """The reason why this vector does not fit those of the collection; None where it does."""
    leg = target.dense
    if leg is None or dense is None or len(dense) == leg.size:
        return None
    return (
        f"its dense vectors do not fit the model: {leg.vector or 'unnamed'} has {leg.size} "
        f"dimensions, {leg.model} makes {len(dense)}"
    )


def _found(target: Target, query: LegQuery, terms: Terms, legs: Legs) -> Scored:
    candidates, dense, sparse, _ = legs
    return Scored(
        target=target,
        candidates=candidates,
        dense=dense,
        sparse=sparse,
        dense_searched=query.dense is not None,
        # A collection that has the leg but none of the words was searched, and scored 0.
        sparse_searched=target.sparse is not None
        and bool(terms.idf)
        and target.collection not in terms.failures,
    )


def _damaged(status: Status, damage: str) -> Status:
    """The status of a collection of which a part is lost: the other part was searched."""
    reason = f"{damage} {status.reason}" if status.reason else damage
    return replace(status, state="degraded", reason=reason)


def _status(target: Target, query: LegQuery, vectors: QueryVectors, terms: Terms) -> Status:
    """The status of a collection before it is searched: which legs it lacks, and why."""
    no_vector = vectors.failures.get(target.dense.model) if target.dense else None
    if target.dense and not no_vector:
        no_vector = _misfit(target, vectors.dense.get(target.dense.model))
    no_terms = terms.failures.get(target.collection)
    state: State = "ok"
    if target.dense is None and target.sparse is None:
        state = "failed" if target.failed else "skipped"
    elif no_terms:
        state = "failed" if query.dense is None else "degraded"
    elif no_vector:
        state = "degraded" if target.sparse else "skipped"
        no_vector = f"keywords only: {no_vector}" if target.sparse else no_vector
    return Status(target.collection, state, no_terms or no_vector or target.note)


async def hydrate(
    engine: SearchEngine,
    found: Mapping[str, Scored],
    hits: Sequence[Hit],
    deadline: float,
) -> tuple[list[Hit], list[Status]]:
    """The hits with their payloads, in `deadline` seconds, and the collections that failed.

    Hits of these are left out. An engine may have given the payloads with the candidates.
    """
    wanted: dict[str, list[PointId]] = {}
    for hit in hits:
        if hit.payload is None:
            wanted.setdefault(hit.collection, []).append(hit.id)
    known, late = await payloads_of(engine, found, wanted, deadline)
    read = [
        hit
        if hit.payload is not None
        else hit._replace(payload=known.get((hit.collection, hit.id)))
        for hit in hits
    ]
    return [hit for hit in read if hit.payload is not None], late


async def payloads_of(
    engine: SearchEngine,
    found: Mapping[str, Scored],
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


async def completed(
    engine: SearchEngine, hits: Sequence[Hit], found: Retrieved, query: Query, texts: Texts
) -> list[Hit]:
    """The hits; those of which all is shown with their whole payload, if it can be had."""
    if not engine.partial:
        return list(hits)
    wanted: dict[str, list[PointId]] = {}
    for hit in hits[: query.limit]:
        if query.request.mode == "full" or texts.document(hit).textless:
            wanted.setdefault(hit.collection, []).append(hit.id)
    whole, _ = await payloads_of(engine, found.found, wanted, query.seconds())
    return [hit._replace(payload=whole.get((hit.collection, hit.id), hit.payload)) for hit in hits]


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


async def with_successors(
    engine: SearchEngine,
    found: Mapping[str, Scored],
    hits: Sequence[Hit],
    texts: Texts,
    deadline: float,
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
