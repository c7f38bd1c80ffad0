"""Commands in the process of the tests: to start one for each takes a second and more."""

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.settings.environment import environment_names


@pytest.fixture
def invoke(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Result]]:
    """Runs a command in the test's folder with these settings alone."""
    monkeypatch.setattr(frame.os, "_exit", sys.exit)
    monkeypatch.chdir(tmp_path)
    none = {name: None for names in environment_names().values() for name in names}
    none["EMBEDDING_MODEL_PATH"] = str(model_dir)
    interrupt = signal.getsignal(signal.SIGINT)

    def run(*arguments: str, **settings: str) -> Result:
        return CliRunner().invoke(main, arguments, env=none | settings)

    yield run
    signal.signal(signal.SIGINT, interrupt)
    gc.enable()
