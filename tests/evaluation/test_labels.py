"""Labelled queries are a JSON list, and what is wrong in them is said in a sentence."""

import json
import re
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.evaluation.labels import read_labels


@pytest.fixture
def write(tmp_path: Path):
    """Writes one query, or a text, to a file."""

    def put(content, name: str = "queries.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    return put


def either(*keys: str, value: object) -> dict:
    return {"should": [{"key": key, "match": {"value": value}} for key in keys]}


def test_ids_are_graded_listed_or_the_best_first(write):
    rows = [
        {"expected": ["b", "a"], "collections": None, "category": "tag"},
        {"expected": "b"},
        {"expect": {"ids": ["a", 7, "a"]}, "collections": "x"},
        {"expect": {"ids": {"a": 3, "b": 1, "c": 0}}, "collections": ["x", "*"]},
    ]
    labels = read_labels(write([{"query": "q"} | row for row in rows]))

    assert [label.ids for label in labels] == [
        {"b": 2, "a": 1},
        {"b": 1},
        {"a": 1, "7": 1},
        {"a": 3, "b": 1},
    ]
    assert [label.collections for label in labels] == [None, None, ("x",), ("x", "*")]
    assert labels[0].category == "tag"


def test_tags_titles_and_metadata_are_looked_for_where_tools_keep_them(write):
    expect = {"tags": ["red"], "titles": "The pot", "metadata": {"year": 2026}}
    (label,) = read_labels(write([{"query": "q", "expect": expect}]))

    assert label.ids == {}
    assert label.where == {
        "must": [
            either("tags", "metadata.tags", value="red"),
            either("title", "metadata.title", "name", "metadata.name", value="The pot"),
            either("metadata.year", "year", value=2026),
        ]
    }


def test_the_example_of_the_documents_can_be_read(write):
    page = (Path(__file__).parent.parent.parent / "docs" / "evaluation.md").read_text("utf-8")
    (example,) = re.findall(r"```json\n(\[.*?\n\])\n```", page, re.DOTALL)

    assert [bool(label.where) for label in read_labels(write(example))] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[", "queries.json is no JSON list of labelled queries (Invalid JSON: EOF while parsing"),
        ("[" * 100_000, "no JSON list of labelled queries (Invalid JSON: recursion"),
        ("# Notes", "queries.json is no JSON list of labelled queries (Invalid JSON: expected"),
        ("{}", "queries.json is no JSON list of labelled queries (Input should be a valid array"),
        ("[]", "queries.json holds no labelled query."),
        ([1], "queries.json, query 1: must be an object."),
        ([{"query": "q"}], 'query 1: It needs "expect", or "expected"'),
        ([{"query": "q", "expect": {"tags": "a"}, "expected": ["a"]}], "query 1: It needs"),
        ([{"expected": ["a"]}], "query 1: query: is required."),
        ([{"query": " ", "expected": ["a"]}], "query 1: query: must not be empty."),
        ([{"query": "a\x00", "expected": ["a"]}], "query: The text contains a NUL"),
        ([{"query": "q", "expected": []}], "query 1: expected: must not be empty."),
        ([{"query": "q", "expected": {"a": 1}}], "expected: must be a list."),
        ([{"query": "q", "expected": [1.5]}], "expected: 0: must be a string."),
        ([{"query": "q", "expect": {}}], "expect: It must hold ids with a grade above 0, or"),
        ([{"query": "q", "expect": {"tag": "a"}}], "expect: there is no 'tag'; there are ids,"),
        ([{"query": "q", "expect": {"tags": "a", "ids": "b"}}], "expect: It must hold"),
        ([{"query": "q", "expect": {"ids": {"a": 0}}}], "ids with a grade above 0"),
        ([{"query": "q", "expect": {"ids": {"a": 1.5}}}], "ids: a: must be a whole number."),
        ([{"query": "q", "expect": {"ids": {"a": -1}}}], "ids: a: must be at least 0."),
        ([{"query": "q", "expected": ["a"], "collection": "x"}], "there is no 'collection';"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence_that_says_where(write, content, sentence):
    path = write(content)

    with pytest.raises(RequestError) as caught:
        read_labels(path)

    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path):
    binary = tmp_path / "model.onnx"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(RequestError, match="is no JSON list"):
        read_labels(binary)
    with pytest.raises(RequestError, match=r"nope\.json cannot be read"):
        read_labels(tmp_path / "nope.json")
