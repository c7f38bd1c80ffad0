"""Dense vectors over HTTP, from OpenAI or what speaks like it: Ollama, vLLM, LM Studio, TEI."""

import asyncio
import json
import logging
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.errors import ConfigError, EncoderUnavailable
from mcp_server_qdrant.encoders.cache import QueryCache, Vector
from mcp_server_qdrant.encoders.encoder import Untokenized, counted, vector_name
from mcp_server_qdrant.encoders.remote.breaker import Breaker
from mcp_server_qdrant.encoders.remote.http import Endpoint, HttpFault, Kind
from mcp_server_qdrant.encoders.remote.openai_answer import BadAnswer, Vectors, vectors
from mcp_server_qdrant.encoders.text import clean

SIZES = {  # of OpenAI's own models
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
LARGEST = 64_000_000  # bytes of an answer
CONCURRENCY = 4
TOO_MUCH = (400, 413, 422)  # what services say to more texts or tokens than they take at once
TRANSIENT: tuple[Kind, ...] = ("late", "unreachable", "broken", "busy", "failed")
SENTENCES: dict[Kind, str] = {
    "late": "The embedding service did not answer in time.",
    "unreachable": "The embedding service cannot be reached.",
    "broken": "The embedding service broke off its answer.",
    "large": "The embedding service's answer is too large.",
    "redirect": "The embedding service answered with a redirect (HTTP {status}): mend its URL.",
    "refused": "The embedding service refused access (HTTP {status}): its API key is missing or "
    "may not do this.",
    "missing": "The embedding service has no such address or no model {model} (HTTP 404): check "
    "its URL and EMBEDDING_MODEL.",
    "busy": "The embedding service has had too many requests (HTTP 429).",
    "failed": "The embedding service failed (HTTP {status}).",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How a service is asked. `seconds` for one request with all its tries, also for a query.

    A request holds at most `texts` texts of `tokens` tokens together. Texts should be split to
    `text_tokens`; a token is guessed to be `token_bytes` bytes of UTF-8.
    """

    seconds: float = 60.0
    query_seconds: float = 3.0
    tries: int = 4
    backoff: float = 0.5  # before the second try; doubled for each one more
    cooldown: float = 30.0
    texts: int = 32
    tokens: int = 100_000
    text_tokens: int = 512
    token_bytes: float = 3.0


class OpenAIEncoder(Untokenized):
    """One model of one service. Nothing is asked before the first text; connections are kept.

    `url` is what goes before `/embeddings`, or all of it; `dimensions` is what the model is asked
    to shorten its vectors to. Raises ConfigError for one that is none.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        api_key: str | None = None,
        dimensions: int | None = None,
        bounds: Bounds | None = None,
        query_cache_size: int = 1000,
    ) -> None:
        self.name = model
        self._dimensions = dimensions
        self._bounds = bounds or Bounds()
        try:
            self._endpoint = Endpoint(
                url, suffixes=("/embeddings",), api_key=api_key, largest=LARGEST
            )
        except ValueError as error:
            raise ConfigError(f"EMBEDDING_SERVICE_URL: {error}.") from error
        self._size = dimensions or SIZES.get(model)
        self._texts = self._bounds.texts
        self._packed = True  # asks for base64
        self._packs = False  # and was understood
        self._answered = False
        self._breaker = Breaker(self._bounds.cooldown)
        self._known = QueryCache(query_cache_size)
        self._gate = asyncio.Semaphore(CONCURRENCY)

    @property
    def state(self) -> str:
        """`failed` while the service is left alone."""
        return "failed" if self._breaker.open else "ready"

    @property
    def reason(self) -> str | None:
        """What failed last, if nothing has worked since."""
        return self._breaker.reason

    @property
    def vector_name(self) -> str:
        """The model's last part, lowercase."""
        return vector_name(self.name)

    def identity(self) -> str:
        """The model at its address, without what is secret there."""
        url = self._endpoint.url.copy_with(query=None)
        return f"openai {url} {self.name} {self._dimensions}"

    def start(self) -> None:
        """Nothing is loaded, and nothing asked ahead: some services are paid for."""

    async def ready(self, timeout: float) -> bool:
        """Whether the service answers, asked now unless its last answer was a good one."""
        if self._breaker.open or (self._answered and self.reason is None):
            return not self._breaker.open
        try:
            async with asyncio.timeout(timeout):
                await self._probed()
        except (TimeoutError, EncoderUnavailable):
            return False
        return True

    async def encode_query(self, text: str) -> Vector:
        """The query's vector, in `query_seconds` at most."""
        return await self._known.get(text, lambda: self._query(text))

    async def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """One vector per text, in order."""
        self._check()
        cleaned = [_given(text) for text in texts]
        tasks = [asyncio.ensure_future(self._batch(batch)) for batch in self._batches(cleaned)]
        try:
            made = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return [vector for batch in made for vector in batch]

    async def size(self) -> int:
        """The dimensions: as set, as known of OpenAI's models, else learnt from the service."""
        return self._size or await self._probed()

    async def known_size(self) -> int | None:
        """The dimensions, None before the first answer."""
        return self._size

    def token_limit(self) -> int:
        """Tokens a text may have, as they are counted without a tokenizer."""
        return counted(self._bounds.text_tokens, self._bounds.token_bytes)

    async def close(self) -> None:
        """Let the connections go."""
        self._known.clear()
        await self._endpoint.close()

    async def _probed(self) -> int:
        (vector,) = await self.encode_documents(["dimensions"])
        return len(vector)

    async def _query(self, text: str) -> Vector:
        self._check()
        (vector,) = await self._ask([_given(text)], self._bounds.query_seconds)
        return tuple(vector)

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

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The texts in their order, in requests within the bounds."""
        batch: list[str] = []
        tokens = 0
        for text in texts:
            more = math.ceil(len(text.encode()) / self._bounds.token_bytes)
            if batch and (len(batch) >= self._texts or tokens + more > self._bounds.tokens):
                yield batch
                batch, tokens = [], 0
            batch.append(text)
            tokens += more
        if batch:
            yield batch

    async def _ask(self, texts: list[str], seconds: float) -> Vectors:
        """One request in so many seconds, tried again where that may help."""
        end = monotonic() + seconds
        for attempt in range(1, self._bounds.tries + 1):
            try:
                found = await self._once(texts, end - monotonic())
            except (HttpFault, BadAnswer) as fault:
                pause = self._pause(fault, attempt)
                if pause is None or monotonic() + pause >= end:
                    raise self._failure(fault) from fault
                logger.info("%s Trying again in %.1f s.", self._sentence(fault), pause)
                await asyncio.sleep(pause)
            else:
                self._breaker.succeeded()
                return found
        raise AssertionError("the last try returns or raises")

    async def _once(self, texts: list[str], seconds: float) -> Vectors:
        packed = self._packed
        try:
            async with asyncio.timeout(seconds):  # httpx bounds each step only
                answer = await self._endpoint.post(self._body(texts, packed=packed), seconds)
        except TimeoutError as error:
            raise HttpFault("late") from error
        if answer.status in TOO_MUCH and packed and not self._packs:
            self._packed = False  # not every service knows this field
            return await self._once(texts, seconds)
        if answer.status in TOO_MUCH and len(texts) > 1:
            raise _TooMuch
        if not answer.ok:
            raise BadAnswer(
                f"The embedding service did not take the request (HTTP {answer.status}): are "
                "EMBEDDING_MODEL, EMBEDDING_DIMENSIONS and EMBEDDING_MAX_TOKENS right?"
            )
        if len(texts) > 1:  # some milliseconds for each
            found = await asyncio.to_thread(vectors, answer.body, len(texts))
        else:
            found = vectors(answer.body, len(texts))
        self._learn(len(found[0]))
        self._packs |= packed
        return found

    def _learn(self, size: int) -> None:
        if self._size is not None and size != self._size:
            raise BadAnswer(
                f"The embedding service's vectors have {size} dimensions where {self._size} were "
                "expected: is EMBEDDING_MODEL or EMBEDDING_DIMENSIONS right?"
            )
        self._size = size
        self._answered = True

    def _pause(self, fault: HttpFault | BadAnswer, attempt: int) -> float | None:
        """Seconds until the next try: what the service asks for, else more each time, spread."""
        again = fault.again if isinstance(fault, BadAnswer) else fault.kind in TRANSIENT
        if not again or attempt >= self._bounds.tries:
            return None
        if isinstance(fault, HttpFault) and fault.retry_after is not None:
            return fault.retry_after
        return self._bounds.backoff * 2.0 ** (attempt - 1) * random.uniform(0.75, 1.25)

    def _body(self, texts: list[str], *, packed: bool) -> bytes:
        body: dict[str, Any] = {"model": self.name, "input": texts}
        if packed:
            body["encoding_format"] = "base64"
        if self._dimensions:
            body["dimensions"] = self._dimensions
        return json.dumps(body, ensure_ascii=False).encode()

    def _check(self) -> None:
        if self._breaker.open:
            raise EncoderUnavailable(self._breaker.reason or "")

    def _failure(self, fault: HttpFault | BadAnswer) -> EncoderUnavailable:
        """Count the failure; what is wrong for good opens the circuit at once."""
        sentence = self._sentence(fault)
        if isinstance(fault, HttpFault):
            for_good = fault.kind not in TRANSIENT
            self._breaker.failed(sentence, at_once=for_good, wait=fault.retry_after)
        return EncoderUnavailable(sentence)

    def _sentence(self, fault: HttpFault | BadAnswer) -> str:
        if isinstance(fault, BadAnswer):
            return str(fault)
        return SENTENCES[fault.kind].format(status=fault.status, model=self.name)


def _given(text: str) -> str:
    """The text as it is sent: services refuse an empty one."""
    return clean(text) or " "


class _TooMuch(Exception):
    """The service does not take so many texts at once."""
