"""Prometheus metrics in a registry of their own."""

import logging
import time
from asyncio import CancelledError
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from mcp.shared.exceptions import MCPError
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from typing_extensions import override

from mcp_server_qdrant.core.context import (
    PHASES,
    QUERY_OUTCOMES,
    Ending,
    Phase,
    QueryOutcome,
    Recorder,
    caller,
)
from mcp_server_qdrant.core.datatypes import Status
from mcp_server_qdrant.http.limits import SENTENCES, Load

logger = logging.getLogger(__name__)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
NAMESPACE = "mcp_qdrant"
OTHER = "other"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
FAULTS = ("failed", "timeout", "degraded")
ENGINE_STATES = ("up", "opening", "down")
ENCODER_STATES = ("ready", "loading", "downloading", "failed", "idle", "unknown")


class Metrics(Recorder):
    """Counters since the start, and the current state.

    Labels are bounded: the first `named` collections that fail get their own label, all others are
    `other`.
    """

    def __init__(self, load: Load, named: int = 20) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the number of series
        self._named = named
        self._collections: set[str] = set()
        registry = self._registry = CollectorRegistry()
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        gauge = partial(Gauge, namespace=NAMESPACE, registry=registry)
        histogram = partial(Histogram, namespace=NAMESPACE, registry=registry, buckets=SECONDS)
        self._calls = counter("calls", "Tool calls.", ("tool", "outcome"))
        self._call_seconds = histogram("call_seconds", "Time of a call.", ("tool",))
        self._phase_seconds = histogram("phase_seconds", "Time of a phase of a search.", ("phase",))
        self._errors = counter(
            "collection_errors", "Failed searches of a collection.", ("collection", "state")
        )
        self._degraded = counter("degraded_searches", "Searches with degraded results.")
        self._answers = counter("answers", "Queries by what was found.", ("answer",))
        self._corrected = counter("corrected_searches", "Queries whose spelling was corrected.")
        self._refused = counter("refused_requests", "Requests that were refused.", ("reason",))
        self._engine = gauge("engine", "1 for the current state.", ("state",))
        self._encoder = gauge("encoder", "1 for the current state.", ("state",))
        self._work = gauge("work", "Writes since the start; folders synced now.", ("kind",))
        gauge("calls_under_way", "Calls now.").set_function(lambda: load.calls.count)
        gauge("streams_open", "Event streams now.").set_function(lambda: load.streams.count)
        for phase in PHASES:
            self._phase_seconds.labels(phase)
        for answer in QUERY_OUTCOMES:
            self._answers.labels(answer)
        for reason in SENTENCES:
            self._refused.labels(reason)

    @override
    @contextmanager
    def call(self, tool: str) -> Iterator[Ending]:
        ending, began = Ending(), time.perf_counter()
        try:
            yield ending
        except (CancelledError, MCPError) as error:
            ending.outcome = "rejected" if isinstance(error, MCPError) else "cancelled"
            raise
        finally:
            seconds, who = time.perf_counter() - began, caller()
            self._calls.labels(tool, ending.outcome).inc()
            self._call_seconds.labels(tool).observe(seconds)
            fields = {"tool": tool, "outcome": ending.outcome, "ms": round(seconds * 1000, 1)}
            logger.info("Call", extra={"fields": fields | ({"caller": who.name} if who else {})})

    @override
    def phase(self, name: Phase) -> AbstractContextManager[object]:
        return self._phase_seconds.labels(name).time()

    @override
    def record_statuses(self, statuses: Iterable[Status]) -> None:
        faults = [status for status in statuses if status.state in FAULTS]
        for status in faults:
            self._errors.labels(self._name(status.collection), status.state).inc()
        if faults:
            self._degraded.inc()

    @override
    def record_outcome(self, answer: QueryOutcome, *, corrected: bool) -> None:
        self._answers.labels(answer).inc()
        if corrected:
            self._corrected.inc()

    def count_refusal(self, reason: str) -> None:
        """Count a refusal."""
        self._refused.labels(reason).inc()

    def text(self, engine: str, encoder: str, work: Mapping[str, int]) -> bytes:
        """All metrics, with the state of engine and encoder, and the counts of writes."""
        for state in ENGINE_STATES:
            self._engine.labels(state).set(state == engine)
        for state in ENCODER_STATES:
            self._encoder.labels(state).set(state == encoder)
        for kind, count in work.items():
            self._work.labels(kind).set(count)
        return generate_latest(self._registry)

    def _name(self, collection: str) -> str:
        if len(self._collections) < self._named:
            self._collections.add(collection)
        return collection if collection in self._collections else OTHER
