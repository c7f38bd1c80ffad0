"""Scores from an HTTP `/rerank` endpoint: Cohere, Jina, Infinity and the like, or TEI.

All except TEI take `{model, query, documents, top_n}` and return `{"results": [{index,
relevance_score}]}`; TEI takes `{query, texts}` and returns `[{index, score}]`.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.errors import RerankerUnavailable
from mcp_server_qdrant.core.forms import clean
from mcp_server_qdrant.encoders.remote.http import Endpoint, ServiceFault

UNSOUND = "The reranker's answer does not hold one score for each text."


class HttpReranker:
    """One endpoint; its first response shows whether it is TEI.

    `/rerank` is appended to `url` if missing. Without a key, a name and password in it become basic
    authentication. Raises ConfigError.
    """

    logits = False
    length = 2_000

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None) -> None:
        self._endpoint = Endpoint(
            url,
            name="The reranker",
            setting="RERANK_URL",
            hint="is RERANK_MODEL right?",
            suffixes=("/rerank", "/reranking"),
            api_key=api_key,
        )
        self._tei: bool | None = None
        self._model = model
        self.name = model or "the reranker"

    def start(self) -> None:
        """Do nothing: there is no model to load."""

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
        """Close the connections."""
        await self._endpoint.close()

    def _body(self, query: str, texts: Sequence[str], *, tei: bool) -> dict[str, Any]:
        if tei:
            return {"query": query, "texts": texts, "truncate": True}
        body = {"query": query, "documents": texts, "top_n": len(texts)}
        return body | ({"model": self._model} if self._model else {})


def scores(whole: Any, count: int) -> list[float]:
    """The scores in a response, in the order of the texts, exactly one for each.

    Raises RerankerUnavailable for any other response.
    """
    rows: Any = whole.get("results", whole.get("data")) if isinstance(whole, dict) else whole
    try:
        found = {row["index"]: row.get("relevance_score", row.get("score")) for row in rows}
        if len(rows) == count:
            return [float(found[index]) for index in range(count)]
    except (TypeError, ValueError, LookupError, OverflowError, AttributeError) as error:
        raise RerankerUnavailable(UNSOUND) from error
    raise RerankerUnavailable(UNSOUND)
