"""Candidates, their exact leg scores and their payloads, of all collections in parallel.

A collection that fails becomes a status; the others answer.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Any, TypeVar

from mcp_server_qdrant.core.context import recorder
from mcp_server_qdrant.core.datatypes import (
    Document,
    LegQuery,
    Payload,
    PointId,
    Scored,
    Sparse,
    State,
    Status,
    Target,
)
from mcp_server_qdrant.core.errors import EngineTimeout, QdrantMcpError
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.search.ranking import LONGEST, candidates, successor_of
from mcp_server_qdrant.search.relevance import Hit, by_score
from mcp_server_qdrant.search.understand import Query

NO_TERMS = Sparse((), ())

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The best candidates with their payloads, and what each collection gave.

    `statuses` has two of a collection that failed while successors were fetched. `replaced` are the
    parts that were left out, as their text was replaced. `cut`: there were more candidates.
    """

    hits: Sequence[Hit]
    found: Sequence[Scored]
    statuses: Sequence[Status]
    replaced: Sequence[Document] = ()
    cut: bool = False

    def updated(self, deeper: "Retrieved") -> "Retrieved":
        """What a deeper look found; collections that failed in it keep what they gave before."""
        answered = {target.collection for one in deeper.found for target in one.targets}
        kept = [hit for hit in self.hits if hit.collection not in answered]
        before = [one for one in self.statuses if one.collection not in answered]
        now = [one for one in deeper.statuses if one.collection in answered]
        hits, found = by_score([*deeper.hits, *kept]), [*self.found, *deeper.found]
        return replace(deeper, hits=hits, found=found, statuses=[*before, *now])


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetches what points say; `to_document` makes a document of collection, id and payload."""

    queries: Queries
    to_document: Callable[[str, PointId, Payload], Document]

    async def hits(self, hits: Sequence[Hit], seconds: float) -> tuple[list[Hit], list[Status]]:
        """The hits with their whole payloads and documents, and the collections that failed.

        Hits of these are left out.
        """
        wanted: dict[str, list[PointId]] = {}
        for hit in hits:
            wanted.setdefault(hit.collection, []).append(hit.id)
        answers = await self.queries.payloads([*wanted.items()], seconds)
        known, late = told_apart(wanted, answers)
        there = ((hit, known.get(hit.collection, {}).get(hit.id)) for hit in hits)
        return [self.read(hit, payload) for hit, payload in there if payload is not None], late

    def read(self, hit: Hit, payload: Payload) -> Hit:
        """The hit with a payload, and the document that it is."""
        reading = cache(partial(self.to_document, hit.collection, hit.id, payload))
        return hit._replace(payload=payload, reading=reading)


async def retrieve(fetch: Fetch, query: Query) -> Retrieved:
    """The best candidates of all targets with their texts; a target that fails is a status."""
    with recorder().phase("retrieve"):
        found, statuses = await candidates_of(fetch.queries, query)
        scored = candidates(found, query)
        hits = [fetch.read(hit, hit.payload or {}) for hit in scored[: query.pool]]
        replaced = [
            fetch.to_document(one.collection, one.id, one.payload)
            for part in found
            for one in part.candidates
            if one.current is False
        ]
        names = frozenset(target.collection for target in query.targets)
        hits, failing = await with_successors(fetch, hits, names, query.seconds())
    cut = len(scored) > query.pool
    return Retrieved(hits, found, [*statuses.values(), *failing], replaced, cut)


async def candidates_of(queries: Queries, query: Query) -> tuple[list[Scored], dict[str, Status]]:
    """The candidates of the targets, and the status of each; all are searched at once."""
    legs: list[tuple[Target, LegQuery]] = []
    statuses: dict[str, Status] = {}
    alike: dict[Any, tuple[LegQuery, State, str | None]] = {}
    sparse, tags, failures = query.terms.sparse, query.tags, query.terms.failures
    for target in query.targets:
        name = target.collection
        own = id(sparse.get(name)), id(tags.get(name)), failures.get(name)
        key = *own, target.dense, target.sparse, target.failed, target.note
        if key not in alike:
            alike[key] = _leg_query(target, query)
        asked, state, reason = alike[key]
        statuses[name] = Status(name, state, reason)
        if asked.dense or (asked.sparse and asked.sparse.indices):
            legs.append((target, asked))
    found, failed = await queries.search(
        legs,
        depth=query.depth,
        condition=query.condition,
        period=query.period,
        seconds=query.seconds(),
    )
    statuses |= {name: _fault(name, error) for name, error in failed.items()}
    for name, damage in chain.from_iterable(part.damage.items() for part in found):
        reasons = filter(None, (damage, statuses[name].reason))  # the rest was searched
        statuses[name] = Status(name, "degraded", " ".join(reasons))
    return found, statuses


def _fault(name: str, error: QdrantMcpError) -> Status:
    state: State = "timeout" if isinstance(error, EngineTimeout) else "failed"
    return Status(name, state, str(error))


def told_apart(
    names: Iterable[str], answers: Iterable[T | QdrantMcpError]
) -> tuple[dict[str, T], list[Status]]:
    """The answers by collection, and the statuses of those that failed."""
    found: dict[str, T] = {}
    late: list[Status] = []
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, QdrantMcpError):
            late.append(_fault(name, answer))
        else:
            found[name] = answer
    return found, late


def _leg_query(target: Target, query: Query) -> tuple[LegQuery, State, str | None]:
    """What a collection is asked, how it fares if it answers, and why: which legs it lacks."""
    name, leg = target.collection, target.dense
    vector, no_vector = None, None
    if leg is not None:
        vector = query.vectors.dense.get(leg.model)
        no_vector = query.vectors.failures.get(leg.model)
        if vector is not None and len(vector) != leg.size:
            no_vector = (
                f"its dense vectors do not fit the model: {leg.vector or 'unnamed'} has {leg.size} "
                f"dimensions, {leg.model} makes {len(vector)}"
            )
            vector = None
    no_terms = query.terms.failures.get(name)
    state: State = "ok"
    if leg is None and target.sparse is None:
        state = "failed" if target.failed else "skipped"
    elif no_terms:
        state = "failed" if vector is None else "degraded"
    elif no_vector:
        state = "degraded" if target.sparse else "skipped"
        no_vector = f"keywords only: {no_vector}" if target.sparse else no_vector
    named = query.tags.get(name)
    words = query.terms.sparse.get(name)
    if words is None and target.sparse and query.terms.idf and not no_terms:
        words = NO_TERMS
    legs = LegQuery(vector, words, named.values if named else ())
    return legs, state, no_terms or no_vector or target.note


async def completed(fetch: Fetch, hits: Sequence[Hit], query: Query) -> list[Hit]:
    """The hits; those of which all is shown with their whole payload, if it can be had."""
    if not fetch.queries.partial:
        return list(hits)
    full = query.request.mode == "full"
    wanted = [hit for hit in hits[: query.limit] if full or hit.document.textless]
    whole, _ = await fetch.hits(wanted, query.seconds())
    known = {(hit.collection, hit.id): hit for hit in whole}
    return [known.get((hit.collection, hit.id), hit) for hit in hits]


async def with_successors(
    fetch: Fetch, hits: Sequence[Hit], names: Container[str], seconds: float
) -> tuple[list[Hit], list[Status]]:
    """The hits, and those of the named collections that supersede some; what failed."""
    known = {(hit.collection, hit.id) for hit in hits}
    every, newest, late = list(hits), list(hits), list[Status]()
    for _ in range(LONGEST):
        wanted: list[Hit] = []
        for hit in newest:
            if not (new := successor_of(hit)) or not (first := hit.document.heir):
                continue
            if new[0] in names and (new[0], first) not in known:
                known.add((new[0], first))
                wanted.append(Hit(new[0], first, 0.0, 0.0, 0.0, None, None))
        if not wanted:
            break
        newest, failing = await fetch.hits(wanted, seconds)
        every += newest
        late += failing
    return every, late
