"""The JavaScript of the page and the app, tested by node without a browser."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mcp_server_qdrant.http.page.app import MODULES, script

HERE = Path(__file__).parent / "viz"


def node() -> str | None:
    """The node of Playwright, which comes with the tests' dependencies, or that of the system."""
    try:
        from playwright._impl._driver import compute_driver_executable
    except ImportError:
        return shutil.which("node")
    own, _ = compute_driver_executable()
    return own if Path(own).exists() else shutil.which("node")


def test_the_modules_pass_their_tests_under_node():
    if (program := node()) is None:
        pytest.skip("no node: pip install playwright, or apt-get install nodejs")
    done = subprocess.run(
        [program, "--no-warnings", "--experimental-vm-modules", "--test", *HERE.glob("*.test.js")],
        env=os.environ | {"APP": json.dumps({"modules": MODULES, "script": script()})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "fail 0" in done.stdout
