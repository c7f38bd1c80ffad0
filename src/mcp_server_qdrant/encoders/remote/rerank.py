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
from mcp_server_qdrant.encoders.remote.http import Endpoint, HttpFault
from mcp_server_qdrant.encoders.text import clean

Speech = Literal["cohere", "jina", "infinity", "tei"]

DEFAULT_URLS: dict[Speech, str] = {
    "cohere": "https://api.cohere.com/v2/rerank",
    "jina": "https://api.jina.ai/v1/rerank",
}
DEFAULT_MODELS: dict[Speech, str] = {
    "cohere": "rerank-v3.5",
    "jina": "jina-reranker-v2-base-multilingual",
}
UNSOUND = "The reranker's answer does not hold one score for each text."
NOT_UNDERSTOOD = (400, 422)  # what a server says to fields it does not know


class HttpReranker:
    """One endpoint. A `speech` of None is detected: by the host's name, else by its answers.

    `url` may end in `/rerank` or lack that; Cohere and Jina have a default. A
    name and password in it become basic authentication, unless there is a key. Raises ConfigError.
    """

    logits = False
    length = 2_000

    def __init__(
        self,
        url: str | None,
        *,
        speech: Speech | None = None,
        model: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self._endpoint = Endpoint(
            url or DEFAULT_URLS[speech or "cohere"],
            name="The reranker",
            setting="RERANK_URL",
            suffixes=("/rerank", "/reranking"),
            api_key=api_key,
        )
        self._speech = speech or _by_host(self._endpoint.url.host)
        self._model = model or (DEFAULT_MODELS.get(self._speech) if self._speech else None)
        self.name = self._model or self._speech or "the reranker"

    def start(self) -> None:
        """Nothing has to be loaded."""

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One score per text, in order. Raises RerankerUnavailable."""
        speech = self._speech or "infinity"
        query, texts = clean(query), [clean(text) for text in texts]
        end = monotonic() + seconds
        try:
            answer = await self._endpoint.post(self._body(speech, query, texts), seconds)
            if self._speech is None and answer.status in NOT_UNDERSTOOD:
                speech, left = "tei", end - monotonic()
                answer = await self._endpoint.post(self._body(speech, query, texts), left)
        except HttpFault as fault:
            raise RerankerUnavailable(str(fault), retry_after=fault.retry_after) from fault
        if not answer.ok:
            raise RerankerUnavailable(
                f"The reranker did not take the request (HTTP {answer.status}): "
                "is RERANK_MODEL right?"
            )
        found = scores(answer.body, len(texts))
        self._speech = speech
        return found

    async def close(self) -> None:
        """Let the connections go."""
        await self._endpoint.close()

    def _body(self, speech: Speech, query: str, texts: Sequence[str]) -> dict[str, Any]:
        if speech == "tei":
            return {"query": query, "texts": texts, "truncate": True}
        body = {"query": query, "documents": texts, "top_n": len(texts)}
        if self._model:
            body["model"] = self._model
        if speech == "jina":
            body["return_documents"] = False
        return body


def _by_host(host: str) -> Speech | None:
    if host.endswith(("cohere.com", "cohere.ai")):
        return "cohere"
    return "jina" if host.endswith("jina.ai") else None


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
