"""Reorders the best hits by a second model, which scores each text against the query.

    score = r * product of the factors        r = s, or sigmoid(s) = 1 / (1 + exp(-s)) for logits

where s is the reranker's score. r replaces relevance only in the score: `relevance` remains the
comparable number that the threshold applies to. Preference and age still count. Hits beyond the
pool follow in their old order. If anything fails, the order is unchanged and the outcome says so.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from mcp_server_qdrant.core.breaker import Breaker
from mcp_server_qdrant.core.datatypes import Reranked, RerankState
from mcp_server_qdrant.core.errors import RerankerUnavailable
from mcp_server_qdrant.search.relevance import Hit

POOL = 30  # hits that are reranked
SECONDS = 3.0
COOLDOWN = 30.0  # seconds without a try after a failure
LEAST_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ordered hits. `best` is the most relevant one before the threshold."""

    hits: list[Hit]
    best: Hit | None
    reranked: Reranked | None


class Reranker(Protocol):
    """A model on this machine, or a service, that scores texts."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def logits(self) -> bool:
        """True if scores are logits. If False, they count as logits once one is outside [0, 1]."""

    @property
    def length(self) -> int:
        """The highest number of characters of a text, and of the query."""

    def start(self) -> None:
        """Start loading the model."""

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> Sequence[float]:
        """One score per text, in order. Raises RerankerUnavailable."""

    async def close(self) -> None:
        """Release all resources."""


class Rerank:
    """Reranks hits; pauses after a failure."""

    def __init__(
        self,
        reranker: Reranker,
        seconds: float = SECONDS,
        pool: int = POOL,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.reranker = reranker
        self.pool = pool
        self.seconds = seconds
        self._breaker = Breaker(COOLDOWN, clock=clock)

    async def apply(
        self, hits: Sequence[Hit], query: str, text: Callable[[Hit, int], str], left: float
    ) -> tuple[list[Hit], Reranked]:
        """The hits in their new order, and the outcome.

        `text(hit, n)` is the hit's text in n characters; `left` seconds remain for the search.
        """
        pool, reranker = hits[: self.pool], self.reranker
        if reason := self._not_now(len(pool), left):
            return list(hits), Reranked("skipped", reranker.name, reason=reason)
        seconds = min(self.seconds, left)
        try:
            async with asyncio.timeout(seconds):
                texts = [text(hit, reranker.length)[: reranker.length] for hit in pool]
                given = await reranker.score(query[: reranker.length], texts, seconds)
            scores = checked(given, len(pool))
        except TimeoutError:
            failure = RerankerUnavailable(f"The reranker took longer than {seconds:.2g} s.")
            if seconds == self.seconds:  # otherwise the search was late, not the reranker
                self._breaker.failed(str(failure), at_once=True)
        except RerankerUnavailable as error:
            failure = error
            if error.tried:
                self._breaker.failed(str(error), at_once=True, wait=error.retry_after)
        else:
            best = reordered(pool, scores, units(scores, logits=reranker.logits))
            return [*best, *hits[len(pool) :]], Reranked("applied", reranker.name, len(pool))
        state: RerankState = "degraded" if failure.tried else "skipped"
        return list(hits), Reranked(state, reranker.name, reason=str(failure))

    async def close(self) -> None:
        """Close the reranker."""
        await self.reranker.close()

    def _not_now(self, count: int, left: float) -> str | None:
        """The reason not to rerank now, if there is one."""
        if count < 2:
            return "There is nothing to reorder."
        if self._breaker.open:
            again = math.ceil(self._breaker.seconds_left)
            return f"{self._breaker.reason} It is tried again in {again} s."
        return "The search left no time for it." if left < LEAST_SECONDS else None


def checked(scores: Sequence[float], count: int) -> Sequence[float]:
    """The scores, if they are `count` finite numbers, not all equal. Raises RerankerUnavailable."""
    if len(scores) != count or not all(map(math.isfinite, scores)):
        raise RerankerUnavailable("The reranker's scores are not one finite number for each text.")
    if len(set(scores)) == 1:
        raise RerankerUnavailable("The reranker scored all texts the same.", tried=False)
    return scores


def units(scores: Sequence[float], *, logits: bool) -> list[float]:
    """Scores in [0, 1], in the same order; logits go through the sigmoid."""
    if not logits and all(0 <= score <= 1 for score in scores):
        return list(scores)
    return [sigmoid(score) for score in scores]


def sigmoid(logit: float) -> float:
    """1 / (1 + exp(-logit)), without overflow."""
    return (1 + math.tanh(logit / 2)) / 2


def reordered(hits: Sequence[Hit], scores: Sequence[float], values: Sequence[float]) -> list[Hit]:
    """Sort the hits by `values` times their factors; ties by `scores`, then in their old order.

    Far from 0 the sigmoid maps different logits to the same float, hence the first tie-break.
    """
    scored = [
        hit._replace(reranked=value, score=value * math.prod(factor for _, factor in hit.factors))
        for hit, value in zip(hits, values, strict=True)
    ]
    order = sorted(range(len(scored)), key=lambda place: (-scored[place].score, -scores[place]))
    return [scored[place] for place in order]
