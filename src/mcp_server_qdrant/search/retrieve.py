"""Candidates and their exact leg scores, per collection, in parallel; partial failures kept."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from mcp_server_qdrant.core.datatypes import (
    Candidate,
    Found,
    Hit,
    LegQuery,
    Payload,
    PointId,
    QueryVectors,
    State,
    Status,
    TagMatch,
    Target,
    Terms,
)
from mcp_server_qdrant.core.deadline import within
from mcp_server_qdrant.core.errors import EncoderUnavailable, EngineTimeout, QdrantMcpError
from mcp_server_qdrant.core.models import Dense, Inferred
from mcp_server_qdrant.core.notation import PARTIAL

# Beyond this many collections their payloads are fetched for the best hits only: one trip more
# costs less than 30 payloads from each.
PAYLOADS_WITH_CANDIDATES = 4

DEPTH = 30
SPARE = 10
FEW = 8
SHALLOW = 8
DEEPER = 4
LAST_SECONDS = 1.0

_LATE = EngineTimeout("It did not answer in time.")

T = TypeVar("T")


# Fused candidates, best first, their exact (cosine, BM25) scores by id, and in a sentence what of
# the collection is lost.
Legs = tuple[Sequence[Candidate], Mapping[PointId, float], Mapping[PointId, float], str | None]


class Engine(Protocol):
    """What is asked of several collections in one trip.

    All raise our errors; one in an answer concerns that collection only.
    """

    def trips(self, targets: Sequence[Target]) -> Sequence[Sequence[Target]]:
        """The targets, parted into those that are asked together."""

    async def search(
        self,
        asked: Sequence[tuple[Target, LegQuery]],
        *,
        depth: int,
        condition: Any,
        with_payload: bool,
    ) -> Sequence[Legs | QdrantMcpError]:
        """For each target its candidates."""

    async def payloads(
        self,
        asked: Sequence[tuple[Target, Sequence[PointId]]],
        fields: Sequence[str] | None = None,
    ) -> Sequence[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each target the payloads of the points by id, or these fields of them.

        Of heavy ones a part, which is marked (`PARTIAL`).
        """

    async def whole(self, target: Target, ids: Sequence[PointId]) -> Mapping[PointId, Payload]:
        """All of the payloads. Raises our errors."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a search goes about its collections.

    `depth` candidates of each collection, `pool` of the best of all with their payloads;
    `deadline` in seconds for all collections together, `concurrency` of them at once. `tags` are
    those that the query names, by collection; `weights` (dense, sparse) those of the fusion.
    """

    depth: int
    pool: int
    deadline: float
    concurrency: int
    condition: Any = None
    with_payload: bool = True
    tags: Mapping[str, TagMatch] = field(default_factory=dict)
    weights: tuple[float, float] | None = None

    @classmethod
    def of(
        cls, collections: int, limit: int, deadline: float, concurrency: int, condition: Any
    ) -> "Plan":
        """The plan for a search over so many collections.

        Over many collections few candidates of each are enough to begin with: those that turn out
        to have more to give are asked again (`saturated`).
        """
        if collections <= FEW:
            depth = max(DEPTH, limit + SPARE)
        else:
            depth = max(SHALLOW, -(-DEPTH * FEW // collections))
        payloads = collections <= PAYLOADS_WITH_CANDIDATES
        return cls(depth, 2 * limit + SPARE, deadline, concurrency, condition, payloads)

    def fusion(self, collection: str) -> tuple[float, float, float] | None:
        """The weights of the legs (dense, sparse, tags) there; None where all count alike."""
        match = self.tags.get(collection)
        boost = match.boost if match else 1.0
        if self.weights is None and boost == 1.0:
            return None
        return (*(self.weights or (1.0, 1.0)), boost)

    def fusions(self, collections: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """Collection -> the weights of its legs, of the tag leg where it has one."""
        return {
            name: (self.fusion(name) or ())[: 3 if name in self.tags else 2] for name in collections
        }

    def within(self, seconds: float) -> "Plan":
        """The same, in the time that is left; a second at least, to show what was found."""
        return replace(self, deadline=max(seconds, LAST_SECONDS))

    def deeper(self, condition: Any) -> "Plan":
        """The same, looking further down, under that condition."""
        depth, pool = self.depth * DEEPER, self.pool * DEEPER
        return replace(self, depth=depth, pool=pool, condition=condition)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What was found, and how each collection fared, by collection."""

    found: Mapping[str, Found]
    statuses: Mapping[str, Status]

    def updated(self, other: "Retrieved") -> "Retrieved":
        """With what was found when some were asked again; a failure then loses nothing."""
        again = {name: other.statuses[name] for name in other.found}
        return Retrieved({**self.found, **other.found}, {**self.statuses, **again})


def saturated(
    found: Mapping[str, Found], ranked: Sequence[Hit], shown: Sequence[Hit], plan: Plan, limit: int
) -> list[Target]:
    """The targets that may have better candidates than some of the `limit` hits shown.

    Such a one gave as many candidates as it was asked for, and even the least of them ranks with
    the hits shown: because its documents fill the page, or because chunks of few documents do.
    """
    cut = shown[limit - 1].score if len(shown) >= limit else 0.0
    least = {hit.collection: hit.score for hit in ranked}
    return [
        one.target
        for name, one in found.items()
        if len(one.candidates) >= plan.depth and least[name] >= cut
    ]


async def retrieve(
    engine: Engine, targets: Sequence[Target], vectors: QueryVectors, terms: Terms, plan: Plan
) -> Retrieved:
    """Search all targets at once; a target that fails or is late becomes a status, not an error."""
    queries = {target.collection: _query(target, vectors, terms, plan) for target in targets}
    askable = [t for t in targets if (q := queries[t.collection]).dense or q.sparse]
    statuses = {t.collection: _status(t, queries[t.collection], vectors, terms) for t in targets}
    gate = asyncio.Semaphore(plan.concurrency)

    async def one(trip: Sequence[Target]) -> Sequence[Legs | QdrantMcpError]:
        asked = [(target, queries[target.collection]) for target in trip]
        async with gate:
            return await engine.search(
                asked,
                depth=plan.depth,
                condition=plan.condition,
                with_payload=plan.with_payload,
            )

    found: dict[str, Found] = {}
    answers = await _trips(engine, askable, one, plan.deadline)
    keywords = _without_inference(answers, queries, statuses)
    if keywords:
        answers += await _trips(engine, keywords, one, plan.deadline)
    for target, answer in answers:
        if isinstance(answer, QdrantMcpError):
            statuses[target.collection] = _failed(target.collection, answer)
            continue
        found[target.collection] = _found(target, queries[target.collection], terms, answer)
        *_, damage = answer
        if damage:
            statuses[target.collection] = _damaged(statuses[target.collection], damage)
    return Retrieved(found, statuses)


def _query(target: Target, vectors: QueryVectors, terms: Terms, plan: Plan) -> LegQuery:
    named = plan.tags.get(target.collection)
    dense = vectors.dense.get(target.dense.model) if target.dense else None
    return LegQuery(
        dense=None if _misfit(target, dense) else dense,
        sparse=terms.sparse.get(target.collection),
        tags=named.values if named else (),
        weights=plan.fusion(target.collection),
    )


def _misfit(target: Target, dense: Dense | None) -> str | None:
    """Why this vector cannot be compared with those of the collection; None where it can."""
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
    """The targets whose texts the server could not encode, to be asked again by keyword alone.

    They leave `answers`; what was wrong becomes their status.
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


async def _trips(
    engine: Engine,
    targets: Sequence[Target],
    ask: Callable[[Sequence[Target]], Awaitable[Sequence[T | QdrantMcpError]]],
    seconds: float,
) -> list[tuple[Target, T | QdrantMcpError]]:
    """Each target with its answer; all trips at the same time, EngineTimeout for what is late."""

    async def one(trip: Sequence[Target]) -> Sequence[T | QdrantMcpError]:
        try:
            return await ask(trip)
        except QdrantMcpError as error:
            return [error] * len(trip)

    trips = engine.trips(targets)
    with within(seconds):
        tasks = [asyncio.ensure_future(one(trip)) for trip in trips]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
    answers: list[tuple[Target, T | QdrantMcpError]] = []
    for trip, task in zip(trips, tasks, strict=True):
        done = task.done() and not task.cancelled()
        answers += zip(trip, task.result() if done else [_LATE] * len(trip), strict=True)
    return answers


def _damaged(status: Status, damage: str) -> Status:
    """It was searched as far as it is there."""
    reason = f"{damage} {status.reason}" if status.reason else damage
    return replace(status, state="degraded", reason=reason)


def _failed(collection: str, error: QdrantMcpError) -> Status:
    return Status(
        collection, "timeout" if isinstance(error, EngineTimeout) else "failed", str(error)
    )


def _status(target: Target, query: LegQuery, vectors: QueryVectors, terms: Terms) -> Status:
    """How a collection fared that did not fail while it was searched."""
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
    engine: Engine, found: Mapping[str, Found], hits: Sequence[Hit], deadline: float
) -> tuple[list[Hit], list[Status]]:
    """The hits with their payloads, in `deadline` seconds.

    Those of a collection that fails now are left out, with why.
    """
    missing: dict[str, list[PointId]] = {}
    for hit in hits:
        if hit.payload is None:
            missing.setdefault(hit.collection, []).append(hit.id)
    if not missing:
        return list(hits), []

    payloads, late = await payloads_of(engine, found, missing, deadline)
    kept = [
        hit if hit.payload is not None else hit._replace(payload=payloads[hit.collection, hit.id])
        for hit in hits
        if hit.payload is not None or (hit.collection, hit.id) in payloads
    ]
    return kept, late


async def payloads_of(
    engine: Engine,
    found: Mapping[str, Found],
    wanted: Mapping[str, Iterable[PointId]],
    deadline: float,
    fields: Sequence[str] | None = None,
) -> tuple[dict[tuple[str, PointId], Payload], list[Status]]:
    """The payloads of points by collection and id, and which collections failed."""

    async def one(
        trip: Sequence[Target],
    ) -> Sequence[Mapping[PointId, Payload] | QdrantMcpError]:
        asked = [(target, list(wanted[target.collection])) for target in trip]
        return await engine.payloads(asked, fields)

    late: list[Status] = []
    payloads: dict[tuple[str, PointId], Payload] = {}
    targets = [found[name].target for name in wanted]
    for target, answer in await _trips(engine, targets, one, deadline):
        name = target.collection
        if isinstance(answer, QdrantMcpError):
            late.append(_failed(name, answer))
        else:
            payloads |= {(name, point): payload for point, payload in answer.items()}
    return payloads, late


async def completed(
    engine: Engine, found: Mapping[str, Found], hits: Sequence[Hit], deadline: float
) -> dict[tuple[str, PointId], Payload]:
    """All of the payloads of which a part was read, by collection and id; fewer where it fails."""
    wanted: dict[str, list[PointId]] = {}
    for hit in hits:
        if PARTIAL in (hit.payload or {}):
            wanted.setdefault(hit.collection, []).append(hit.id)
    payloads: dict[tuple[str, PointId], Payload] = {}
    with within(deadline), suppress(QdrantMcpError):
        for name, ids in wanted.items():
            read = await engine.whole(found[name].target, ids)
            payloads |= {(name, point): payload for point, payload in read.items()}
    return payloads
