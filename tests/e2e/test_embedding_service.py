"""The real server with an embedding service."""

from tests.e2e.raw import RawServer, text_of
from tests.embedding_stub import served


def test_a_text_is_stored_and_found_with_the_vectors_of_a_service(env, tmp_path):
    with served() as stub:
        values = {
            "EMBEDDING_PROVIDER": "openai",
            "EMBEDDING_SERVICE_URL": stub.url,
            "EMBEDDING_MODEL": "acme/Bag",
            "EMBEDDING_API_KEY": "s3cr3t",
        }
        server = RawServer(env | values | {"FASTMCP_LOG_LEVEL": "DEBUG"}, tmp_path)
        server.call("qdrant-store", information="roses need sun", collection_name="notes")
        found = text_of(server.call("qdrant-find", query="sun roses", algorithm="semantic"))
        listed = text_of(server.call("qdrant-collections"))
        status, log = server.close()

    assert "roses need sun" in found
    assert "acme/Bag" in listed
    assert {headers["Authorization"] for _, headers, _ in stub.requests} == {"Bearer s3cr3t"}
    assert status == 0
    assert "s3cr3t" not in log
