"""Which parts of texts a search shows."""

from typing import Any

from mcp_server_qdrant.core.datatypes import Document, Hit
from mcp_server_qdrant.core.notation import part_id, point_id
from mcp_server_qdrant.qdrant.payload import document_of
from mcp_server_qdrant.search.retrieve import current

HEAD = point_id("notes", "d", 0)


def document(hit: Hit) -> Document:
    return document_of(hit.collection, hit.id, hit.payload, ("document",), point_id)


def hit(version: str | None, chunk: int, **doc: Any) -> Hit:
    doc = {"id": "d", "chunk": chunk, "chunks": 3, **doc}
    point = point_id("notes", "d", chunk)
    if version is not None:
        doc["version"] = version
        point = part_id(HEAD, version, chunk) if chunk else HEAD
    return Hit("notes", point, 0.5, 0.5, 0.1, None, None, {"document": "text", "doc": doc})


def test_parts_of_replaced_texts_are_left_out_and_told():
    first, now, old = hit("b", 0), hit("b", 1, current=True), hit("a", 2, current=False)
    foreign = Hit("notes", 7, 0.5, 0.5, 0.1, None, None, {"text": "x"})

    kept, replaced = current([first, now, old, foreign], document)

    assert kept == [first, now, foreign]
    assert replaced == [document(old)]


def test_a_part_that_the_engine_could_not_compare_is_shown():
    assert current([hit(None, 1)], document) == ([hit(None, 1)], [])
