"""Dense vectors from OpenAI or a compatible service: Ollama, vLLM, LM Studio, TEI."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.encoders.remote.service import (
    BadAnswer,
    ServiceEncoder,
    Vectors,
    parsed,
    unit,
)

SIZES = {  # of OpenAI's own models
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


class OpenAIEncoder(ServiceEncoder):
    """The request and the answer that all of these services know."""

    suffixes = ("/embeddings",)
    sizes = SIZES

    @override
    def request(self, texts: Sequence[str], *, query: bool) -> dict[str, Any]:
        asked: dict[str, Any] = {"model": self.name, "input": texts}
        if self._dimensions:
            asked["dimensions"] = self._dimensions
        return asked

    @override
    def answer(self, body: bytes) -> Vectors:
        return vectors(body)


def vectors(answer: bytes) -> Vectors:
    """The unit vectors of `{"data": [{"index", "embedding"}]}`, by index. Raises BadAnswer."""
    rows = parsed(answer).get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadAnswer("The embedding service's answer holds no vectors.")
    return [unit(row.get("embedding")) for row in _ordered(rows)]


def _ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By index; as they come where none has one."""
    places = [row.get("index") for row in rows]
    if all(place is None for place in places):
        return list(rows)
    by_place = {place: row for place, row in zip(places, rows, strict=True) if type(place) is int}
    if set(by_place) != set(range(len(rows))):
        raise BadAnswer("The embedding service's vectors cannot be told apart by their index.")
    return [by_place[place] for place in range(len(rows))]
