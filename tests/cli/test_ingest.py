"""The commands `ingest` and `sync`: faults, and what a person reads on the way and afterwards."""

import pytest

from mcp_server_qdrant.cli.ingest import summary
from mcp_server_qdrant.ingest.files.state import Report
from mcp_server_qdrant.ingest.files.walk import Problem


@pytest.fixture(autouse=True)
def notes(tmp_path):
    """A text where the command runs."""
    (tmp_path / "key.md").write_text("# Key\n\nThe key is under the flower pot.\n")


@pytest.mark.parametrize(
    ("command", "env", "sentence"),
    [
        ("ingest no/such --collection c", {}, "does not exist"),
        ("ingest .", {}, "Name a collection with --collection"),
        ("ingest . --collection a/b", {}, "cannot be a collection's name"),
        ("ingest . --collection c", {"QDRANT_READ_ONLY": "1"}, "QDRANT_READ_ONLY is set"),
        ("ingest . --collection c", {"QDRANT_COLLECTIONS": "d"}, "may not use a collection"),
        ("sync . --collection c --name a/b", {}, "must not contain a slash"),
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


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (Report(pending=True), "Only keywords find these texts"),
        (Report(), "no files to read here"),
        (Report(texts=1), "; 1 text in"),
    ],
)
def test_what_is_unusual_is_explained(report, sentence):
    assert sentence in "".join(summary(report, "notes", dry_run=False))


def test_the_summary_counts_and_names_every_file_that_is_not_there():
    report = Report(unchanged=7, texts=5000, seconds=110.0)
    report.new, report.changed, report.removed = ["a"] * 1200, ["b"] * 34, ["x"]
    report.notes = [("n/list.jsonl", "line 3 is not JSON")]
    report.problems = [Problem("n/b\x1b[2J.md", "is binary"), Problem("n/a.md", "is shut", True)]

    assert list(summary(report, "notes", dry_run=False)) == [
        "notes: 1,200 new, 34 changed, 1 removed, 7 unchanged, 2 not read; 5,000 texts in 110.0 s.",
        "Stored, with a note (1):",
        "  n/list.jsonl line 3 is not JSON",
        "Not read (2):",
        "  n/a.md is shut (its stored text is kept)",
        "  n/b\ufffd[2J.md is binary",
    ]


def test_a_dry_run_names_what_would_be_done():
    report = Report(
        files=4, new=["n/a", "n/d"], changed=["n/b"], removed=["n/c"], moved={"n/d": "n/c"}
    )

    assert list(summary(report, "notes", dry_run=True)) == [
        "notes (dry run): 2 new, 1 changed, 1 removed, 0 unchanged, 0 not read.",
        "  + n/a",
        "  + n/d, moved from n/c",
        "  ~ n/b",
        "  - n/c",
    ]
