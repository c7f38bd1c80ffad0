"""One tenant's view of an engine: what it may not see is not there.

Every call goes through here and gets the tenant's filter. A method that this class does not
confine it does not have: new code that calls anything else of the client fails.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from qdrant_client import models
from qdrant_client.http.models.models import QueryResponse

from mcp_server_qdrant.core.dates import DATE_KEY
from mcp_server_qdrant.core.errors import (
    EngineFailure,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.gather import gathered
from mcp_server_qdrant.qdrant.edge.counts import INCOMPLETE
from mcp_server_qdrant.qdrant.edge.plain import plain
from mcp_server_qdrant.qdrant.filters import among, both
from mcp_server_qdrant.qdrant.server.remote import at_least
from mcp_server_qdrant.qdrant.tenant.guard import Tenant, check_key

SEEN_SECONDS = 60.0
UNSEEN_SECONDS = 15.0
AT_ONCE = 16
CORPUS_SINCE = (1, 19)

# Queries that hold their vector. A query by a point's id would use a vector that may be another
# tenant's.
_QUERIES = (list, tuple, models.SparseVector, models.Document)
_PLAIN_QUESTIONS = frozenset({"candidates", "idfs", "payloads"})


class Corpus:
    """The check that the engine can weigh words over one tenant's points alone; made once.

    `version` reads a server's version; None: an engine that is known to be able to.
    """

    def __init__(self, version: Callable[[], Awaitable[str]] | None = None) -> None:
        self._version = version

    async def check(self) -> None:
        """Raises EngineFailure where a server is too old."""
        if self._version is None:
            return
        version = await self._version()
        if not at_least(version, CORPUS_SINCE):
            raise EngineFailure(
                "Keyword search that keeps tenants apart needs Qdrant 1.19 or newer; "
                f"this one is {version}."
            )
        self._version = None


class TenantClient:
    """The reads of AsyncQdrantBase that this server uses, for one tenant.

    `seen` caches which collections the tenant sees, and until when.
    """

    def __init__(
        self,
        inner: Any,
        tenant: Tenant,
        corpus: Corpus,
        seen: dict[str, tuple[float, bool]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._tenant = tenant
        self._corpus = corpus
        self._guard = self._guard_of(tenant)
        self._plain_guard = plain(self._guard)
        self._clock = clock
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._seen = {} if seen is None else seen
        self._weighed: dict[str, frozenset[str]] = {}

    def _guard_of(self, tenant: Tenant) -> models.Filter:
        return tenant.readable

    # Collections: those in which the tenant may read a point

    async def get_collections(self) -> models.CollectionsResponse:
        """The names that the tenant may see."""
        response = await self._inner.get_collections()
        names = [found.name for found in response.collections]
        seen, failed = await gathered(names, self._sees)
        if failed and not seen:
            raise next(iter(failed.values()))
        for name in failed:
            seen[name] = self._seen.get(name, (0.0, False))[1]  # as it was before
        return models.CollectionsResponse(
            collections=[models.CollectionDescription(name=name) for name in names if seen[name]]
        )

    async def get_aliases(self) -> models.CollectionsAliasesResponse:
        """The aliases of collections that the tenant may see."""
        found = (await self._inner.get_aliases()).aliases
        names = {visible.name for visible in (await self.get_collections()).collections}
        return models.CollectionsAliasesResponse(
            aliases=[alias for alias in found if alias.collection_name in names]
        )

    async def collection_exists(self, collection_name: str) -> bool:
        """True where the tenant may see it; what it did not see before is asked for again."""
        return await self._sees(collection_name, again=True)

    async def _sees(self, name: str, *, again: bool = False) -> bool:
        until, seen = self._seen.get(name, (0.0, False))
        if until > self._clock() and (seen or not again):
            return seen
        try:
            async with self._gate:
                records, _ = await self._inner.scroll(
                    name, self._guard, limit=1, with_payload=False
                )
        except UnknownCollection:
            records = []
        self._see(name, seen=bool(records))
        return bool(records)

    def _see(self, name: str, *, seen: bool) -> None:
        self._seen[name] = (self._clock() + (SEEN_SECONDS if seen else UNSEEN_SECONDS), seen)

    async def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """The collection's parameters, and the number of its points that the tenant may read."""
        if not await self.collection_exists(collection_name):
            raise UnknownCollection(collection_name)
        info = await self._inner.get_collection(collection_name)
        self._weighed[collection_name] = _weighed(info)
        schema = {
            key: index.model_copy(update={"points": 0})
            for key, index in info.payload_schema.items()
        }
        damaged = info.status == models.CollectionStatus.RED
        return models.CollectionInfo(
            status=info.status if damaged else models.CollectionStatus.GREEN,
            warnings=[models.CollectionWarning(message=INCOMPLETE)] if damaged else None,
            optimizer_status=models.OptimizersStatusOneOf.OK,
            points_count=(await self.count(collection_name)).count,
            segments_count=1,
            config=info.config,
            payload_schema=schema,
        )

    # Questions

    async def query_batch_points(
        self, collection_name: str, requests: Sequence[models.QueryRequest]
    ) -> list[QueryResponse]:
        """One answer per request."""
        made: dict[int, models.Filter] = {}
        guarded = [await self._confined(collection_name, request, made) for request in requests]
        answers: list[QueryResponse]
        answers = await self._inner.query_batch_points(collection_name, guarded)
        for point in (point for answer in answers for point in answer.points):
            point.payload = self._tenant.shown(point.payload)
        return answers

    async def _confined(self, name: str, request: Any, made: dict[int, models.Filter]) -> Any:
        """A QueryRequest, or each prefetch of one, with the guard on it.

        `made` holds the filters of one call by what they were made of: a shared one is sent once.
        """
        by_value = request.query is None or isinstance(request.query, _QUERIES)
        fused = bool(request.prefetch) and isinstance(request.query, models.RrfQuery)
        if request.lookup_from is not None or not (fused or (by_value and not request.prefetch)):
            raise RequestError("Only a vector may be searched for while tenants are kept apart.")
        if fused:
            legs = [await self._confined(name, leg, made) for leg in request.prefetch]
            return request.model_copy(update={"prefetch": legs})
        where = request.filter
        if id(where) not in made:
            made[id(where)] = self._guarded(where)
        changed: dict[str, Any] = {"filter": made[id(where)]}
        if isinstance(request.query, models.SparseVector):
            changed["params"] = await self._weighing(name, request.using, request.params)
        return request.model_copy(update=changed)

    async def _weighing(
        self, name: str, using: str | None, params: models.SearchParams | None
    ) -> models.SearchParams | None:
        """The engine's idf is of the tenant's points: others' texts must not move a score."""
        if name not in self._weighed:
            self._weighed[name] = _weighed(await self._inner.get_collection(name))
        if using not in self._weighed[name]:
            return params
        await self._corpus.check()
        idf = models.IdfCorpusParams(corpus=self._guard)
        return (params or models.SearchParams()).model_copy(update={"idf": idf})

    async def hybrid(self, question: str, *arguments: Any) -> list[tuple[bool, Any]]:
        """The embedded engine's answers to a search; it puts the guard on each part."""
        if question not in _PLAIN_QUESTIONS:
            raise RequestError(f"{question!r} may not be asked while tenants are kept apart.")
        if question == "candidates":
            for where in {id(leg[2]): leg[2] for _, legs in arguments[0] for leg in legs}.values():
                self._tenant.check(where)
        answers: list[tuple[bool, Any]] = await self._inner.hybrid(
            question, *arguments, guard=self._plain_guard
        )
        return [
            (well, self._seen_in(question, value) if well else value) for well, value in answers
        ]

    def _seen_in(self, question: str, value: Any) -> Any:
        """An answer with its payloads as the tenant sees them."""
        if question == "payloads":
            return {point: self._tenant.shown(payload) for point, payload in value.items()}
        if question == "candidates":
            *found, payloads, damage = value
            return (
                *found,
                payloads and [self._tenant.shown(payload) for payload in payloads],
                damage,
            )
        return value

    async def retrieve(
        self, collection_name: str, ids: Sequence[Any], **shown: Any
    ) -> list[models.Record]:
        """The points of these ids that the tenant may read."""
        if not ids:
            return []
        these = models.Filter(must=[among(ids)])
        records, _ = await self.scroll(collection_name, these, limit=len(ids), **shown)
        return records

    async def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        order_by: Any = None,
        **page: Any,
    ) -> tuple[list[models.Record], Any]:
        """One page of the tenant's points."""
        if order_by is not None and (key := getattr(order_by, "key", order_by)) != DATE_KEY:
            check_key(key, self._tenant.hidden)
        records, following = await self._inner.scroll(
            collection_name, self._guarded(scroll_filter), order_by=order_by, **page
        )
        for record in records:
            record.payload = self._tenant.shown(record.payload)
        return records, following

    async def count(
        self,
        collection_name: str,
        count_filter: models.Filter | None = None,
    ) -> models.CountResult:
        """The number of the tenant's points that match; exact: an estimate counts others too."""
        found: models.CountResult = await self._inner.count(
            collection_name, count_filter=self._guarded(count_filter), exact=True
        )
        return found

    async def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = 10,
    ) -> models.FacetResponse:
        """The most frequent values in the tenant's points; exact."""
        check_key(key, self._tenant.hidden)
        found: models.FacetResponse = await self._inner.facet(
            collection_name,
            key,
            facet_filter=self._guarded(facet_filter),
            limit=limit,
            exact=True,
        )
        return found

    def _guarded(self, where: models.Filter | None) -> models.Filter:
        self._tenant.check(where)
        return both(self._guard, where)


def _weighed(info: models.CollectionInfo) -> frozenset[str]:
    """The sparse vectors to which the engine applies an idf."""
    vectors = info.config.params.sparse_vectors or {}
    return frozenset(n for n, v in vectors.items() if v.modifier == models.Modifier.IDF)
