"""Commands: what is printed, and how the process ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mcp_server_qdrant.cli.main import main
from tests.e2e.raw import clean_environment


def test_a_hook_that_cannot_be_understood_or_answered_is_silence(tmp_path):
    (tmp_path / "recall-1.json").write_text("[" * 100_000)
    (tmp_path / "recall-1.json").chmod(0o600)
    command = f"exec {sys.executable} -P -m mcp_server_qdrant recall {tmp_path}"
    for sent in (b"{}", b"[" * 100_000, b"7", b"\xff\xfe", b"", b'{"a": "\\ud800"}'):
        for more in ("", " <&-", " >&-", " >/dev/full"):
            done = subprocess.run(
                command + more, shell=True, input=sent, capture_output=True, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), (sent, more)


def test_a_browser_gets_the_key_of_the_page_by_a_file_of_ones_own(invoke, tmp_path, monkeypatch):
    launched = []
    monkeypatch.setattr(click, "launch", launched.append)

    def run(settings, transport, ready, hold, command, key):
        ready("http://h/mcp", f"http://h/viz?key={key}")
        raise KeyboardInterrupt

    monkeypatch.setattr("mcp_server_qdrant.app.http.run", run)
    monkeypatch.setattr("mcp_server_qdrant.cli.hosted.run_commands", lambda _: None)
    done = invoke("viz", "--open", QDRANT_CACHE_PATH=str(tmp_path / "cache"))

    file = tmp_path / "cache" / "viz.html"
    assert launched == [file.as_uri()]
    assert f"url={done.stdout.strip()}" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_help_shows_that_a_command_may_be_left_out():
    shown = CliRunner().invoke(main, ["--help"], prog_name="mcp-server-qdrant").output

    assert "mcp-server-qdrant [OPTIONS] [COMMAND] [ARGS]..." in shown
    assert "Without a command the server runs." in shown


@pytest.mark.skipif(sys.platform != "linux", reason="watches /proc")
def test_an_interrupt_while_the_libraries_are_imported_ends_the_process_without_a_traceback(
    tmp_path,
):
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "mcp_server_qdrant"],
        env=clean_environment({"QDRANT_URL": ":memory:"}),  # which is served in that process
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    maps = Path(f"/proc/{process.pid}/maps")
    while "pydantic_core" not in maps.read_text():
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert (out, err) == (b"", b"")
    assert process.returncode in (130, 0), "0 where it was already serving"
