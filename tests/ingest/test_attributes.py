"""What comes with a text."""

import math
from dataclasses import replace

import pytest

from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.ingest.attributes import check, fault, keep_omitted


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"a": [1, {"b": 2**63 - 1}], "c": -(2**63), "d": 1e300, "e": True, "f": "x"}],
)
def test_what_every_engine_keeps_is_taken(metadata):
    check(NewDocument("x", metadata=metadata))


def test_depth_is_no_matter():
    deep = {"a": 2**63}
    for _ in range(5000):
        deep = {"a": [deep]}
    with pytest.raises(RequestError):
        check(NewDocument("x", metadata=deep))


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"a": 2**63}, "metadata.a has more than 64 bits: give it as a text."),
        ({"a": {"b": [0, -(2**63) - 1]}}, "metadata.a.b has more than 64 bits"),
        ({"a": math.nan}, "metadata.a is nan, which JSON cannot hold"),
        ({"a": [[math.inf]]}, "metadata.a is inf, which JSON cannot hold"),
    ],
)
def test_what_one_would_alter_is_refused_by_its_key(metadata, sentence):
    with pytest.raises(RequestError) as refused:
        check(NewDocument("x", metadata=metadata))

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"metadata": {"a": "é" * 33_000}}, "has metadata of 66,008 bytes as JSON: at most 65,536"),
        ({"tags": ("x",) * 101}, "has 101 tags: at most 100 are stored"),
        ({"tags": ("x" * 129,)}, "has a tag of more than 128 characters"),
        ({"title": "x" * 1_001}, "has a title of more than 1,000 characters"),
        ({"id": "x" * 1_001}, "has an id of more than 1,000 characters"),
    ],
)
def test_more_than_a_text_should_carry_is_refused_with_the_limit(said, sentence):
    with pytest.raises(RequestError, match=f"^The text {sentence}"):
        check(NewDocument("x", **said))


def test_as_much_as_a_text_may_carry_is_taken():
    most = {"metadata": {"a": "x" * 65_528}, "tags": ("x" * 128,) * 100, "title": "x" * 1_000}

    assert fault(NewDocument("x", id="x" * 1_000, **most)) is None


def before(**fields) -> Document:
    return Document(id=1, collection="c", text="old", **fields)


def test_what_the_old_metadata_said_goes_with_it():
    said = {"name": "Old", "url": "s", "tags": ["x"]}
    old = before(metadata=said, title="Old", tags=("x",), source="s")

    other, new = NewDocument("new", metadata={"b": 2}), NewDocument("new")

    assert keep_omitted(other, old) == (other, ())
    assert keep_omitted(new, old) == (replace(new, metadata=said), ("metadata",))
