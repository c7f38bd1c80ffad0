"""Candidates, their exact leg scores and their payloads, of all collections in parallel.

A collection that fails becomes a status; the others answer.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any, TypeVar

from mcp_server_qdrant.core.context import recorder
from mcp_server_qdrant.core.datatypes import (
    SUPERSEDED_KEY,
    Best,
    Document,
    LegQuery,
    Payload,
    PointId,
    Scored,
    Sparse,
    State,
    Status,
    Target,
    Targets,
)
from mcp_server_qdrant.core.dates import own_date
from mcp_server_qdrant.core.errors import EngineTimeout, QdrantMcpError, UnknownCollection
from mcp_server_qdrant.core.expiry import is_expired
from mcp_server_qdrant.core.notation import parse_time
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.search.ranking import LONGEST, rank_candidates, successor_of
from mcp_server_qdrant.search.relevance import Hit, by_score, highest_bm25
from mcp_server_qdrant.search.understand import Query

NO_TERMS = Sparse((), ())
SPARE = 10  # extra candidates, since some may be orphaned parts of replaced texts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The best candidates with their payloads, and the results of each collection.

    A collection that failed while successors were read has two `statuses`. `replaced` are orphaned
    parts of replaced texts, which were left out. `cut`: there were more candidates.
    """

    hits: Sequence[Hit]
    found: Sequence[Scored]
    statuses: Sequence[Status]
    replaced: Sequence[Document] = ()
    cut: bool = False

    def updated(self, deeper: "Retrieved") -> "Retrieved":
        """The results of a deeper search; collections that failed in it keep their earlier ones."""
        answered = {target.collection for one in deeper.found for target in one.targets}
        kept = [hit for hit in self.hits if hit.collection not in answered]
        before = [one for one in self.statuses if one.collection not in answered]
        now = [one for one in deeper.statuses if one.collection in answered]
        hits, found = by_score([*deeper.hits, *kept]), [*self.found, *deeper.found]
        return replace(deeper, hits=hits, found=found, statuses=[*before, *now])


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads payloads; `to_document` parses collection, id and payload into a document."""

    queries: Queries
    to_document: Callable[[str, PointId, Payload], Document]

    async def hits(self, hits: Sequence[Hit], seconds: float) -> tuple[list[Hit], list[Status]]:
        """The hits with their complete payloads and documents, and the collections that failed.

        Hits of failed collections are left out.
        """
        wanted: dict[str, list[PointId]] = {}
        for hit in hits:
            wanted.setdefault(hit.collection, []).append(hit.id)
        answers = await self.queries.payloads([*wanted.items()], seconds)
        known, late = split_failures(wanted, answers)
        there = ((hit, known.get(hit.collection, {}).get(hit.id)) for hit in hits)
        return [self.read(hit, payload) for hit, payload in there if payload is not None], late

    def read(self, hit: Hit, payload: Payload) -> Hit:
        """The hit with its payload and a lazily parsed document."""
        reading = _Reading(self.to_document, hit.collection, hit.id, payload)
        return hit._replace(payload=payload, reading=reading)


class _Reading:
    """Parses a payload into a document at the first call; cheap, as each candidate has one."""

    __slots__ = ("_document", "_point", "_to_document")

    def __init__(
        self, to_document: Callable[[str, PointId, Payload], Document], *point: Any
    ) -> None:
        self._to_document, self._point = to_document, point
        self._document: Document | None = None

    def __call__(self) -> Document:
        if self._document is None:
            self._document = self._to_document(*self._point)
        return self._document


async def retrieve(fetch: Fetch, query: Query) -> Retrieved:
    """The best candidates of all targets with their texts; a failed target becomes a status."""
    with recorder().phase("retrieve"):
        found, statuses = await search_candidates(fetch.queries, query)
        scored = rank_candidates(found, query)
        hits = [fetch.read(hit, hit.payload or {}) for hit in scored[: query.pool]]
        replaced = [
            fetch.to_document(one.collection, one.id, one.payload)
            for part in found
            for one in part.candidates
            if one.current is False
        ]
        names = frozenset(target.collection for target in query.targets)
        end = query.period and query.period.until
        hits, failing = await with_successors(fetch, hits, names, query.seconds(), end)
    cut = len(scored) > query.pool
    return Retrieved(hits, found, [*statuses.values(), *failing], replaced, cut)


async def search_candidates(
    queries: Queries, query: Query
) -> tuple[list[Scored], dict[str, Status]]:
    """The candidates of all targets, searched in parallel, and the status of each target."""
    legs: list[tuple[Sequence[Target], LegQuery]] = []
    targets = Targets.from_sequence(query.targets)
    statuses = {**targets.ok_statuses}
    tags = query.tags
    # Collections with a query of their own.
    own = {*tags, *query.terms.failures, *query.confined}
    for some in targets.groups:
        others = [one for one in some if one.collection not in own] if own else some
        each = [[one] for one in some if one.collection in own] if own else []
        for same in filter(None, (others, *each)):
            asked, state, reason = _leg_query(same[0], query)
            if state != "ok" or reason:
                names = [one.collection for one in same]
                statuses |= {name: Status(name, state, reason) for name in names}
            if asked.dense or (asked.sparse and asked.sparse.indices):
                legs.append((same, asked))
    # Tags and preferred collections can raise hits from further down.
    lifted = tags or (query.rules.order and query.request.priority != "natural")
    found, failed = await queries.search(
        legs,
        depth=query.depth,
        condition=query.condition,
        period=query.period,
        seconds=query.seconds(),
        best=None if lifted else Best(query.pool + SPARE, query.alpha, highest_bm25(query.terms)),
    )
    statuses |= {name: _failed_status(name, error) for name, error in failed.items()}
    for name, damage in chain.from_iterable(part.damage.items() for part in found):
        reasons = filter(None, (damage, statuses[name].reason))  # the other points were searched
        statuses[name] = Status(name, "degraded", " ".join(reasons))
    return found, statuses


def _failed_status(name: str, error: QdrantMcpError) -> Status:
    state: State = "timeout" if isinstance(error, EngineTimeout) else "failed"
    return Status(name, state, str(error))


def split_failures(
    names: Iterable[str], answers: Iterable[T | QdrantMcpError]
) -> tuple[dict[str, T], list[Status]]:
    """The results by collection, and the statuses of the collections that failed."""
    found: dict[str, T] = {}
    late: list[Status] = []
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, QdrantMcpError):
            late.append(_failed_status(name, answer))
        else:
            found[name] = answer
    return found, late


def _leg_query(target: Target, query: Query) -> tuple[LegQuery, State, str | None]:
    """The query for a collection, its state if it answers, and the reason if a leg is missing."""
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
    legs = LegQuery(vector, words, named.values if named else (), query.confined.get(name))
    return legs, state, no_terms or no_vector or target.note


async def with_full_payloads(fetch: Fetch, hits: Sequence[Hit], query: Query) -> list[Hit]:
    """The hits; those that are shown in full get their complete payload if it can be read."""
    if not fetch.queries.partial:
        return list(hits)
    full = query.request.mode == "full"
    shown = [hit for hit in hits[: query.limit] if not hit.as_of]
    wanted = [hit for hit in shown if full or hit.document.textless]
    whole, _ = await fetch.hits(wanted, query.seconds())
    known = {(hit.collection, hit.id): hit for hit in whole}
    return [known.get((hit.collection, hit.id), hit) for hit in hits]


async def with_successors(
    fetch: Fetch,
    hits: Sequence[Hit],
    names: Container[str],
    seconds: float,
    end: datetime | None = None,
) -> tuple[list[Hit], list[Status]]:
    """The hits and their successors in the named collections, and what failed.

    Texts newer than the `end` of a period supersede nothing in it.
    """
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
        now = fetch.queries.now()
        newest = [
            hit
            for hit in newest
            if not is_expired(hit.document, now) and not _begins_after(hit.document, end)
        ]
        every += newest
        late += failing
    return await lift_void_marks(fetch, every, seconds, end), late


def _begins_after(document: Document, end: datetime | None) -> bool:
    """True for a text that began after the end of a period, if there is one."""
    begun = own_date(document) or parse_time(document.created_at)
    return bool(end and begun and begun >= end)


async def lift_void_marks(
    fetch: Fetch, hits: Sequence[Hit], seconds: float, end: datetime | None = None
) -> list[Hit]:
    """The hits, without marks whose successor is gone, has expired or begins after `end`."""
    known = {(hit.collection, hit.id) for hit in hits}
    wanted: dict[str, list[PointId]] = {}
    for hit in hits:
        new = successor_of(hit)  # checks the payload first, because parsing documents is slow
        if new and (first := hit.document.heir) and (new[0], first) not in known:
            wanted.setdefault(new[0], []).append(first)
    if not wanted:
        return list(hits)
    lifted = await _void_successors(fetch, wanted, seconds, end)

    def free(hit: Hit) -> Hit:
        new = successor_of(hit)
        there = lifted.get((new[0], hit.document.heir or "")) if new else None
        if there is None:
            return hit
        payload = {
            key: value for key, value in (hit.payload or {}).items() if key != SUPERSEDED_KEY
        }
        document = hit.document if there else hit.document._replace(heir=None)
        return hit._replace(payload=payload, reading=lambda: document)

    return [free(hit) for hit in hits]


async def _void_successors(
    fetch: Fetch, wanted: Mapping[str, Sequence[PointId]], seconds: float, end: datetime | None
) -> dict[tuple[str, PointId], bool]:
    """The successors that supersede nothing, and whether they can be found."""
    answers = await fetch.queries.payloads([*wanted.items()], seconds)
    now = fetch.queries.now()
    lifted: dict[tuple[str, PointId], bool] = {}
    for (name, points), answer in zip(wanted.items(), answers, strict=True):
        if isinstance(answer, QdrantMcpError):
            gone = points if isinstance(answer, UnknownCollection) else ()
            lifted |= {(name, point): False for point in gone}
            continue
        for point in points:
            payload = answer.get(point)
            one = None if payload is None else fetch.to_document(name, point, payload)
            if one is None or is_expired(one, now):
                lifted[name, point] = False
            elif _begins_after(one, end):
                lifted[name, point] = True
    return lifted
