"""A second reading of the best hits, each text beside the query.

    score = r * product of the factors        r = s, or sigmoid(s) = 1 / (1 + exp(-s)) for logits

where s is what the reranker gives. r stands in for relevance in the score alone: `relevance` stays
what it was, the number that compares across collections and queries and that a threshold is on.
Preference and age count as before, and where they are equal the order is the reranker's. Hits
beyond the pool come after it, in the order they had. Whatever goes wrong, the order stays as it was
and the outcome says so.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from mcp_server_qdrant.core.datatypes import Hit, Reranked, RerankState
from mcp_server_qdrant.core.errors import RerankerUnavailable

LEAST_SECONDS = 0.05
LONGEST_REST = 600.0


class Reranker(Protocol):
    """What scores texts. `logits` says that any number may come, and not only those in [0, 1]."""

    @property
    def name(self) -> str:
        """The model."""

    @property
    def logits(self) -> bool:
        """Whether scores are logits always; others are taken for logits where one leaves [0, 1]."""

    @property
    def length(self) -> int:
        """Characters of a text, and of the query, that it is to read."""

    def start(self) -> None:
        """Begin to load."""

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> Sequence[float]:
        """One score per text, in order. Raises RerankerUnavailable."""

    async def close(self) -> None:
        """Let everything go."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The best `pool` hits are scored in `seconds`; after a failure none are for `rest` seconds."""

    pool: int = 30
    seconds: float = 3.0
    rest: float = 30.0


class Rerank:
    """The step, which remembers a failure for a while. `reranker` None means that none is set up.

    `clock` gives seconds.
    """

    def __init__(
        self,
        reranker: Reranker | None,
        bounds: Bounds | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.reranker = reranker
        self.bounds = bounds or Bounds()
        self._clock = clock
        self._rests_until = -math.inf
        self._reason = ""

    async def apply(
        self, hits: Sequence[Hit], query: str, text: Callable[[Hit, int], str], left: float
    ) -> tuple[list[Hit], Reranked]:
        """The hits in their new order, and what became of it.

        `text` gives what is to be read of a hit in so many characters; `left` seconds remain.
        """
        pool, reranker = hits[: self.bounds.pool], self.reranker
        if reranker is None:
            return list(hits), Reranked("skipped", reason="No reranker is set up: RERANK_PROVIDER.")
        if reason := self._not_now(len(pool), left):
            return list(hits), Reranked("skipped", reranker.name, reason=reason)
        seconds = min(self.bounds.seconds, left)
        try:
            async with asyncio.timeout(seconds):
                texts = [text(hit, reranker.length)[: reranker.length] for hit in pool]
                given = await reranker.score(query[: reranker.length], texts, seconds)
            scores = checked(given, len(pool))
        except TimeoutError:
            failure = RerankerUnavailable(f"The reranker took longer than {seconds:.2g} s.")
            if seconds == self.bounds.seconds:  # else it is not to blame
                self._rest(failure)
        except RerankerUnavailable as error:
            failure = error
            if error.tried:
                self._rest(error)
        else:
            read = reordered(pool, scores, units(scores, logits=reranker.logits))
            return [*read, *hits[len(pool) :]], Reranked("applied", reranker.name, len(pool))
        state: RerankState = "degraded" if failure.tried else "skipped"
        return list(hits), Reranked(state, reranker.name, reason=str(failure))

    async def close(self) -> None:
        """Let the reranker go."""
        if self.reranker is not None:
            await self.reranker.close()

    def _not_now(self, count: int, left: float) -> str | None:
        """Why it is not worth a try."""
        rest = self._rests_until - self._clock()
        if count < 2:
            return "There is nothing to reorder."
        if rest > 0:
            return f"{self._reason} It is tried again in {math.ceil(rest)} s."
        return "The search left no time for it." if left < LEAST_SECONDS else None

    def _rest(self, failure: RerankerUnavailable) -> None:
        rest = max(self.bounds.rest, min(failure.retry_after or 0.0, LONGEST_REST))
        self._rests_until, self._reason = self._clock() + rest, str(failure)


def checked(scores: Sequence[float], count: int) -> Sequence[float]:
    """The scores, if they are `count` finite numbers and tell one text from another.

    Raises RerankerUnavailable.
    """
    if len(scores) != count or not all(map(math.isfinite, scores)):
        raise RerankerUnavailable("The reranker's scores are not one finite number for each text.")
    if len(set(scores)) == 1:
        raise RerankerUnavailable("The reranker scored all texts the same.", tried=False)
    return scores


def units(scores: Sequence[float], *, logits: bool) -> list[float]:
    """Scores on [0, 1], in the same order: as they are, or through the sigmoid where logits."""
    if not logits and all(0 <= score <= 1 for score in scores):
        return list(scores)
    return [sigmoid(score) for score in scores]


def sigmoid(logit: float) -> float:
    """1 / (1 + exp(-logit)), without overflow."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    power = math.exp(logit)
    return power / (1 + power)


def reordered(hits: Sequence[Hit], scores: Sequence[float], values: Sequence[float]) -> list[Hit]:
    """The hits by `values` times their factors; ties by `scores`, then as they were.

    Far from 0 the sigmoid maps different logits to one float, hence the first tie-break.
    """
    read = [
        hit._replace(reranked=value, score=value * math.prod(factor for _, factor in hit.factors))
        for hit, value in zip(hits, values, strict=True)
    ]
    order = sorted(range(len(read)), key=lambda place: (-read[place].score, -scores[place]))
    return [read[place] for place in order]
