"""Dense vectors from a service over HTTP: batching, splitting, retries, a circuit breaker.

A subclass per provider defines the request and parses the response.
"""

import asyncio
import logging
import math
import random
import re
from array import array
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, ClassVar

from typing_extensions import override

from mcp_server_qdrant.core.breaker import Breaker
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.forms import clean
from mcp_server_qdrant.encoders.encoder import Encoder, Vector
from mcp_server_qdrant.encoders.remote.http import Endpoint, ServiceFault

Vectors = list[list[float]]

NAME = "The embedding service"
CONCURRENCY = 4
MAX_TOKENS = 512  # in a part of a text; most models take as many

logger = logging.getLogger(__name__)


class ServiceEncoder(Encoder):
    """One model of one service. It connects at the first text, and keeps connections open.

    If `url` has none of the `suffixes`, the first one is appended. `sizes` are known dimensions by
    model; `model@256` asks the model to shorten its vectors.
    Raises ConfigError for an invalid URL.

    A request has at most `texts` texts, and a time limit for all its `tries`, with exponential
    backoff from `backoff` seconds. After failures no request is sent for `cooldown` seconds.
    """

    suffixes: ClassVar[tuple[str, ...]] = ("",)
    sizes: ClassVar[Mapping[str, int]] = {}
    seconds, query_seconds, cooldown = 60.0, 3.0, 30.0
    texts, tries, backoff = 32, 4, 0.5

    def __init__(self, model: str, url: str, *, api_key: str | None = None) -> None:
        sized = re.fullmatch(r"(.+)@(\d+)", model)
        self.name = model
        self.model: str = sized[1] if sized else model
        self._dimensions = int(sized[2]) if sized else None
        self._endpoint = Endpoint(
            url,
            name=NAME,
            setting="EMBEDDING_SERVICE_URL",
            hint="is EMBEDDING_MODEL right?",
            suffixes=self.suffixes,
            api_key=api_key,
        )
        self._size = self._dimensions or self.sizes.get(model)
        self._answered = False
        self._breaker = Breaker(self.cooldown)
        self._gate = asyncio.Semaphore(CONCURRENCY)

    def body(self, texts: Sequence[str]) -> dict[str, Any]:
        """The request body for these texts."""
        raise NotImplementedError

    def parse(self, response: Any) -> Vectors:
        """Parse the unit vectors of a response. Raises EncoderUnavailable."""
        raise NotImplementedError

    @property
    @override
    def state(self) -> str:
        return "failed" if self._breaker.open else "ready"  # failed while the circuit is open

    @property
    @override
    def reason(self) -> str | None:
        return self._breaker.reason

    @override
    async def ready(self, timeout: float) -> bool:
        """True if the service works; it is probed unless its last request succeeded."""
        if self._answered and self.reason is None:
            return True
        try:
            async with asyncio.timeout(timeout):
                await self._probe_size()
        except (TimeoutError, EncoderUnavailable):
            return False
        return True

    @override
    async def query_vector(self, text: str) -> Vector:
        (vector,) = await self._embed([_non_empty(text)], self.query_seconds)
        return tuple(vector)

    @override
    async def vectors(self, texts: Sequence[str]) -> Vectors:
        given, most = [_non_empty(text) for text in texts], self.texts
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
        """The dimensions: configured, known, or else found by a request."""
        return self._size or await self._probe_size()

    @override
    async def known_size(self) -> int | None:
        return self._size

    @override
    def tokens(self) -> int:
        return MAX_TOKENS

    @override
    async def close(self) -> None:
        await self._endpoint.close()

    async def _probe_size(self) -> int:
        (vector,) = await self.vectors(["dimensions"])
        return len(vector)

    async def _batch(self, texts: list[str]) -> Vectors:
        """The vectors of a batch, which is halved if the service rejects its size."""
        if len(texts) <= self.texts:
            try:
                async with self._gate:
                    return await self._embed(texts, self.seconds)
            except ServiceFault:
                pass
        middle = -(-len(texts) // 2)
        made = await self._batch(texts[:middle]) + await self._batch(texts[middle:])
        self.texts = min(self.texts, middle)
        return made

    async def _embed(self, texts: list[str], seconds: float) -> Vectors:
        """The vectors of texts, within `seconds`.

        Raises ServiceFault if the service rejects a batch, EncoderUnavailable otherwise.
        """
        if self._breaker.open:
            raise EncoderUnavailable(self._breaker.reason)
        try:
            whole = await self._post_with_retries(self.body(texts), seconds)
        except ServiceFault as fault:
            if fault.refused and len(texts) > 1:
                raise
            if not fault.refused:  # a permanent fault opens the circuit at once
                self._breaker.failed(
                    str(fault), at_once=not fault.transient, wait=fault.retry_after
                )
            raise EncoderUnavailable(str(fault)) from fault
        found = await asyncio.to_thread(self.parse, whole)  # takes milliseconds for large batches
        self._check_sizes(found, len(texts))
        self._answered = True
        self._breaker.succeeded()
        return found

    async def _post_with_retries(self, body: dict[str, Any], seconds: float) -> Any:
        """Post one request, retrying transient failures.

        Waits as long as the service asks for, else with backoff. Raises ServiceFault.
        """
        end = monotonic() + seconds
        for attempt in range(1, self.tries + 1):
            try:
                return await self._endpoint.post(body, end - monotonic())
            except ServiceFault as fault:
                pause = self.backoff * 2.0 ** (attempt - 1) * random.uniform(0.75, 1.25)
                pause = pause if fault.retry_after is None else fault.retry_after
                late = monotonic() + pause >= end
                if attempt == self.tries or late or not fault.transient:
                    raise
                logger.info("%s Trying again in %.1f s.", fault, pause)
            await asyncio.sleep(pause)
        raise AssertionError("There is at least one try.")

    def _check_sizes(self, found: Vectors, count: int) -> None:
        """Raise EncoderUnavailable unless there are `count` vectors of the known size."""
        if len(found) != count:
            raise EncoderUnavailable(
                f"{NAME} answered with {len(found)} vectors for {count} texts."
            )
        expected = self._size or len(found[0])
        for vector in found:
            if len(vector) != expected:
                raise EncoderUnavailable(
                    f"{NAME}'s vectors have {len(vector)} dimensions where {expected} were "
                    "expected: is EMBEDDING_MODEL right?"
                )
        self._size = expected


def normalise(raw: Any) -> list[float]:
    """Normalise a list of numbers to a unit vector of float32 values, as engines store them.

    Raises EncoderUnavailable.
    """
    try:
        values = array("d", raw)
    except (TypeError, OverflowError) as error:
        raise EncoderUnavailable(f"{NAME}'s vectors are not made of numbers.") from error
    length = math.sqrt(math.fsum(value * value for value in values))
    if not 0 < length < math.inf:
        raise EncoderUnavailable(f"{NAME} answered with a vector that has no direction.")
    return array("f", [value / length for value in values]).tolist()


def _non_empty(text: str) -> str:
    """The text to send; services reject an empty one."""
    return clean(text) or " "
