"""The console script imports nothing from the folder that it is started in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
