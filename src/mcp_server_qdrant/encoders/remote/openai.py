"""Dense vectors from OpenAI or a compatible service: Ollama, vLLM, LM Studio, TEI."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.remote.service import NAME, ServiceEncoder, Vectors, normalise

SIZES = {  # dimensions of OpenAI's own models
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


class OpenAIEncoder(ServiceEncoder):
    """An encoder for the OpenAI embeddings API."""

    suffixes = ("/embeddings",)
    sizes = SIZES

    @override
    def body(self, texts: Sequence[str]) -> dict[str, Any]:
        size = {"dimensions": self._dimensions} if self._dimensions else {}
        return {"model": self.model, "input": texts, **size}

    @override
    def parse(self, response: Any) -> Vectors:
        """The vectors in `{"data": [{"index", "embedding"}]}`, sorted by index if present."""
        try:
            rows = [(row.get("index"), row["embedding"]) for row in response["data"]]
        except (TypeError, LookupError, AttributeError) as error:
            raise EncoderUnavailable(f"{NAME}'s answer contains no vectors.") from error
        if all(place is None for place, _ in rows):
            return [normalise(embedding) for _, embedding in rows]
        by_place = {place: embedding for place, embedding in rows if type(place) is int}
        if by_place.keys() != set(range(len(rows))):
            raise EncoderUnavailable(f"{NAME}'s vectors do not have distinct indexes.")
        return [normalise(by_place[place]) for place in range(len(rows))]
