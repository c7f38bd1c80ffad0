"""Scores from an HTTP `/rerank` endpoint: Cohere (v1, v2), Jina, Infinity and the like, or TEI.

All but TEI take `{model, query, documents, top_n}` and answer `{"results": [{index,
relevance_score}]}`; TEI takes `{query, texts}` and answers `[{index, score}]`.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Any, Literal

from mcp_server_qdrant.core.errors import RerankerUnavailable
from mcp_server_qdrant.encoders.remote.http import Endpoint, ServiceFault
from mcp_server_qdrant.encoders.text import clean

Service = Literal["cohere", "jina", "infinity", "tei"]

# The address and the model of those that have one of each for everybody.
KNOWN: dict[Service, tuple[str, str]] = {
    "cohere": ("https://api.cohere.com/v2/rerank", "rerank-v3.5"),
    "jina": ("https://api.jina.ai/v1/rerank", "jina-reranker-v2-base-multilingual"),
}
UNSOUND = "The reranker's answer does not hold one score for each text."


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
            hint="is RERANK_MODEL right?",
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
        query, texts, end = clean(query), [clean(text) for text in texts], monotonic() + seconds
        for tei in (False, True) if self._tei is None else (self._tei,):
            body = self._body(query, texts, tei=tei)
            try:
                found = scores(await self._endpoint.post(body, end - monotonic()), len(texts))
            except ServiceFault as fault:
                failure = RerankerUnavailable(str(fault), retry_after=fault.retry_after)
                if not fault.refused:
                    break
            else:
                self._tei = tei
                return found
        raise failure

    async def close(self) -> None:
        """Let the connections go."""
        await self._endpoint.close()

    def _body(self, query: str, texts: Sequence[str], *, tei: bool) -> dict[str, Any]:
        if tei:
            return {"query": query, "texts": texts, "truncate": True}
        body = {"query": query, "documents": texts, "top_n": len(texts)}
        return body | ({"model": self._model} if self._model else {})


def scores(whole: Any, count: int) -> list[float]:
    """The scores in an answer by the texts' order, exactly one for each.

    Raises RerankerUnavailable where it is anything else.
    """
    rows: Any = whole.get("results", whole.get("data")) if isinstance(whole, dict) else whole
    try:
        found = {row["index"]: row.get("relevance_score", row.get("score")) for row in rows}
        if len(rows) == count:
            return [float(found[index]) for index in range(count)]
    except (TypeError, ValueError, LookupError, OverflowError, AttributeError) as error:
        raise RerankerUnavailable(UNSOUND) from error
    raise RerankerUnavailable(UNSOUND)
