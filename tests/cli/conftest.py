"""Runs commands in the test's process, since starting one takes a second or more."""

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcp_server_qdrant.__main__ import SERVICE
from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.settings.environment import environment_names


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """Runs a command in the test's folder with only these settings, and without a model.

    A model still loading at the end of the tests would abort Python; the product uses `os._exit`.
    """
    monkeypatch.setattr(frame.os, "_exit", sys.exit)
    monkeypatch.chdir(tmp_path)
    none = {name: None for names in environment_names().values() for name in names}
    none["EMBEDDING_PROVIDER"] = "none"
    interrupt = signal.getsignal(signal.SIGINT)

    def run(*arguments: str, **settings: str) -> Result:
        return CliRunner().invoke(main, arguments, env=none | settings, obj=SERVICE)

    yield run
    signal.signal(signal.SIGINT, interrupt)
    gc.enable()
