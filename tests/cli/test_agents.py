"""The block for an agent's instructions: shown, written, renewed, and taken out without a trace."""

import pytest
from click.testing import CliRunner

from mcp_server_qdrant.cli.agents import BLOCK
from mcp_server_qdrant.cli.main import main

MINE = "# Rules\n\nTabs, not spaces.\n"


@pytest.mark.parametrize("text", [MINE, f"{MINE}\n\n", MINE.strip(), "", None])
def test_the_block_is_shown_written_and_taken_out_again(invoke, tmp_path, text):
    file = tmp_path / "CLAUDE.md"
    if text is not None:
        file.write_text(text)
    done = invoke("init", "--agents-file", str(file), "--yes")

    assert done.exit_code == 0, done.stderr
    assert [line for line in BLOCK.splitlines() if f"+ {line}".rstrip() not in done.stdout] == []
    assert "Tabs" not in done.stdout
    assert file.read_text().startswith(text or "")
    assert file.read_text().rstrip("\n").endswith(BLOCK)
    kept = [one.read_text() for one in tmp_path.glob("CLAUDE.md.*.bak")]
    assert kept == ([] if text is None else [text])
    again = invoke("init", "--agents-file", "CLAUDE.md", "--yes")
    assert again.stdout == f"{file} has this block already.\n"
    removed = invoke("init", "--remove", str(file), "--yes")
    assert removed.exit_code == 0
    assert ("Deleted, because nothing else was in it:" in removed.stdout) == (not text)
    assert (file.read_text() if file.exists() else "") == (text or "")


def test_an_older_block_is_renewed_where_it_stands(invoke, tmp_path):
    file = tmp_path / "AGENTS.md"
    old = "<!-- mcp-server-qdrant: begin -->\nold words\n<!-- mcp-server-qdrant: end -->"
    file.write_text(f"before\n\n{old}\n\nafter\n")
    done = invoke("init", "--agents-file", str(file), "--yes")

    assert "- old words" in done.stdout
    assert file.read_text() == f"before\n\n{BLOCK}\n\nafter\n"


def test_nothing_is_written_that_is_declined(tmp_path):
    file = tmp_path / "AGENTS.md"
    done = CliRunner().invoke(main, ["init", "--agents-file", str(file)], input="n\n")

    assert (done.exit_code, file.exists()) == (0, False)
    assert "qdrant-find" in done.output


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("AGENTS.md", "<!-- mcp-server-qdrant: begin -->\nmine", "without its last: fix it"),
        ("none/AGENTS.md", None, "none is not a folder."),
        (".", None, "cannot be read as text."),
    ],
)
def test_a_file_that_cannot_have_the_block_is_left_alone(invoke, tmp_path, name, text, sentence):
    if text:
        (tmp_path / name).write_text(text)
    done = invoke("init", "--agents-file", name, "--yes")

    assert done.exit_code == 2
    assert sentence in done.stderr
    assert text is None or (tmp_path / name).read_text() == text


def test_a_file_without_the_block_is_no_folder_that_is_followed(invoke, tmp_path):
    (tmp_path / "AGENTS.md").write_text(MINE)
    done = invoke(
        *("init", "--client", "cursor", "--remove", "AGENTS.md", "--yes"), HOME=str(tmp_path)
    )

    assert done.exit_code == 2
    assert "AGENTS.md is not followed; no folder is." in done.stderr
