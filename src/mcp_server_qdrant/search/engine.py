"""The engine that is searched, and how many collections are asked at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mcp_server_qdrant.core.context import within
from mcp_server_qdrant.core.datatypes import (
    Document,
    LegQuery,
    Legs,
    Payload,
    PointId,
    State,
    Status,
    Target,
)
from mcp_server_qdrant.core.dates import Period
from mcp_server_qdrant.core.errors import EngineTimeout, QdrantMcpError

T = TypeVar("T")


class SearchEngine(Protocol):
    """A Qdrant server, or the embedded engine, which answers for many collections in one trip.

    All raise our errors; one in an answer concerns that collection only. `partial`: candidates
    come with the fields of their payloads that ranking needs, not with all.
    """

    partial: bool

    def prepare(self, raw: Mapping[str, Any] | None, within: Document | None = None) -> Any:
        """A caller's filter as the engine wants it, and that a point is of a text.

        Raises InvalidFilter.
        """

    def without(self, condition: Any, replaced: Iterable[Document]) -> Any:
        """The condition, and that a point is no part of these versions of texts."""

    def trips(self, targets: Sequence[Target]) -> Sequence[Sequence[Target]]:
        """The targets in groups that are asked together."""

    async def search(
        self,
        asked: Sequence[tuple[Target, LegQuery]],
        *,
        depth: int,
        condition: Any,
        period: Period | None = None,
    ) -> Sequence[Legs | QdrantMcpError]:
        """The candidates of each target, with dates of the period."""

    async def probe(
        self, asked: Sequence[tuple[Target, Sequence[int]]]
    ) -> Sequence[Mapping[int, float] | QdrantMcpError]:
        """For each target its own idf of each of the terms that it has."""

    async def payloads(
        self,
        asked: Sequence[tuple[Target, Sequence[PointId]]],
    ) -> Sequence[Mapping[PointId, Payload] | QdrantMcpError]:
        """For each target the payloads of the points by id.

        Where a search gives candidates without payloads, further parts of texts say whether they
        are current (`doc.current`).
        """


LATE = (
    "No answer in time: the engine is busy or still starting. Ask again in a moment, or name fewer "
    "collections."
)


async def ask(
    groups: Sequence[Sequence[Target]],
    question: Callable[[Sequence[Target]], Awaitable[Sequence[T | QdrantMcpError]]],
    seconds: float,
) -> list[tuple[Target, T | QdrantMcpError]]:
    """Each target of these groups with its answer, EngineTimeout where it is late.

    Each group is one trip; all are asked at the same time.
    """

    async def trip(group: Sequence[Target]) -> Sequence[T | QdrantMcpError]:
        try:
            return await question(group)
        except QdrantMcpError as error:
            return [error] * len(group)

    with within(seconds):
        tasks = [asyncio.ensure_future(trip(group)) for group in groups]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
    late = EngineTimeout(LATE)
    answers: list[tuple[Target, T | QdrantMcpError]] = []
    for group, task in zip(groups, tasks, strict=True):
        done = task.done() and not task.cancelled()
        answers += zip(group, task.result() if done else [late] * len(group), strict=True)
    return answers


def failed(collection: str, error: QdrantMcpError) -> Status:
    """The status of a collection that gave this error."""
    state: State = "timeout" if isinstance(error, EngineTimeout) else "failed"
    return Status(collection, state, str(error))
