"""The query cache, over a counted encoder."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mcp_server_qdrant.core.models import Inferred
from mcp_server_qdrant.encoders.cache import QueryCache, Vector


class Encoder:
    """Counts its work; each call waits until `go` is set."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self.error: Exception | None = None

    def of(self, text: str) -> Callable[[], Awaitable[Vector]]:
        async def encode() -> Vector:
            self.made.append(text)
            await self.go.wait()
            if self.error is not None:
                raise self.error
            return (float(len(text)),)

        return encode


async def test_a_known_query_is_not_encoded_again():
    cache, encoder = QueryCache(2), Encoder()

    first = await cache.get(("", "a"), encoder.of("a"))

    assert first == (1.0,)
    assert await cache.get(("", "a"), encoder.of("a")) == first
    assert encoder.made == ["a"]


async def test_the_query_used_longest_ago_goes_first():
    cache, encoder = QueryCache(2), Encoder()

    for text in ("a", "b", "a", "c", "a", "b"):
        await cache.get(("", text), encoder.of(text))

    assert encoder.made == ["a", "b", "c", "b"]


async def test_equal_queries_that_overlap_are_encoded_once():
    cache, encoder = QueryCache(2), Encoder()

    vectors = await asyncio.gather(*(cache.get(("", "a"), encoder.of("a")) for _ in range(5)))

    assert vectors == [(1.0,)] * 5
    assert encoder.made == ["a"]


async def test_a_caller_that_gives_up_does_not_take_the_vector_from_the_others():
    cache, encoder = QueryCache(2), Encoder()
    encoder.go.clear()
    one, other = (asyncio.create_task(cache.get(("", "a"), encoder.of("a"))) for _ in range(2))
    while not encoder.made:
        await asyncio.sleep(0)

    one.cancel()
    encoder.go.set()

    assert await other == (1.0,)
    assert one.cancelled()
    assert encoder.made == ["a"]


async def test_a_failure_is_not_kept():
    cache, encoder = QueryCache(2), Encoder()
    encoder.error = ValueError("once")

    with pytest.raises(ValueError, match="once"):
        await cache.get(("", "a"), encoder.of("a"))
    encoder.error = None

    assert await cache.get(("", "a"), encoder.of("a")) == (1.0,)


async def test_a_size_of_zero_keeps_nothing():
    cache, encoder = QueryCache(0), Encoder()

    await cache.get(("", "a"), encoder.of("a"))
    await cache.get(("", "a"), encoder.of("a"))

    assert encoder.made == ["a", "a"]


async def test_a_text_that_the_server_encodes_is_passed_on_and_not_kept():
    cache, given = QueryCache(2), Inferred("a", "model")

    async def encode():
        return given

    assert await cache.get(("", "a"), encode) is given
    assert await cache.get(("", "a"), Encoder().of("a")) == (1.0,)
