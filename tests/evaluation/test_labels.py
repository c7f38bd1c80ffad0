"""Labelled queries are read in three formats, and what is wrong in them is said in a sentence."""

import json
import os
import re
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.evaluation.labels import Label, read_labels


@pytest.fixture
def write(tmp_path: Path):
    """Writes one query, or a text, to a file."""

    def put(content, name: str = "queries.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    return put


@pytest.fixture
def beir(tmp_path: Path, write):
    """Writes a BEIR folder of two queries with these judgements."""

    def put(qrels: str, name: str = "qrels/test.tsv") -> Path:
        write('{"_id": "q1", "text": "one"}\n{"_id": "q2", "text": "two"}\n', "queries.jsonl")
        write(qrels, name)
        return tmp_path

    return put


def either(*keys: str, value: object) -> dict:
    return {"should": [{"key": key, "match": {"value": value}} for key in keys]}


def test_the_best_of_expected_ids_is_graded_above_the_others(write):
    row = {"query": "q", "expected": ["b", "a"], "collections": None, "category": "tag"}

    assert read_labels(write([row])) == [Label("q", {"b": 2, "a": 1}, category="tag")]


def test_a_single_expected_id_needs_no_second_grade(write):
    assert read_labels(write([{"query": "q", "expected": "b"}])) == [Label("q", {"b": 1})]


def test_ids_are_listed_or_graded_and_may_be_numbers(write):
    listed = {"query": "q", "expect": {"ids": ["a", 7, "a"]}}
    graded = {"query": "q", "expect": {"ids": {"a": 3, "b": 1, "c": 0}}}

    assert [label.ids for label in read_labels(write([listed, graded]))] == [
        {"a": 1, "7": 1},
        {"a": 3, "b": 1},
    ]


def test_ids_may_be_those_of_a_collection(write):
    ids = {"notes": ["a", 7], "docs": {"b": 3}}

    assert read_labels(write([{"query": "q", "expect": {"ids": ids}}])) == [
        Label("q", within={"notes": {"a": 1, "7": 1}, "docs": {"b": 3}})
    ]


def test_collections_are_one_name_or_many(write):
    rows = [{"query": "q", "expected": "a", "collections": names} for names in ("x", ["x", "*"])]

    assert [label.collections for label in read_labels(write(rows))] == [("x",), ("x", "*")]


def test_every_listed_tag_must_be_there(write):
    (label,) = read_labels(write([{"query": "q", "expect": {"tags": ["red", "new"]}}]))

    assert label.ids == {}
    assert label.where == {
        "must": [
            either("tags", "metadata.tags", value="red"),
            either("tags", "metadata.tags", value="new"),
        ]
    }


def test_any_title_and_every_metadata_value_are_looked_for_where_tools_keep_them(write):
    expect = {"titles": "The pot", "metadata": {"project": "Quill", "year": 2026}}
    (label,) = read_labels(write([{"query": "q", "expect": expect}]))

    assert label.where == {
        "must": [
            either("title", "metadata.title", "name", "metadata.name", value="The pot"),
            either("metadata.project", "project", value="Quill"),
            either("metadata.year", "year", value=2026),
        ]
    }


def test_the_example_of_the_documents_can_be_read(write):
    page = (Path(__file__).parent.parent.parent / "docs" / "evaluation.md").read_text("utf-8")
    (example,) = re.findall(r"```json\n(\[.*?\n\])\n```", page, re.DOTALL)
    first, second, third, fourth = read_labels(write(example))

    assert first.ids == {"notes/shed-key": 1}
    assert second.category == "projects"
    assert third.collections == ("meetings",)
    assert list(fourth.ids.values()) == [1, 2]


def test_json_lines_are_read_as_well_and_empty_ones_skipped(write):
    text = '\ufeff{"query": "one", "expected": "a"}\n\n{"query": "two", "expected": "b"}\n'

    assert [label.query for label in read_labels(write(text))] == ["one", "two"]


def test_a_beir_folder_gives_the_queries_that_have_a_judgement(beir):
    folder = beir("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq1\td3\t0\nq2\td1\t0\n")

    assert read_labels(folder) == [Label("one", {"d1": 2, "d2": 1})]


def test_judgements_may_lie_beside_the_queries_and_have_no_header(beir):
    assert read_labels(beir("q2\td1\t1\n", "qrels.tsv")) == [Label("two", {"d1": 1})]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[", "queries.json is not JSON ("),
        ("[" * 100_000, "queries.json is not JSON: "),
        ("[]", "queries.json holds no labelled query."),
        ("", "queries.json holds no labelled query."),
        ("# Notes", "queries.json, line 1 is not JSON ("),
        ('\n"text"', "queries.json, line 2: Input should be"),
        ([1], "queries.json, query 1: Input should be"),
        ([{"query": "q"}], 'query 1: It needs "expect", or "expected"'),
        ([{"query": "q", "expect": {"tags": "a"}, "expected": ["a"]}], "query 1: It needs"),
        ([{"expected": ["a"]}], "query 1: query: Field required."),
        ([{"query": " ", "expected": ["a"]}], "query 1: query: String should have at least 1"),
        ([{"query": "a\x00", "expected": ["a"]}], "query: The text contains a NUL"),
        ('[{"query": "\\ud800", "expected": ["a"]}]', "query: The text is broken Unicode"),
        ([{"query": "q", "expected": []}], "query 1: expected: Value should have at least 1"),
        ([{"query": "q", "expected": {"a": 1}}], "expected: Input should be a valid"),
        ([{"query": "q", "expected": [1.5]}], "expected: 0: Input should be a valid string"),
        ([{"query": "q", "expect": {}}], "expect: It must hold ids with a grade above 0, or"),
        ([{"query": "q", "expect": {"tag": "a"}}], "expect: there is no 'tag'; there are ids,"),
        ([{"query": "q", "expect": {"tags": []}}], "expect: It must hold"),
        ([{"query": "q", "expect": {"tags": "a", "ids": "b"}}], "expect: It must hold"),
        ([{"query": "q", "expect": {"ids": {"a": 0}}}], "ids with a grade above 0"),
        ([{"query": "q", "expect": {"ids": {"a": 1, "b": ["c"]}}}], "ids: b: Input should be"),
        ([{"query": "q", "expect": {"ids": {"a": 1.5}}}], "ids: a: Input should be"),
        ([{"query": "q", "expect": {"ids": {"a": -1}}}], "ids: a: Input should be"),
        ([{"query": "q", "expect": {"ids": {"a": 10**400}}}], "ids: a: "),
        ([{"query": "q", "expect": {"metadata": {"a": 1.5}}}], "expect: metadata: a: "),
        ([{"query": "q", "expect": {"metadata": "a"}}], "expect: metadata: Input should be"),
        ([{"query": "q", "expected": ["a"], "category": 1}], "category: Input should be"),
        ([{"query": "q", "expected": ["a"], "collections": []}], "collections: Value should"),
        ([{"query": "q", "expected": ["a"], "collection": "x"}], "there is no 'collection';"),
        ("hello", "queries.json, line 1 is not JSON (Expecting value"),
        ('{"query": "q", "expected": "a"}\n{', "queries.json, line 2 is not JSON (Expecting"),
        ("[1", "queries.json is not JSON (Expecting ',' delimiter: line 1 column 3 (char 2)): lab"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence_that_says_where(write, content, sentence):
    path = write(content)

    with pytest.raises(RequestError) as caught:
        read_labels(path)

    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("qrels", "sentence"),
    [
        ("q1\td1\t1\nq1 d2 1\n", "qrels/test.tsv, line 2 is not query id, document id and grade."),
        ("q1\td1\t1\nq9\td2\t1\n", "names query 'q9', which queries.jsonl has not."),
        ("q1\td1\t0\n", "holds no labelled query."),
        ("q1\td1\t1\nq1\td2\t--1\n", "qrels/test.tsv, line 2 is not query id, document id and"),
        (f"q1\td1\t1\nq1\td2\t{'9' * 5_000}\n", "qrels/test.tsv, line 2 is not query id,"),
        ("query-id\tcorpus-id\tscore\n", "holds no labelled query."),
    ],
)
def test_what_is_wrong_with_judgements_is_said(beir, qrels, sentence):
    with pytest.raises(RequestError, match=sentence):
        read_labels(beir(qrels))


def test_a_folder_without_queries_or_judgements_is_none_of_beir(tmp_path, write):
    with pytest.raises(RequestError, match=r"queries\.jsonl cannot be read"):
        read_labels(tmp_path)
    write('{"_id": "q1", "text": "one"}', "queries.jsonl")
    with pytest.raises(RequestError, match=r"neither qrels/test\.tsv nor qrels\.tsv"):
        read_labels(tmp_path)
    write('{"text": "one"}', "queries.jsonl")
    with pytest.raises(RequestError, match=r"queries\.jsonl, line 1 has no _id"):
        read_labels(tmp_path)


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path):
    binary = tmp_path / "model.onnx"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(RequestError, match="is not UTF-8"):
        read_labels(binary)
    with pytest.raises(RequestError, match=r"nope\.json cannot be read"):
        read_labels(tmp_path / "nope.json")
    if os.geteuid():
        binary.chmod(0)
        with pytest.raises(RequestError, match="cannot be read"):
            read_labels(binary)
