"""Which parts of texts a search shows."""

from typing import Any

from mcp_server_qdrant.core.notation import part_id, point_id
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.retrieve import current
from tests.support import read_hit

HEAD = point_id("notes", "d", 0)


def hit(version: str | None, chunk: int, **doc: Any) -> Hit:
    doc = {"id": "d", "chunk": chunk, "chunks": 3, **doc}
    point = point_id("notes", "d", chunk)
    if version is not None:
        doc["version"] = version
        point = part_id(HEAD, version, chunk) if chunk else HEAD
    payload = {"document": "text", "doc": doc}
    return read_hit(Hit("notes", point, 0.5, 0.5, 0.1, None, None, payload))


def test_parts_of_replaced_texts_are_left_out_and_told():
    first, now, old = hit("b", 0), hit("b", 1, current=True), hit("a", 2, current=False)
    foreign = Hit("notes", 7, 0.5, 0.5, 0.1, None, None, {"text": "x"})

    kept, replaced = current([first, now, old, foreign])

    assert kept == [first, now, foreign]
    assert replaced == [old.document]


def test_a_part_that_the_engine_could_not_compare_is_shown():
    assert current([hit(None, 1)]) == ([hit(None, 1)], [])
