"""A document is one hit."""

from mcp_server_qdrant.search.ranking import group_parts
from mcp_server_qdrant.search.relevance import Hit
from tests.support import read_hit


def hit(point, relevance=0.5, collection="a", document=None, **payload) -> Hit:
    if document:
        payload["doc"] = {"id": document, "chunk": 0, "chunks": 2}
    payload.setdefault("document", f"text {point}")
    made = Hit(collection, point, relevance, relevance, 0.01, relevance, None, payload)
    return read_hit(made)


def test_a_document_is_shown_by_its_best_chunk():
    hits = [hit(1, 0.9, document="d"), hit(2, 0.8, document="e"), hit(3, 0.7, document="d")]

    assert [h.id for h in group_parts(hits)] == [1, 2]
    assert [[part.id for part in h.parts] for h in group_parts(hits)] == [[3], []]


def test_documents_of_the_same_id_in_two_collections_are_two():
    hits = [hit(1, document="d"), hit(1, collection="b", document="d")]

    assert group_parts(hits) == hits


def test_points_that_other_tools_wrote_are_documents_each():
    hits = [hit(1), hit(2), hit("3", doc="no object"), hit("4", doc={"id": 5})]

    assert group_parts(hits) == hits
