"""Which parts of texts a search shows."""

from collections.abc import Mapping
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, Hit, Status
from mcp_server_qdrant.core.notation import part_id, point_id
from mcp_server_qdrant.qdrant.payload import read
from mcp_server_qdrant.search.payloads import current

HEAD = point_id("notes", "d", 0)


def document(hit: Hit) -> Document:
    return read(hit.collection, hit.id, hit.payload, ("document",), point_id)


def hit(version: str | None, chunk: int, **doc: Any) -> Hit:
    doc = {"id": "d", "chunk": chunk, "chunks": 3, **doc}
    point = point_id("notes", "d", chunk)
    if version is not None:
        doc["version"] = version
        point = part_id(HEAD, version, chunk) if chunk else HEAD
    return Hit("notes", point, 0.5, 0.5, 0.1, None, None, {"document": "text", "doc": doc})


class Firsts:
    """What is asked about first parts; `notes` fails where there is no answer."""

    def __init__(self, answer: Mapping[str, Any] | None) -> None:
        self.asked: list[Any] = []
        self._answer = answer

    async def __call__(self, wanted: Mapping[str, set[Any]]) -> Any:
        if wanted:
            self.asked.append(wanted)
        if self._answer is None:
            return {}, [Status("notes", "failed", "gone")]
        return {("notes", HEAD): {"doc": self._answer}} if self._answer else {}, []


PRESENT = {"id": "d", "chunk": 0, "chunks": 3, "version": "b"}


async def shown(hits: list[Hit], firsts: Firsts) -> tuple[list[Hit], list[Hit], list[Status]]:
    kept, replaced, late = await current(hits, document, firsts)
    return kept, [one for one in hits if document(one) in replaced], late


async def test_first_parts_and_texts_of_one_part_are_shown_without_asking():
    hits = [hit("a", 0), hit(None, 0), Hit("notes", 7, 0.5, 0.5, 0.1, None, None, {"text": "x"})]
    firsts = Firsts(None)

    assert await shown(hits, firsts) == (hits, [], [])
    assert firsts.asked == []


async def test_parts_of_another_version_than_the_present_one_are_left_out():
    old, new, draft = hit("a", 1), hit("b", 2), hit("c", 1, writing=5)

    assert await shown([old, new, draft], Firsts(PRESENT)) == ([new], [old, draft], [])


async def test_parts_from_before_there_were_versions_go_with_a_first_part_of_that_time():
    part, beyond = hit(None, 2), hit(None, 3)
    legacy = {"id": "d", "chunk": 0, "chunks": 3}

    assert await shown([part, beyond], Firsts(legacy)) == ([part], [beyond], [])
    assert await shown([part, beyond], Firsts(PRESENT)) == ([], [part, beyond], [])


async def test_without_a_first_part_only_what_was_never_finished_is_left_out():
    orphan, draft = hit("a", 1), hit("a", 2, writing=5)

    assert await shown([orphan, draft], Firsts({})) == ([orphan], [draft], [])


async def test_what_the_engine_told_with_a_hit_is_not_asked_again():
    told, gone = hit("b", 1, current=True), hit("a", 2, current=False)
    firsts = Firsts(None)

    kept, replaced, _ = await shown([told, gone], firsts)

    assert (kept, replaced, firsts.asked) == ([told], [gone], [])


async def test_where_nobody_can_say_further_parts_are_left_out_and_the_collection_is_named():
    hits = [hit("a", 0), hit("a", 1)]

    assert await shown(hits, Firsts(None)) == (hits[:1], [], [Status("notes", "failed", "gone")])
