"""The commands `ingest` and `sync`: faults, each one sentence and a status."""

import pytest


@pytest.fixture(autouse=True)
def notes(tmp_path):
    """A text where the command runs."""
    (tmp_path / "key.md").write_text("# Key\n\nThe key is under the flower pot.\n")


@pytest.mark.parametrize(
    ("command", "env", "sentence"),
    [
        ("ingest no/such --collection c", {}, "There is no "),
        ("ingest .", {}, "Name a collection with --collection"),
        ("ingest . --collection a/b", {}, "cannot be a collection's name"),
        ("ingest . --collection c", {"QDRANT_READ_ONLY": "1"}, "QDRANT_READ_ONLY is set"),
        ("ingest . --collection c", {"QDRANT_COLLECTIONS": "d"}, "may not use a collection"),
        ("sync . --collection c --include !", {}, "patterns are those of .gitignore"),
        ("sync . --collection c --name a/b", {}, "must not hold a slash"),
        ("ingest . --collection c --csv title", {}, "--csv: 'title' has no =, as in title={name}."),
        ("ingest . --collection c --csv body={a}", {}, "--csv: a text has no part 'body'"),
    ],
)
def test_a_fault_is_one_sentence_and_status_2(invoke, command, env, sentence):
    done = invoke(*command.split(), **{"QDRANT_URL": ":memory:"} | env)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("mcp-server-qdrant: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


def test_an_engine_that_is_away_is_status_1(invoke):
    done = invoke("ingest", ".", "--collection", "notes", QDRANT_URL="http://127.0.0.1:9")

    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "cannot be reached" in done.stderr
