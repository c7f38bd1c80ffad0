"""Candidates and their exact leg scores, per collection, in parallel; partial failures kept."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from mcp_server_qdrant.core.datatypes import (
    Document,
    Found,
    Hit,
    LegQuery,
    Legs,
    QueryVectors,
    State,
    Status,
    Target,
    Terms,
)
from mcp_server_qdrant.core.errors import EncoderUnavailable, QdrantMcpError
from mcp_server_qdrant.core.models import Dense, Inferred
from mcp_server_qdrant.search.engine import Engine, ask, failed
from mcp_server_qdrant.search.payloads import current, hydrate
from mcp_server_qdrant.search.query import Query, Retrieved
from mcp_server_qdrant.search.ranking import candidates
from mcp_server_qdrant.search.successors import with_successors
from mcp_server_qdrant.search.texts import Texts

AT_ONCE = 64  # requests of one search
TWICE = 2  # as many candidates, where points were replaced or deleted meanwhile
RACES = 8  # versions of a text that may hide the present one: drafts of killed writers too


async def retrieve(engine: Engine, query: Query, texts: Texts) -> Retrieved:
    """The best candidates of all targets with their texts; a target that fails is a status.

    Where points were deleted between the trips, or only old versions of a text were found, it asks
    again, deeper and without those versions.
    """
    replaced: list[Document] = []
    for _ in range(RACES):
        found, statuses = await candidates_of(engine, query)
        scored = candidates(found.values(), query, texts)
        best = scored[: query.pool]
        hits, late = await hydrate(engine, found, best, query.seconds())
        deleted = len(hits) < len(best) and not late
        hits, old = current(hits, texts.document)
        replaced += old
        if not (deleted or _hidden(old, hits, texts)) or query.left() <= 0:
            break
        versions = {one.version for one in replaced if one.version}
        condition = engine.without(query.condition, versions)
        query = replace(query.deeper(TWICE), condition=condition)
    hits, failing = await with_successors(engine, found, hits, texts, query.seconds())
    cut = len(scored) > query.pool
    return Retrieved(hits, found, statuses, [*late, *failing], replaced, cut)


def _hidden(old: Sequence[Document], hits: Sequence[Hit], texts: Texts) -> bool:
    """True where of a text only parts of replaced versions were found."""
    if not old:
        return False
    kept = {(hit.collection, texts.document(hit).document) for hit in hits}
    return not kept.issuperset((one.collection, one.document) for one in old)


async def candidates_of(engine: Engine, query: Query) -> tuple[dict[str, Found], dict[str, Status]]:
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

    found: dict[str, Found] = {}
    answers = await ask(engine, askable, search, query.seconds())
    keywords = _without_inference(answers, queries, statuses)
    if keywords:
        answers += await ask(engine, keywords, search, query.seconds())
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
        weights=query.fusion(target.collection),
    )


def _misfit(target: Target, dense: Dense | None) -> str | None:
    """The reason why this vector does not fit those of the collection; None where it does."""
    leg = target.dense
    if leg is None or dense is None or isinstance(dense, Inferred) or len(dense) == leg.size:
        return None
    return (
        f"its dense vectors do not fit the model: {leg.vector or 'unnamed'} has {leg.size} "
        f"dimensions, {leg.model} makes {len(dense)}"
    )


def _without_inference(
    answers: list[tuple[Target, Legs | QdrantMcpError]],
    queries: dict[str, LegQuery],
    statuses: dict[str, Status],
) -> list[Target]:
    """The targets whose server could not encode the query, to be asked again by keyword alone.

    They leave `answers`; the reason becomes their status.
    """
    again = []
    for target, answer in list(answers):
        query = queries[target.collection]
        if isinstance(answer, EncoderUnavailable) and query.sparse is not None:
            answers.remove((target, answer))
            queries[target.collection] = replace(query, dense=None)
            statuses[target.collection] = Status(
                target.collection, "degraded", f"keywords only: {answer}"
            )
            again.append(target)
    return again


def _found(target: Target, query: LegQuery, terms: Terms, legs: Legs) -> Found:
    candidates, dense, sparse, _ = legs
    return Found(
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
