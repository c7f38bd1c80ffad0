"""Figures for Prometheus, in a registry of their own."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial

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

from mcp_server_qdrant.core.context import ANSWERS, PHASES, Answer, Outcome, Phase, Recorder
from mcp_server_qdrant.core.datatypes import Status
from mcp_server_qdrant.http.limits import SENTENCES, Load

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
NAMESPACE = "mcp_qdrant"
OTHER = "other"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
FAULTS = ("failed", "timeout", "degraded")
ENGINE_STATES = ("up", "opening", "down")
ENCODER_STATES = ("ready", "loading", "downloading", "failed", "idle", "unknown")


class Metrics(Recorder):
    """Counts since the start, and the state now.

    Labels are bounded: tools are those in `tools`, and at most `named` collections are
    named, the first to fail; all others are `other`.
    """

    def __init__(self, load: Load, named: int = 20) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double what is scraped
        self.tools: frozenset[str] = frozenset()
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
            "collection_errors", "Searches of it that went wrong.", ("collection", "state")
        )
        self._degraded = counter("degraded_searches", "Searches with less than was asked for.")
        self._answers = counter("answers", "Queries by what was found.", ("answer",))
        self._corrected = counter("corrected_searches", "Queries whose spelling was corrected.")
        self._refused = counter("refused_requests", "Requests that were refused.", ("reason",))
        self._engine = gauge("engine", "1 for the state it is in.", ("state",))
        self._encoder = gauge("encoder", "1 for the state it is in.", ("state",))
        self._work = gauge("work", "Writes since the start; folders in step now.", ("kind",))
        gauge("calls_under_way", "Calls now.").set_function(lambda: load.calls.count)
        gauge("streams_open", "Event streams now.").set_function(lambda: load.streams.count)
        for phase in PHASES:
            self._phase_seconds.labels(phase)
        for answer in ANSWERS:
            self._answers.labels(answer)
        for reason in SENTENCES:
            self._refused.labels(reason)

    def called(self, tool: str, outcome: Outcome, seconds: float) -> None:
        """Count a call."""
        name = self.known(tool)
        self._calls.labels(name, outcome).inc()
        self._call_seconds.labels(name).observe(seconds)

    def known(self, tool: str) -> str:
        """The tool's name, if it is one of ours: any other is what a client made up."""
        return tool if tool in self.tools else OTHER

    @override
    def phase(self, name: Phase) -> AbstractContextManager[object]:
        return self._phase_seconds.labels(name).time()

    @override
    def fared(self, statuses: Iterable[Status]) -> None:
        faults = [status for status in statuses if status.state in FAULTS]
        for status in faults:
            self._errors.labels(self._name(status.collection), status.state).inc()
        if faults:
            self._degraded.inc()

    @override
    def answered(self, answer: Answer, *, corrected: bool) -> None:
        self._answers.labels(answer).inc()
        if corrected:
            self._corrected.inc()

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self._refused.labels(reason).inc()

    def text(self, engine: str, encoder: str, work: Mapping[str, int]) -> bytes:
        """All figures, with the state of engine and encoder, and what was written."""
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
