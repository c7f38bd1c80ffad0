"""The command `eval`: faults, each one sentence and a status."""

import pytest

ROW = '[{"query": "q", "expected": "a"}]'


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (None, (), "queries.json cannot be read: No such file"),
        ("not JSON", (), "queries.json is no JSON list of labelled queries"),
        (ROW, (), "There is no collection yet"),
        (ROW, ("--collections", "a"), "no collection 'a'"),
    ],
)
def test_a_fault_is_one_sentence_and_status_2(invoke, tmp_path, content, arguments, sentence):
    path = tmp_path / "queries.json"
    if content is not None:
        path.write_text(content, "utf-8")
    done = invoke("eval", "--queries", str(path), *arguments, QDRANT_URL=":memory:")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("mcp-server-qdrant: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--queries", "q.json", "--why", "key", "shed")])
def test_either_queries_or_a_text_that_was_missed_is_given(invoke, arguments):
    done = invoke("eval", *arguments, QDRANT_URL=":memory:")

    assert (done.exit_code, done.stdout) == (2, "")
    assert "Give either --queries or --why." in done.stderr


def test_an_unknown_id_is_one_sentence(invoke):
    done = invoke("eval", "--why", "key", "shed", QDRANT_URL=":memory:", EMBEDDING_PROVIDER="none")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "mcp-server-qdrant: No text has the id 'shed'.\n"
