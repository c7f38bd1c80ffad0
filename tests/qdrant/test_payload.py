"""Payloads, whoever wrote them, as documents."""

import copy
from typing import Any

import pytest

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.notation import part_id, point_id
from mcp_server_qdrant.qdrant.engine import Found
from mcp_server_qdrant.qdrant.payload import (
    document_of,
    further_parts,
    mark_current,
    stored_payload,
)
from mcp_server_qdrant.settings.engine import CONTENT_FIELDS

WHOLE = Document(
    id="6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7",
    collection="notes",
    text="the text",
    title="Title",
    source="file.md",
    metadata={"project": "atlas", "n": 3},
    tags=("a", "b"),
    created_at="2026-01-01T00:00:00Z",
    updated_at="2026-02-01T00:00:00Z",
    document="d1",
    chunk=1,
    chunks=3,
    start=10,
    end=18,
    dated=True,
)


def of(payload, fields=CONTENT_FIELDS) -> Document:
    return document_of("notes", 1, payload, fields)


def test_what_is_written_is_read_back():
    assert document_of("notes", WHOLE.id, stored_payload(WHOLE), CONTENT_FIELDS) == WHOLE


def test_the_payload_is_the_official_one_and_more():
    payload = stored_payload(WHOLE)

    assert payload["document"] == "the text"
    assert payload["metadata"] == {"project": "atlas", "n": 3}
    assert payload["doc"] == {
        "id": "d1",
        "chunk": 1,
        "chunks": 3,
        "start": 10,
        "end": 18,
        "date": "2026-01-01T12:00:00Z",
        "dated": True,
    }


def test_what_is_not_there_is_not_written_except_metadata():
    """The official server writes `metadata: null`, and filters by it."""
    payload = stored_payload(Document(id=1, collection="notes", text="t", document="d"))

    assert set(payload) == {"document", "metadata", "doc"}
    assert payload["metadata"] is None


def test_the_official_payload_is_read():
    document = of({"document": "text", "metadata": {"a": 1}})

    assert (document.text, document.metadata) == ("text", {"a": 1})
    assert (document.document, document.chunk, document.chunks) == (None, 0, 1)


@pytest.mark.parametrize("key", CONTENT_FIELDS)
def test_the_text_is_found_under_the_names_that_tools_use(key):
    document = of({key: "text", "page": 3})

    assert document.text == "text"
    assert document.metadata == {"page": 3}


def test_a_text_that_is_no_string_is_passed_over():
    assert of({"document": {"a": 1}, "text": "found"}).text == "found"
    assert of({"document": None, "content": "found"}).text == "found"


def test_the_configured_field_is_read():
    assert of({"story": "found", "text": "not this"}, ("story",)).text == "found"


def test_a_flat_payload_is_its_own_metadata():
    document = of({"text": "t", "author": "Ada", "year": 1843, "tags": ["x"], "source": "s"})

    assert document.metadata == {"author": "Ada", "year": 1843}
    assert (document.tags, document.source) == (("x",), "s")


def test_metadata_that_is_no_object_is_kept():
    assert of({"text": "t", "metadata": "loose"}).metadata == {"metadata": "loose"}


@pytest.mark.parametrize("payload", [None, {}])
def test_a_point_without_payload_says_so(payload):
    assert of(payload).text == "(this point has no payload)"


def test_a_point_without_text_names_what_it_has():
    text = of({"image": 3, "size": 2}).text

    assert text == (
        "(no text; payload keys: image, size. Name the one to show in QDRANT_CONTENT_FIELDS)"
    )


@pytest.mark.parametrize(
    ("payload", "field", "value"),
    [
        ({"metadata": {"title": "T"}}, "title", "T"),
        ({"name": "N"}, "title", "N"),
        ({"title": "T", "metadata": {"title": "other"}}, "title", "T"),
        ({"title": 7}, "title", None),
        ({"metadata": {"url": "http://x"}}, "source", "http://x"),
        ({"metadata": {"created_at": "2026"}}, "created_at", "2026"),
        ({"tags": "one"}, "tags", ("one",)),
        ({"metadata": {"tags": ["a", 2]}}, "tags", ("a", "2")),
        ({"tags": []}, "tags", ()),
        ({"tags": {"a": 1}}, "tags", ()),
    ],
)
def test_title_source_dates_and_tags_are_found_where_tools_put_them(payload, field, value):
    assert getattr(of({"text": "t"} | payload), field) == value


@pytest.mark.parametrize("doc", ["text", 3, ["a"], {"id": 5}, {"chunk": "x", "start": "y"}, {}])
def test_a_foreign_doc_field_does_no_harm(doc):
    document = of({"text": "t", "doc": doc})

    assert (document.document, document.chunk, document.chunks, document.start) == (
        None,
        0,
        1,
        None,
    )


@pytest.mark.parametrize("point", [7, "00000000-0000-0000-0000-000000000001"])
@pytest.mark.parametrize("version", ["a", 3, ["a"], {"a": 1}])
def test_a_version_that_another_tool_wrote_leads_nowhere(point, version):
    doc = {"id": "d", "chunk": 1, "chunks": 2, "version": version, "writing": "now"}
    document = document_of("c", point, {"text": "x", "doc": doc}, ("text",))

    assert (document.head, document.writing) == (None, None)
    assert document.version is None or isinstance(point, str)


def test_the_sections_within_a_part_are_kept_and_what_is_none_is_passed_over():
    document = Document("p", "c", "text", section="A", sections=((3, "A > B"), (9, "")))
    payload = stored_payload(document)

    assert payload["doc"]["sections"] == [[3, "A > B"], [9, ""]]
    assert document_of("c", "p", payload, ("document",)).sections == document.sections
    assert "sections" not in stored_payload(document._replace(sections=()))["doc"]
    for other in (None, "A", [1, [2], ["x", "y"], [3, "B", 4], [5, None]]):
        payload["doc"]["sections"] = other
        assert document_of("c", "p", payload, ("document",)).sections == ()


@pytest.mark.parametrize("chunks", [10**12, 0, -1, True, "3", None])
def test_a_number_of_parts_that_no_text_has_is_not_believed(chunks):
    """Their ids would be listed."""
    assert of({"text": "t", "doc": {"id": "d", "chunk": 0, "chunks": chunks}}).chunks == 1


FIRST = point_id("notes", "d", 0)


def part(version: str | None, chunk: int, **doc: Any) -> Found:
    doc = {"id": "d", "chunk": chunk, "chunks": 3, **doc}
    point = point_id("notes", "d", chunk)
    if version is not None:
        doc["version"] = version
        point = part_id(FIRST, version, chunk) if chunk else FIRST
    return Found("notes", point, 0.1, [], {"document": "text", "doc": doc})


@pytest.mark.parametrize(
    ("found", "first", "current"),
    [
        (part("b", 1), part("b", 0), True),
        (part("a", 1), part("b", 0), False),
        (part("b", 2), part("b", 0, chunks=2), False),
        (part("b", 1), None, True),
        (part("b", 1, writing=1_700_000_000), None, False),
        (part(None, 1), part(None, 0), None),  # of another maker's ids, which nobody knows
        (part("b", 0), part("b", 0), None),
        (Found("notes", 7, 0.1, [], {"text": "x"}), None, None),
        (Found("notes", 7, 0.1, [], {"doc": "x"}), None, None),
    ],
)
def test_a_further_part_is_current_if_it_is_of_the_version_of_its_first_part(found, first, current):
    """A payload and a document are judged by one rule."""
    before = copy.deepcopy(found.payload)
    further = further_parts([found])
    mark_current(further, {("notes", FIRST): first.payload} if first else {})

    assert found.current is current
    assert found.payload == before
    assert {head for _, head in further} <= {FIRST}
    if current is not None:
        document, head = (
            one and document_of("notes", one.id, one.payload, ["document"])
            for one in (found, first)
        )
        assert document.current(head) is current
