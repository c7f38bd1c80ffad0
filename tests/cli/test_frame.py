"""--env-file, and what is said on stderr of settings, for every command."""

import io
import sys
from pathlib import Path

import click
import pytest

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.cli.main import main
from tests.support import Clock

COMMANDS = {
    "": [],
    "accept-loss": ["notes"],
    "backup": ["saved"],
    "copy": ["notes", "--to", "/nowhere"],
    "describe": ["notes", "Letters"],
    "doctor": [],
    "eval": ["--queries", "queries.json"],
    "export": ["notes", "out"],
    "history": [],
    "init": ["--client", "cursor", "--yes"],
    "ingest": [".", "--collection", "notes"],
    "rebuild": [],
    "restore": ["saved"],
    "sync": [".", "--collection", "notes"],
    "token": ["ana", "--scope", "read"],
    "upgrade": ["notes"],
    "viz": [],
}


def test_every_command_is_known_here():
    shown = {name for name, one in main.commands.items() if not one.hidden}

    assert set(COMMANDS) == {"", *shown} - {"recall"}  # which reads no settings


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("token", "doctor")])
@pytest.mark.parametrize("before", [True, False])
def test_the_file_is_read_wherever_the_option_stands(invoke, command, before, tmp_path):
    (tmp_path / "queries.json").write_text('[{"query": "a", "expect": {"ids": ["a"]}}]')
    (tmp_path / "any.env").write_text("FASTMCP_PORT=nonsense")
    option, rest = ["--env-file", "any.env"], COMMANDS[command]
    words = [*option, command, *rest] if before else [command, *option, *rest]
    done = invoke(*(word for word in words if word))

    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("mcp-server-qdrant: FASTMCP_PORT: must be")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("token", "doctor")])
def test_what_lies_in_the_folder_is_named_on_stderr_before_all_else(invoke, command, tmp_path):
    (tmp_path / "queries.json").write_text('[{"query": "a", "expect": {"ids": ["a"]}}]')
    (tmp_path / ".env").write_text("QDRANT_URL=http://s3cret.example")
    words = [command, *COMMANDS[command]] if command else []
    done = invoke(*words, FASTMCP_PORT="nonsense")
    first, second = done.stderr.splitlines()

    assert done.exit_code == 2
    assert done.stdout == ""
    assert first.startswith(f"mcp-server-qdrant: {tmp_path / '.env'} is not read, ")
    assert second.startswith("mcp-server-qdrant: FASTMCP_PORT: ")
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize("style", ["text", "json"])
def test_where_logs_are_json_what_is_said_is_too(style, tmp_path, monkeypatch, capsys, caplog):
    (tmp_path / ".env").write_text("QDRANT_URL=x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOG_FORMAT", style)
    with click.Context(main):
        frame.load_settings(serving=True)
    printed = capsys.readouterr().err

    assert ("is not read" in printed) is (style == "text")
    assert ("is not read" in caplog.text) is (style == "json")


def test_the_folder_that_is_left_is_told_unless_it_has_been_removed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert frame.leave_folder() == tmp_path
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert frame.leave_folder() is None
    assert str(Path.cwd()) == sys.prefix


class Terminal(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_a_thing_is_and_how_long_it_takes(monkeypatch):
    clock, terminal = Clock(), Terminal()
    monkeypatch.setattr(frame, "monotonic", clock)
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = frame.Progress()
    progress("notes", 10, 100)
    clock.now += 60
    progress("notes", 40, 100)
    clock.now += 60
    progress("notes", 90, 100)
    progress("other\x1b", 0, 4)

    assert terminal.getvalue().split("\r\x1b[K")[1:] == [
        *("notes: 10%", "notes: 40%, 2 min left", "notes: 90%, 15 s left", "other\ufffd: 0%"),
    ]


def test_a_log_gets_a_line_every_ten_seconds(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(frame, "monotonic", clock)
    progress = frame.Progress()
    for done in range(7):
        progress("notes", 10 * done, 100)
        clock.now += 4

    assert capsys.readouterr().err.splitlines() == [
        *("notes: 30%, 28 s left", "notes: 60%, 16 s left"),
    ]
