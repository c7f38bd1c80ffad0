"""What an answer may take."""

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from mcp_server_qdrant.core.bounded import LARGEST, TooLarge, bounded


async def answered(content: bytes, **headers: str) -> bytes:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), 65_536):
            yield content[start : start + 65_536]

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=pieces(), headers=headers)

    hooks = {"response": [bounded]}
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), event_hooks=hooks) as one:
        return (await one.get("http://there")).content


async def test_an_answer_of_more_bytes_than_it_may_have_is_not_read():
    assert len(await answered(b"a" * LARGEST)) == LARGEST
    with pytest.raises(TooLarge):
        await answered(b"a" * (LARGEST + 1))


async def test_a_packed_answer_is_left_packed_and_so_takes_no_more():
    packed = gzip.compress(b"a" * (LARGEST + 1))

    assert await answered(packed, **{"Content-Encoding": "gzip"}) == packed
