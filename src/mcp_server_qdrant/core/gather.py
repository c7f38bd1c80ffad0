"""One question to several collections at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mcp_server_qdrant.core.errors import QdrantMcpError

T = TypeVar("T")


async def gathered(
    names: Sequence[str], ask: Callable[[str], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, QdrantMcpError]]:
    """The answers by name, and our errors by name; any other error is raised."""
    answers = await asyncio.gather(*map(ask, names), return_exceptions=True)
    found: dict[str, T] = {}
    failed: dict[str, QdrantMcpError] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, QdrantMcpError):
            failed[name] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[name] = answer
    return found, failed
