"""Scores from an HTTP `/rerank` endpoint: Cohere (v1, v2), Jina, Infinity and the like, or TEI.

All but TEI take `{model, query, documents, top_n}` and answer `{"results": [{index,
relevance_score}]}`; TEI takes `{query, texts}` and answers `[{index, score}]`.
"""

import json
import math
from collections.abc import Sequence
from time import monotonic
from typing import Any, Literal

from mcp_server_qdrant.core.errors import RerankerUnavailable
from mcp_server_qdrant.encoders.remote.http import OK, Endpoint, HttpFault
from mcp_server_qdrant.encoders.text import clean

Service = Literal["cohere", "jina", "infinity", "tei"]

# The address and the model of those that have one of each for everybody.
KNOWN: dict[Service, tuple[str, str]] = {
    "cohere": ("https://api.cohere.com/v2/rerank", "rerank-v3.5"),
    "jina": ("https://api.jina.ai/v1/rerank", "jina-reranker-v2-base-multilingual"),
}
UNSOUND = "The reranker's answer does not hold one score for each text."
NOT_UNDERSTOOD = (400, 422)  # what a server says to fields it does not know


class HttpReranker:
    """One endpoint. Without a `service`, the first answer tells whether it is TEI.

    `url` may end in `/rerank` or lack that; Cohere and Jina have a default. A
    name and password in it become basic authentication, unless there is a key. Raises ConfigError.
    """

    logits = False
    length = 2_000

    def __init__(
        self,
        url: str | None,
        *,
        service: Service | None = None,
        model: str | None = None,
        api_key: str | None = None,
    ) -> None:
        known_url, known_model = KNOWN.get(service or "infinity", ("", None))
        self._endpoint = Endpoint(
            url or known_url,
            name="The reranker",
            setting="RERANK_URL",
            suffixes=("/rerank", "/reranking"),
            api_key=api_key,
        )
        self._tei = None if service is None else service == "tei"
        self._model = model or known_model
        self.name = self._model or service or "the reranker"

    def start(self) -> None:
        """Nothing has to be loaded."""

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One score per text, in order. Raises RerankerUnavailable."""
        query, texts = clean(query), [clean(text) for text in texts]
        tei, end = self._tei or False, monotonic() + seconds
        try:
            answer = await self._endpoint.post(self._body(query, texts, tei=tei), seconds)
            if self._tei is None and answer.status_code in NOT_UNDERSTOOD:
                tei, left = True, end - monotonic()
                answer = await self._endpoint.post(self._body(query, texts, tei=tei), left)
        except HttpFault as fault:
            raise RerankerUnavailable(str(fault), retry_after=fault.retry_after) from fault
        if answer.status_code != OK:
            raise RerankerUnavailable(
                f"The reranker did not take the request (HTTP {answer.status_code}): "
                "is RERANK_MODEL right?"
            )
        found = scores(answer.content, len(texts))
        self._tei = tei
        return found

    async def close(self) -> None:
        """Let the connections go."""
        await self._endpoint.close()

    def _body(self, query: str, texts: Sequence[str], *, tei: bool) -> dict[str, Any]:
        if tei:
            return {"query": query, "texts": texts, "truncate": True}
        body = {"query": query, "documents": texts, "top_n": len(texts)}
        return body | ({"model": self._model} if self._model else {})


def scores(answer: bytes, count: int) -> list[float]:
    """The scores in an answer by the texts' order, exactly one finite number for each.

    Raises RerankerUnavailable where it is anything else.
    """
    try:
        rows = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise RerankerUnavailable("The reranker's answer is not JSON.") from error
    if isinstance(rows, dict):
        rows = rows.get("results", rows.get("data"))
    try:
        found = {row["index"]: _score(row) for row in rows}
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise RerankerUnavailable(UNSOUND) from error
    if len(rows) != count or found.keys() != set(range(count)):
        raise RerankerUnavailable(UNSOUND)
    return [found[index] for index in range(count)]


def _score(row: dict[str, Any]) -> float:
    """The score in a row. Raises ValueError or the like where there is none, or no sound index."""
    value = row.get("relevance_score", row.get("score"))
    if (
        type(row["index"]) is not int
        or isinstance(value, bool)
        or not isinstance(value, int | float)
    ):
        raise ValueError("a row needs a whole number as its index, and a number as its score")
    score = float(value)
    if not math.isfinite(score):
        raise ValueError("a score is not finite")
    return score
