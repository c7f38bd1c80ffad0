"""A new provider is its request and its answer; all else is the same for each."""

from typing import Any

from mcp_server_qdrant.encoders.remote.service import ServiceEncoder, unit
from tests.embedding_stub import as_json, served


class Other(ServiceEncoder):
    """A provider that tells queries from documents, and answers with bare vectors."""

    suffixes = ("/v2/embed",)

    def request(self, texts, *, query):
        return {"texts": texts, "for": "search_query" if query else "search_document"}

    def answer(self, whole):
        return [unit(one) for one in whole["embeddings"]]


def bare(most: int = 100):
    """Answers with as many vectors as texts, up to so many at once."""

    def answer(body: dict[str, Any]):
        count = len(body["texts"])
        if count > most:
            return as_json({"message": "too many texts"}, 400)
        return as_json({"embeddings": [[3.0, 4.0]] * count})

    return answer


async def test_a_query_is_asked_for_as_such():
    with served() as stub:
        stub.replies = [bare()] * 2
        encoder = Other("embed-v4", stub.url)
        await encoder.encode_query("what?")
        await encoder.encode_documents(["that"])
        await encoder.close()

    assert [body["for"] for body in stub.bodies] == ["search_query", "search_document"]
    assert stub.requests[0][0].endswith("/v2/embed")
