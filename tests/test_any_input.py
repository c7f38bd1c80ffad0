"""Whatever a caller or a file says, nothing but errors of ours comes out."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st
from qdrant_client import models

from mcp_server_qdrant.core.notation import parse_time
from mcp_server_qdrant.ingest.files.state import SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.ingest.formats.jsonl import IDS, TEXTS, TIMES
from mcp_server_qdrant.ingest.formats.markdown import DATES
from mcp_server_qdrant.settings.ranking import TIME_FIELDS
from tests.support import (
    COSINE,
    dense,
    either_engine,
    foreign,
    memory_server,
    memory_services,
    said,
)

T = TypeVar("T")
Run = Callable[[Awaitable[T]], T]

DATETIME = models.PayloadSchemaType.DATETIME


def vector(number: int) -> dict[str, list[float]]:
    return {"fast-bag-of-words": dense(f"lamp {number}")}


quick = settings(deadline=None, suppress_health_check=list(HealthCheck))
few = settings(quick, max_examples=settings.default.max_examples // 2)  # each is many files
TIMES_OF_NO_CALENDAR = [
    "9999-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00+14:00",
    "2026-02-30",
    "-0001-01-01",
    float("nan"),
    float("inf"),
    1e300,
    2**63,
    10**18,
    10**400,
    -(10**13) * 7,
    253_402_300_800_000,
    True,
]
texts = st.text() | st.text("\ud800\udfff\x00\uffff\u202e\r\n\ta", max_size=6)
numbers = st.integers() | st.floats()
times = st.sampled_from(TIMES_OF_NO_CALENDAR) | st.datetimes().map(str) | numbers
anything = st.recursive(
    st.none() | st.booleans() | numbers | texts | times,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
metadata = st.dictionaries(
    st.sampled_from(["created_at", "date", "tags", "title"]) | texts, anything
)
arguments = st.fixed_dictionaries(
    {"information": texts | anything},
    optional={
        "metadata": metadata
        | metadata.map(json.dumps)
        | st.builds(dict, created_at=times)
        | anything,
        "id": anything,
        "tags": anything,
        "title": anything,
        "create": anything,
        "collection_name": st.just("notes") | texts | anything,
    },
)


async def each(check: Callable[[Run[Any]], None]) -> None:
    """Run a test of hypothesis, which is none of asyncio, beside the loop that has the server."""
    loop = asyncio.get_running_loop()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    await asyncio.to_thread(check, run)


async def test_any_arguments_of_a_store_are_stored_or_refused_in_a_sentence(tmp_path):
    async with (
        either_engine("edge", tmp_path) as engine,
        memory_server(engine=engine, collection_name="notes") as client,
    ):

        def check(run: Run[Any]) -> None:
            @quick
            @given(arguments)
            @example({"information": "x", "metadata": {"created_at": TIMES_OF_NO_CALENDAR[0]}})
            def store(given: dict[str, Any]) -> None:
                try:
                    answer = said(run(client.call_tool("qdrant-store", given)))
                except UnicodeEncodeError:  # of this client, which sends no such names
                    reject()

                assert answer
                assert "unexpected" not in answer

            store()

        await each(check)
        good = await client.call_tool("qdrant-store", {"information": "lamp"})
        assert said(good).startswith("Remembered")


def storable(value: Any) -> Any:
    """The value, or its text where it is a number that no engine takes."""
    number = isinstance(value, int | float)
    return repr(value)[:100] if number and not abs(value) < 2**63 else value


async def test_foreign_points_with_any_times_are_found_and_told_of(tmp_path):
    """What is no time of a calendar counts as none."""
    dated, long_ago = "2020-01-01T00:00:00Z", "0001-01-01T00:00:00Z"
    async with either_engine("edge", tmp_path) as engine, AsyncExitStack() as stack:
        named = {"vectors": {"fast-bag-of-words": COSINE}, "values": vector}
        await foreign(engine, "alien", {1: {"text": "lamp", "updated_at": dated}}, **named)
        for key in ("updated_at", "created_at"):
            await engine.create_payload_indexes("alien", {key: DATETIME})
        client = await stack.enter_async_context(memory_server(engine=engine))

        def check(run: Run[Any]) -> None:
            @quick
            @given(st.lists(st.dictionaries(st.sampled_from(TIME_FIELDS), times), max_size=3))
            @example([{"updated_at": [long_ago, "9999-12-31T23:59:59-14:00"]}])
            @example([dict.fromkeys(TIME_FIELDS, one) for one in TIMES_OF_NO_CALENDAR])
            def search(held: list[dict[str, Any]]) -> None:
                kept = [{key: storable(value) for key, value in one.items()} for one in held]
                payloads = [
                    {"text": f"lamp {number}", "metadata": one} | one
                    for number, one in enumerate(kept)
                ]
                points = [
                    models.PointStruct(id=number, vector=vector(number), payload=payload)
                    for number, payload in enumerate(payloads, 2)
                ]
                if points:
                    run(engine.upsert("alien", points))
                asked = {"query": "lamp", "collections": ["alien"], "limit": 50}
                for more in ({"recency_weight": 1.0}, {"mode": "full"}, {"explain": True}):
                    found = run(client.call_tool("qdrant-find", asked | more))
                    assert not found.is_error, said(found)
                    assert len(found.structured_content["results"]) >= len(payloads)
                told = run(client.call_tool("qdrant-collections", {})).structured_content
                assert parse_time(told["collections"][0]["updated_at"])

            search()

        await each(check)


front_matter = st.dictionaries(
    st.sampled_from([*DATES, "title", "tags", "keywords"]) | texts,
    times.map(str) | anything.map(json.dumps) | texts,
    max_size=5,
).map(lambda held: "".join(f"{key}: {value}\n" for key, value in held.items()))
rows = st.dictionaries(
    st.sampled_from([*IDS, *TEXTS, *TIMES, "title", "tags", "metadata"]) | texts,
    times | anything,
    max_size=6,
).map(json.dumps)


async def test_any_file_is_stored_or_named_and_the_others_are_stored(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "good.md").write_text("# Lamp\n\nIt is in the attic.\n")
    request = SyncRequest(tuple(sources([folder])), "things", mirror=True)
    async with (
        either_engine("edge", tmp_path / "engine") as engine,
        memory_services(engine=engine) as services,
    ):

        def check(run: Run[Any]) -> None:
            @few
            @given(front_matter, st.lists(rows, max_size=4), st.binary() | texts.map(utf8))
            @example("created_at: 9999-12-31T23:59:59-14:00\n", ['{"text": "x", "date": NaN}'], b"")
            def sync(front: str, lines: list[str], other: bytes) -> None:
                (folder / "front.md").write_bytes(utf8(f"---\n{front}---\nlamp"))
                (folder / "lines.jsonl").write_bytes(utf8("\n".join(lines)))
                for suffix in ("md", "html", "pdf", "jsonl", "py"):
                    (folder / f"other.{suffix}").write_bytes(other)
                report = run(services.sync(request))
                told = [one.reason for one in report.problems] + [note for _, note in report.notes]

                named = {one.path for one in report.problems}
                assert "notes/good.md" in report.stored
                assert {*report.stored, *named} >= {f"notes/{one.name}" for one in folder.iterdir()}
                assert [one for one in told if "unexpected" in one] == []

            sync()

        await each(check)


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
