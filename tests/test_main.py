"""The console script imports nothing from the folder that it is started in."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_server_qdrant import __main__
from tests.e2e.raw import clean_environment

SCRIPT = Path(sys.executable).with_name("mcp-server-qdrant")
MODULE = [sys.executable, "-m", "mcp_server_qdrant"]


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder of modules that are named like those which the command imports."""
    for name in ("asyncio", "click", "gc", "json", "signal", "typing_extensions"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the folder')")
    return tmp_path


@pytest.mark.parametrize("command", [MODULE, [sys.executable, str(SCRIPT)]])
@pytest.mark.parametrize("path", ["", os.pathsep, f"{os.pathsep}/nowhere{os.pathsep}"])
def test_a_module_of_the_folder_is_not_imported(command, path, planted):
    done = subprocess.run(
        [*command, "--version"],
        env=clean_environment({"PYTHONPATH": path}),
        cwd=planted,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "version" in done.stdout


def test_a_folder_that_is_gone_is_no_fault(tmp_path):
    code = (
        "import os, sys, tempfile\n"
        "folder = tempfile.mkdtemp()\nos.chdir(folder)\nos.rmdir(folder)\n"
        "from mcp_server_qdrant.__main__ import main\n"
        "sys.argv[1:] = ['--version']\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ([], None),
        (["--transport", "stdio"], None),
        (["--env-file", "x"], "x"),
        (["--env-file=x", "--transport=stdio"], "x"),
        (["--transport", "stdio", "--env-file", "x=y"], "x=y"),
    ],
)
def test_a_server_parse_stdio_options_is_a_pipe(arguments, file, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(gc, "disable", lambda: None)
    monkeypatch.setattr(sys, "argv", ["mcp-server-qdrant", *arguments])
    given = []

    def run_stdio(*what: object) -> None:
        given.append(what)
        raise SystemExit

    monkeypatch.setattr("mcp_server_qdrant.hosting.pipe.run_stdio", run_stdio)
    with pytest.raises(SystemExit):
        __main__.main()

    service = (sys.executable, "-P", "-m", "mcp_server_qdrant.cli.service")
    assert given == [(service, arguments, file)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--transport", "sse"],
        ["--transport"],
        ["--env-file"],
        ["--env-file="],
        ["--help"],
        ["sync"],
        ["--env-file", "x", "sync"],
        ["--transport", "stdio", "extra"],
    ],
)
def test_anything_else_is_none(arguments):
    assert __main__._parse_stdio_options(arguments) is None
