"""Dense vectors over HTTP from any service: batches, halves, further tries, a circuit breaker.

A provider is a subclass with its request and its answer.
"""

import asyncio
import json
import logging
import math
import random
from array import array
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, ClassVar

from typing_extensions import override

from mcp_server_qdrant.core.breaker import Breaker
from mcp_server_qdrant.core.datatypes import EmbeddingOptions
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.encoder import Encoder, Vector
from mcp_server_qdrant.encoders.remote.http import OK, Endpoint, HttpFault
from mcp_server_qdrant.encoders.text import clean

Vectors = list[list[float]]

CONCURRENCY = 4
TOO_MUCH = (400, 413, 422)  # the answers to more texts or tokens than a service takes at once

logger = logging.getLogger(__name__)


class BadAnswer(Exception):
    """The answer is not one vector per text; `passing` says that another try may help."""

    retry_after = None

    def __init__(self, sentence: str, *, passing: bool = False) -> None:
        self.passing = passing
        super().__init__(sentence)


class ServiceEncoder(Encoder):
    """One model of one service. Nothing is asked before the first text; connections are kept.

    `url` may end in one of the `suffixes` or lacks the first; `sizes` are known dimensions by
    model, `dimensions` asks the model to shorten its vectors. A request has `tries`, `backoff`
    seconds before the second and twice that before each other. Raises ConfigError where it is no
    URL.
    """

    suffixes: ClassVar[tuple[str, ...]] = ("",)
    sizes: ClassVar[Mapping[str, int]] = {}

    def __init__(
        self,
        model: str,
        url: str,
        *,
        api_key: str | None = None,
        dimensions: int | None = None,
        bounds: EmbeddingOptions | None = None,
        tries: int = 4,
        backoff: float = 0.5,
    ) -> None:
        self.name = model
        self._dimensions = dimensions
        self._bounds = bounds or EmbeddingOptions()
        self._tries, self._backoff = tries, backoff
        self._endpoint = Endpoint(
            url,
            name="The embedding service",
            setting="EMBEDDING_SERVICE_URL",
            suffixes=self.suffixes,
            api_key=api_key,
        )
        self._size = dimensions or self.sizes.get(model)
        self._texts = self._bounds.texts
        self._answered = False
        self._breaker = Breaker(self._bounds.cooldown)
        self._gate = asyncio.Semaphore(CONCURRENCY)

    def request(self, texts: Sequence[str], *, query: bool) -> dict[str, Any]:
        """What is posted for these texts; `query`: to search for them, not to store them."""
        raise NotImplementedError

    def answer(self, body: bytes) -> Vectors:
        """The unit vectors in an answer. Raises BadAnswer."""
        raise NotImplementedError

    @property
    @override
    def state(self) -> str:
        return "failed" if self._breaker.open else "ready"  # failed while it is left alone

    @property
    @override
    def reason(self) -> str | None:
        return self._breaker.reason

    @override
    async def ready(self, timeout: float) -> bool:
        """True where the service answers; it is asked unless its last answer was a good one."""
        if self._breaker.open or (self._answered and self.reason is None):
            return not self._breaker.open
        try:
            async with asyncio.timeout(timeout):
                await self._probed()
        except (TimeoutError, EncoderUnavailable):
            return False
        return True

    @override
    async def query_vector(self, text: str) -> Vector:
        self._check()
        (vector,) = await self._ask([_given(text)], self._bounds.query_seconds, query=True)
        return tuple(vector)

    @override
    async def vectors(self, texts: Sequence[str]) -> Vectors:
        self._check()
        given, most = [_given(text) for text in texts], self._texts
        starts = range(0, len(given), most)
        tasks = [asyncio.ensure_future(self._batch(given[at : at + most])) for at in starts]
        try:
            made = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return [vector for batch in made for vector in batch]

    @override
    async def size(self) -> int:
        """The dimensions: as set, as known, else learnt from the service."""
        return self._size or await self._probed()

    @override
    async def known_size(self) -> int | None:
        return self._size

    @override
    def tokens(self) -> int:
        return self._bounds.text_tokens

    @override
    async def close(self) -> None:
        await self._endpoint.close()

    async def _probed(self) -> int:
        (vector,) = await self.vectors(["dimensions"])
        return len(vector)

    async def _batch(self, texts: list[str]) -> Vectors:
        """The vectors of texts that go together; halved where the service takes fewer at once."""
        if len(texts) <= self._texts:
            try:
                async with self._gate:
                    return await self._ask(texts, self._bounds.seconds)
            except _TooMuch:
                pass
        middle = -(-len(texts) // 2)
        made = await self._batch(texts[:middle]) + await self._batch(texts[middle:])
        self._texts = min(self._texts, middle)
        return made

    async def _ask(self, texts: list[str], seconds: float, *, query: bool = False) -> Vectors:
        """One request in so many seconds, tried again where that may help."""
        end = monotonic() + seconds
        attempt = 1
        while True:
            try:
                found = await self._once(texts, end - monotonic(), query=query)
            except (HttpFault, BadAnswer) as fault:
                pause = self._pause(fault, attempt)
                if attempt >= self._tries or not fault.passing or monotonic() + pause >= end:
                    raise self._failure(fault) from fault
                logger.info("%s Trying again in %.1f s.", fault, pause)
            else:
                self._breaker.succeeded()
                return found
            await asyncio.sleep(pause)
            attempt += 1

    async def _once(self, texts: list[str], seconds: float, *, query: bool) -> Vectors:
        try:
            answer = await self._endpoint.post(self.request(texts, query=query), seconds)
        except HttpFault as fault:
            if fault.large and len(texts) > 1:
                raise _TooMuch from fault
            raise
        if answer.status_code in TOO_MUCH and len(texts) > 1:
            raise _TooMuch
        if answer.status_code != OK:
            raise BadAnswer(
                f"The embedding service did not take the request (HTTP {answer.status_code}): are "
                "EMBEDDING_MODEL, EMBEDDING_DIMENSIONS and EMBEDDING_MAX_TOKENS right?"
            )
        if len(texts) > 1:  # some milliseconds for each
            found = await asyncio.to_thread(self.answer, answer.content)
        else:
            found = self.answer(answer.content)
        self._learn(_checked(found, len(texts)))
        return found

    def _learn(self, size: int) -> None:
        if self._size is not None and size != self._size:
            raise BadAnswer(
                f"The embedding service's vectors have {size} dimensions where {self._size} were "
                "expected: is EMBEDDING_MODEL, or EMBEDDING_DIMENSIONS, right?"
            )
        self._size = size
        self._answered = True

    def _pause(self, fault: HttpFault | BadAnswer, attempt: int) -> float:
        """Seconds until the next try: as the service asks, else more each time, spread."""
        if fault.retry_after is not None:
            return fault.retry_after
        return self._backoff * 2.0 ** (attempt - 1) * random.uniform(0.75, 1.25)

    def _check(self) -> None:
        if self._breaker.open:
            raise EncoderUnavailable(self._breaker.reason or "")

    def _failure(self, fault: HttpFault | BadAnswer) -> EncoderUnavailable:
        """Count the failure; one that will not pass opens the circuit at once."""
        if isinstance(fault, HttpFault):
            self._breaker.failed(str(fault), at_once=not fault.passing, wait=fault.retry_after)
        return EncoderUnavailable(str(fault))


def parsed(answer: bytes) -> dict[str, Any]:
    """The object that an answer is. Raises BadAnswer."""
    try:
        whole = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("The embedding service's answer is not JSON.", passing=True) from error
    if not isinstance(whole, dict):
        raise BadAnswer("The embedding service's answer holds no vectors.")
    return whole


def unit(raw: Any) -> list[float]:
    """A list of numbers as a unit vector, rounded to float32 as engines keep them.

    Raises BadAnswer.
    """
    try:
        values = array("d", raw)
    except (TypeError, OverflowError) as error:
        raise BadAnswer("The embedding service's vectors are not made of numbers.") from error
    length = math.sqrt(math.fsum(value * value for value in values))
    if not 0 < length < math.inf:
        raise BadAnswer("The embedding service answered with a vector that has no direction.")
    return array("f", [value / length for value in values]).tolist()


def _checked(found: Vectors, count: int) -> int:
    """The size of so many vectors. Raises BadAnswer."""
    if len(found) != count:
        raise BadAnswer(
            f"The embedding service answered with {len(found)} vectors for {count} texts."
        )
    if len({len(vector) for vector in found}) > 1:
        raise BadAnswer("The embedding service's vectors are not all of the same size.")
    return len(found[0])


def _given(text: str) -> str:
    """The text as it is sent: services refuse an empty one."""
    return clean(text) or " "


class _TooMuch(Exception):
    """The service does not take so many texts at once."""
