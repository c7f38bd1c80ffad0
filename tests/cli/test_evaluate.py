"""The command `eval`: faults, each one sentence and a status."""

import pytest

ROW = '[{"query": "q", "expected": "a"}]'


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (None, ("--queries", "q.json"), "q.json cannot be read: No such file"),
        ("not JSON", ("--queries", "q.json"), "q.json is no JSON list of labelled queries"),
        (ROW, ("--queries", "q.json"), "There is no collection yet"),
        (ROW, ("--queries", "q.json", "--collections", "a"), "no collection 'a'"),
        (ROW, (), "Give either --queries or --why."),
        (ROW, ("--queries", "q.json", "--why", "key", "shed"), "Give either --queries or --why."),
        (ROW, ("--why", "key", "shed"), "No text has the id 'shed'."),
    ],
)
def test_a_fault_is_one_sentence_and_status_2(invoke, tmp_path, content, arguments, sentence):
    if content is not None:
        (tmp_path / "q.json").write_text(content, "utf-8")
    done = invoke("eval", *arguments, QDRANT_URL=":memory:")

    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr.splitlines()[-1]
