"""What an operator sees of real calls: figures and lines; and nothing of contents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
from mcp import Client
from mcp.types import CallToolResult
from prometheus_client.parser import text_string_to_metric_families

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.services import assemble
from mcp_server_qdrant.core.context import Caller, calling, recording
from mcp_server_qdrant.core.datatypes import Status
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.http.limits import CALLS, SENTENCES, Load, Slot
from mcp_server_qdrant.http.metrics import OTHER, Metrics
from mcp_server_qdrant.http.monitor import Monitor
from mcp_server_qdrant.http.serving import BODY, build_app
from mcp_server_qdrant.tools.boundary import ClosedTool
from tests.fakes import FakeEncoder
from tests.support import Engine, make_settings, memory_engine, registry

SECRET = "platypus"


@dataclass
class Watched:
    """A server over the local mode, an MCP client of it, and what its operator sees."""

    client: Client
    http: httpx.AsyncClient
    engine: Engine
    encoder: FakeEncoder
    monitor: Monitor

    async def figures(self) -> dict[tuple[str, ...], float]:
        """(name, label values in the order of their names) -> value."""
        response = await self.http.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        return figures(response.text)


def figures(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name.removeprefix("mcp_qdrant_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@asynccontextmanager
async def watched(**values) -> AsyncIterator[Watched]:
    settings = make_settings(**values)
    encoder = FakeEncoder()
    monitor = Monitor(settings)
    async with memory_engine() as engine:

        async def opened():
            return assemble(settings, engine, registry(encoder)).shared

        server = make_server(settings, opened, monitor=monitor)
        asgi = build_app(server, "streamable-http", settings, monitor)
        transport = httpx.ASGITransport(app=asgi)
        async with (
            Client(server) as client,
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http,
        ):
            yield Watched(client, http, engine, encoder, monitor)


async def store(one: Watched, text: str, collection: str = "notes") -> None:
    done = await one.client.call_tool(
        "qdrant-store", {"information": text, "collection_name": collection, "create": True}
    )
    assert not done.is_error


async def test_queries_are_counted_by_what_they_found():
    async with watched() as one:
        await store(one, "roses need sun and compost")
        await one.client.call_tool("qdrant-find", {"query": "roses sun"})
        await one.client.call_tool("qdrant-find", {"query": "composst"})
        await one.client.call_tool("qdrant-find", {"query": "roses", "score_threshold": 1})
        await one.client.call_tool("qdrant-find", {"collections": ["notes"]})
        told = await one.figures()

    answers = {name: told["answers_total", name] for name in ("found", "weak", "empty")}
    assert sum(answers.values()) == 3
    assert answers["empty"] == 1
    assert told["corrected_searches_total",] == 1


async def test_calls_are_counted_by_tool_and_outcome():
    async with watched() as one:
        await store(one, "roses need sun")
        await one.client.call_tool("qdrant-find", {"query": "roses"})
        await one.client.call_tool("qdrant-find", {"query": "roses", "limt": 3})
        await one.client.call_tool("qdrant-find", {"query": 5})
        await one.client.call_tool("qdrant-find", {"query": "x", "collections": ["absent"]})
        await one.client.call_tool(SECRET, {})
        one.engine.down = EngineFailure("It is broken.")
        await one.client.call_tool("qdrant-find", {"query": "roses"})
        one.engine.down = None
        told = await one.figures()

    assert told["calls_total", "ok", "qdrant-store"] == 1
    assert told["calls_total", "ok", "qdrant-find"] == 1
    assert told["calls_total", "rejected", "qdrant-find"] == 3
    assert told["calls_total", "failed", "qdrant-find"] == 1
    assert told["call_seconds_count", "qdrant-find"] == 5
    assert told["calls_under_way",] == 0
    assert told["work", "points_written"] == 1
    assert SECRET not in str(told)


async def test_the_phases_of_a_search_are_timed():
    async with watched() as one:
        await store(one, "roses need sun")
        await one.client.call_tool("qdrant-find", {"query": "roses"})
        await one.client.call_tool("qdrant-find", {"query": "roses", "rerank": True})
        told = await one.figures()

    counts = {name: told["phase_seconds_count", name] for name in ("embed", "probe", "retrieve")}
    assert counts == {"embed": 2, "probe": 2, "retrieve": 2}
    assert told["phase_seconds_count", "rank"] == 2
    assert told["phase_seconds_count", "rerank"] == 1


async def test_what_a_collection_fails_at_is_counted_by_its_name():
    async with watched() as one:
        await store(one, "roses need sun")
        await store(one, "moss likes shade", "forest")
        one.engine.broken["forest"] = EngineFailure("It is damaged.")
        await one.client.call_tool("qdrant-find", {"query": "moss"})
        one.engine.broken.clear()
        told = await one.figures()

    assert told["collection_errors_total", "forest", "failed"] == 1
    assert ("collection_errors_total", "notes", "failed") not in told
    assert told["degraded_searches_total",] == 1


async def test_a_model_that_is_away_makes_degraded_searches_and_is_seen():
    async with watched() as one:
        await store(one, "roses need sun")
        one.encoder.be("failed")
        await one.client.call_tool("qdrant-find", {"query": "roses"})
        told = await one.figures()
        ready = await one.http.get("/readyz")

    assert told["collection_errors_total", "notes", "degraded"] == 1
    assert (told["encoder", "failed"], told["encoder", "ready"]) == (1, 0)
    assert (told["engine", "up"], told["engine", "down"]) == (1, 0)
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")


async def test_refused_requests_are_counted_by_reason():
    async with watched() as one:
        with ExitStack() as held:
            for number in range(CALLS):
                held.enter_context(Slot(one.monitor.load.calls, str(number)))
            busy = await one.http.post("/mcp", content=b"{}")
        large = await one.http.post("/mcp", content=bytes(BODY + 1))
        one.monitor.load.draining = True
        draining = await one.http.post("/mcp", content=b"{}")
        ready = await one.http.get("/readyz")
        told = await one.figures()

    assert (busy.status_code, large.status_code, draining.status_code) == (429, 413, 503)
    assert ready.status_code == 503
    reasons = {name: told["refused_requests_total", name] for name in SENTENCES}
    assert reasons == {"calls": 1, "streams": 0, "sessions": 0, "draining": 1}


@pytest.mark.parametrize(
    ("scopes", "claims", "status"),
    [
        (["admin"], {}, 200),
        (["admin"], {"tenant": "red"}, 403),
        (["read", "write"], {}, 403),
    ],
)
async def test_of_tenants_only_an_admin_who_is_none_gets_the_figures(scopes, claims, status):
    who = Caller("ana", frozenset(scopes), claims)
    async with watched(tenant_field="tenant", tenant_id="red") as one:
        with calling(who):
            assert (await one.http.get("/metrics")).status_code == status


def test_no_more_collections_are_named_than_may_be():
    metrics = Metrics(Load(), named=2)
    metrics.record_statuses(Status(f"c{number}", "timeout") for number in range(50))
    metrics.record_statuses([Status("c1", "failed"), Status("c40", "failed"), Status("fine", "ok")])
    told = figures(metrics.text("up", "ready", {}).decode())

    named = {key[1] for key in told if key[0] == "collection_errors_total"}
    assert named == {"c0", "c1", OTHER}
    assert told["collection_errors_total", OTHER, "timeout"] == 48
    assert told["degraded_searches_total",] == 2


async def test_a_call_that_is_given_up_is_counted_as_that():
    async with watched() as one:
        await store(one, "roses need sun")
        one.encoder.gate, encoding = asyncio.Event(), asyncio.Event()
        one.encoder.gate.wait = lambda: encoding.set() or asyncio.sleep(3600)
        call = asyncio.ensure_future(one.client.call_tool("qdrant-find", {"query": "moss"}))
        await encoding.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        cancelled = ("calls_total", "cancelled", "qdrant-find")
        while (told := await one.figures()).get(cancelled) is None:
            await asyncio.sleep(0)

    assert told[cancelled] == 1


async def test_a_call_that_nobody_expected_to_fail_is_counted_as_crashed():
    async def broken() -> CallToolResult:
        raise RuntimeError(SECRET)

    tool = ClosedTool.make(broken, "qdrant-broken", "Fails.", write=False)
    metrics = Metrics(Load())
    with recording(metrics):
        failed = await tool.run({}, None)

    assert failed.is_error
    told = figures(metrics.text("up", "ready", {}).decode())
    assert told["calls_total", "crashed", "qdrant-broken"] == 1
