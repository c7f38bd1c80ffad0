"""Scores from an HTTP `/rerank` endpoint: Cohere (v1, v2), Jina, Infinity and the like, or TEI.

All but TEI take `{model, query, documents, top_n}` and answer `{"results": [{index,
relevance_score}]}`; TEI takes `{query, texts}` and answers `[{index, score}]`.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Literal

from mcp_server_qdrant.core.errors import ConfigError, RerankerUnavailable
from mcp_server_qdrant.encoders.remote.http import Answer, Endpoint, HttpFault, Kind
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
LARGEST = 1_000_000  # bytes of an answer
SENTENCES: dict[Kind, str] = {
    "late": "The reranker did not answer in time.",
    "unreachable": "The reranker cannot be reached.",
    "broken": "The reranker cannot be reached.",
    "large": "The reranker's answer is too large.",
    "redirect": "The reranker answered with a redirect (HTTP {status}): mend RERANK_URL.",
    "refused": "The reranker refused access: RERANK_API_KEY is missing or may not do this.",
    "missing": "RERANK_URL has no such endpoint or model (HTTP 404).",
    "busy": "The reranker has had too many requests (HTTP 429).",
    "failed": "The reranker failed (HTTP {status}).",
}
NOT_UNDERSTOOD = (400, 422)  # what a server says to fields it does not know


class HttpReranker:
    """One endpoint. `speech` None is found out: from the host's name, else from its answers.

    `url` may end in `/rerank` or be what goes before it; Cohere and Jina have one of their own. A
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
        try:
            self._endpoint = Endpoint(
                url or DEFAULT_URLS[speech or "cohere"],
                suffixes=("/rerank", "/reranking"),
                api_key=api_key,
                largest=LARGEST,
            )
        except ValueError as error:
            raise ConfigError(f"RERANK_URL: {error}.") from error
        self._speech = speech or _by_host(self._endpoint.host)
        self._model = model or (DEFAULT_MODELS.get(self._speech) if self._speech else None)
        self.name = self._model or self._speech or "the reranker"

    def start(self) -> None:
        """Nothing has to be loaded."""

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One score per text, in order. Raises RerankerUnavailable."""
        speech = self._speech or "infinity"
        answer = await self._post(self._body(speech, query, texts), seconds)
        if self._speech is None and answer.status in NOT_UNDERSTOOD:
            speech = "tei"
            answer = await self._post(self._body(speech, query, texts), seconds)
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

    def _body(self, speech: Speech, query: str, texts: Sequence[str]) -> bytes:
        query, texts = clean(query), [clean(text) for text in texts]
        if speech == "tei":
            body: dict[str, Any] = {"query": query, "texts": texts, "truncate": True}
        else:
            body = {"query": query, "documents": texts, "top_n": len(texts)}
            if self._model:
                body["model"] = self._model
            if speech == "jina":
                body["return_documents"] = False
        return json.dumps(body, ensure_ascii=False).encode()

    async def _post(self, body: bytes, seconds: float) -> Answer:
        try:
            return await self._endpoint.post(body, seconds)
        except HttpFault as fault:
            sentence = SENTENCES[fault.kind].format(status=fault.status)
            raise RerankerUnavailable(sentence, retry_after=fault.retry_after) from fault


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
    found: dict[int, float] = {}
    for row in rows if isinstance(rows, list) else ():
        index, value = _row(row)
        if index is not None and value is not None:
            found[index] = value
    if len(found) != count or len(rows) != count or set(found) != set(range(count)):
        raise RerankerUnavailable("The reranker's answer does not hold one score for each text.")
    return [found[index] for index in range(count)]


def _row(row: Any) -> tuple[int | None, float | None]:
    """(index, score) of one row, None for what is not one."""
    if not isinstance(row, dict):
        return None, None
    index, value = row.get("index"), row.get("relevance_score", row.get("score"))
    numbers = not isinstance(index, bool) and not isinstance(value, bool)
    if not numbers or not isinstance(index, int) or not isinstance(value, int | float):
        return None, None
    try:
        number = float(value)
    except OverflowError:
        return None, None
    return index, number if math.isfinite(number) else None
