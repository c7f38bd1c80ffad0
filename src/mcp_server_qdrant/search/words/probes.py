"""The engine's own idf of terms: read off by probes, and remembered for ten minutes."""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.search.engine import Engine, ask

CACHE_SECONDS = 600.0
ABSENT_SECONDS = 5.0
CACHE_TERMS = 20_000
DRIFT = 0.1
PROBE_SECONDS = 2.0


@dataclass(slots=True)
class _Known:
    """The idf of terms in one collection, and until when other terms count as absent from it."""

    documents: int
    expires: float
    idf: dict[int, float]
    absent: dict[int, float]


@dataclass(eq=False)
class Probes:
    """The idf of the terms that a collection has.

    That a collection lacks a term is remembered for seconds only, and until something is stored
    there: a text must be found by its words as soon as it is stored. Of the `lasting` terms it is
    remembered like an idf.
    """

    engine: Engine
    lasting: Container[int] = ()
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, _Known] = field(default_factory=dict)

    def idf(self, target: Target) -> Mapping[int, float]:
        """The idf of terms there, as far as they were learned."""
        return self._fresh(target).idf

    async def learn(self, targets: Sequence[Target], tokens: Sequence[int]) -> dict[str, str]:
        """Learn the idf of terms that is not known yet; collection -> why it cannot be had."""
        now = self.clock()
        lacking: dict[str, list[int]] = {}
        for target in targets:
            known = self._fresh(target)
            terms = [t for t in tokens if t not in known.idf and known.absent.get(t, 0.0) <= now]
            if terms:
                lacking[target.collection] = terms

        async def probe(group: Sequence[Target]) -> Sequence[Mapping[int, float] | QdrantMcpError]:
            return await self.engine.probe([(t, lacking[t.collection]) for t in group])

        failures = {}
        asked = [target for target in targets if target.collection in lacking]
        for target, answer in await ask(self.engine, asked, probe, PROBE_SECONDS):
            if isinstance(answer, QdrantMcpError):
                failures[target.collection] = str(answer)
                continue
            known = self._fresh(target)
            known.idf.update(answer)
            for term in lacking[target.collection]:
                if term not in answer:
                    lasts = term in self.lasting
                    known.absent[term] = known.expires if lasts else now + ABSENT_SECONDS
        return failures

    def changed(self, collection: str) -> None:
        """Something was stored there: it may have terms that it lacked."""
        if known := self._known.get(collection):
            known.absent.clear()

    def forget(self, collection: str) -> None:
        """Something was deleted there: terms may be rarer than they were, or gone."""
        self._known.pop(collection, None)

    def _fresh(self, target: Target) -> _Known:
        known = self._known.get(target.collection)
        now = self.clock()
        if (
            known is None
            or known.expires <= now
            or abs(known.documents - target.documents) > DRIFT * known.documents
            or len(known.idf) + len(known.absent) > CACHE_TERMS
        ):
            known = _Known(target.documents, now + CACHE_SECONDS, {}, {})
            self._known[target.collection] = known
        return known
