"""Scores from an HTTP `/rerank` endpoint: Cohere (v1, v2), Jina, Infinity and the like, or TEI.

All but TEI take `{model, query, documents, top_n}` and answer `{"results": [{index,
relevance_score}]}`; TEI takes `{query, texts}` and answers `[{index, score}]`.
"""

import json
import logging
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx

from mcp_server_qdrant.encoders.text import clean
from mcp_server_qdrant.errors import ConfigError, RerankerUnavailable

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
            whole = httpx.URL(url or DEFAULT_URLS[speech or "cohere"])
        except httpx.InvalidURL as error:
            raise ConfigError("RERANK_URL: it is not a URL.") from error
        path = whole.path.rstrip("/")
        path = path if path.endswith(("/rerank", "/reranking")) else f"{path}/rerank"
        self._url = whole.copy_with(userinfo=b"", path=path)
        self._speech = speech or _by_host(whole.host)
        self._model = model or (DEFAULT_MODELS.get(self._speech) if self._speech else None)
        self.name = self._model or self._speech or "the reranker"
        self._headers = {b"Content-Type": b"application/json", b"Accept-Encoding": b"identity"}
        self._auth: httpx.Auth | None = None
        if api_key:
            self._headers[b"Authorization"] = f"Bearer {api_key}".encode()
        elif whole.userinfo:
            self._auth = httpx.BasicAuth(whole.username, whole.password)
        self._client: httpx.AsyncClient | None = None

    def start(self) -> None:
        """Nothing has to be loaded."""

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One score per text, in order. Raises RerankerUnavailable."""
        speech = self._speech or "infinity"
        status, answer = await self._post(self._body(speech, query, texts), seconds)
        if self._speech is None and status in NOT_UNDERSTOOD:
            speech = "tei"
            status, answer = await self._post(self._body(speech, query, texts), seconds)
        if status != httpx.codes.OK:
            raise RerankerUnavailable(
                f"The reranker did not take the request (HTTP {status}): is RERANK_MODEL right?"
            )
        found = scores(answer, len(texts))
        self._speech = speech
        return found

    async def close(self) -> None:
        """Let the connections go."""
        if self._client is not None:
            await self._client.aclose()

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

    async def _post(self, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Status and answer of one request; a status that says it all is raised."""
        try:
            async with self._opened().stream(
                "POST",
                self._url,
                content=body,
                headers=self._headers,
                auth=self._auth,
                timeout=seconds,
            ) as response:
                _refuse(response)
                answer = b""
                async for piece in response.aiter_raw():
                    answer += piece
                    if len(answer) > LARGEST:
                        raise RerankerUnavailable("The reranker's answer is too large.")
        except httpx.TimeoutException as error:
            raise RerankerUnavailable("The reranker did not answer in time.") from error
        except httpx.HTTPError as error:
            raise RerankerUnavailable("The reranker cannot be reached.") from error
        return response.status_code, answer

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            # They log whole URLs and headers, and a key may be in the query of this one.
            for name in ("httpx", "httpcore"):
                logging.getLogger(name).setLevel(logging.WARNING)
            self._client = httpx.AsyncClient(follow_redirects=False)
        return self._client


def _by_host(host: str) -> Speech | None:
    if host.endswith(("cohere.com", "cohere.ai")):
        return "cohere"
    return "jina" if host.endswith("jina.ai") else None


def _refuse(response: httpx.Response) -> None:
    """Raise what a status alone tells."""
    status = response.status_code
    wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
    sentence = None
    if response.is_redirect:
        sentence = f"The reranker answered with a redirect (HTTP {status}): mend RERANK_URL."
    elif status in (401, 403):
        sentence = "The reranker refused access: RERANK_API_KEY is missing or may not do this."
    elif status == httpx.codes.NOT_FOUND:
        sentence = "RERANK_URL has no such endpoint or model (HTTP 404)."
    elif status == httpx.codes.TOO_MANY_REQUESTS:
        sentence = "The reranker has had too many requests (HTTP 429)."
    elif response.is_server_error:
        sentence = f"The reranker failed (HTTP {status})."
    if sentence:
        raise RerankerUnavailable(sentence, retry_after=wait)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date; None where it does not."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max((when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds(), 0.0)


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
