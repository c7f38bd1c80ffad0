"""The tools as calls that return their data, for tests of what is stored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import Client
from qdrant_client import models

from tests.fakes import FakeEncoder
from tests.support import Engine, memory_server, refusal, said

PAST = "2020-01-31T00:00:00Z"


@dataclass
class Memory:
    """A server over an engine."""

    client: Client
    engine: Engine

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(f"qdrant-{tool}", arguments)
        assert not result.is_error, said(result)
        return dict(result.structured_content)

    async def refused(self, tool: str, **arguments: Any) -> str:
        return refusal(await self.client.call_tool(f"qdrant-{tool}", arguments))

    async def store(self, text: str, place: str = "notes", **more: Any) -> dict[str, Any]:
        more = {"id": "x"} | more
        return await self.ask("store", information=text, collection_name=place, create=True, **more)

    async def get(self, *ids: str, **more: Any) -> dict[str, Any]:
        (one,) = (await self.ask("get", ids=list(ids), **more))["documents"]
        return one

    async def versions(self, *ids: str, **more: Any) -> list[dict[str, Any]]:
        return (await self.ask("get", ids=list(ids), versions=True, **more))["versions"]


@asynccontextmanager
async def memory_of(
    engine: Engine, *encoders: FakeEncoder, **settings: Any
) -> AsyncIterator[Memory]:
    """A server over this engine."""
    async with memory_server(*encoders, engine=engine, **settings) as client:
        yield Memory(client, engine)


async def end(memory: Memory, place: str = "notes", own: str = "x") -> None:
    """The time of a text has come."""
    of = models.Filter(
        must=[models.FieldCondition(key="doc.id", match=models.MatchValue(value=own))]
    )
    await memory.engine.set_payload(place, {"expires": PAST}, of, key="doc")
