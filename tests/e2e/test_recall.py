"""Hooks as a client runs them, beside real servers: told what fits, in the right folder, fenced."""

import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from mcp_server_qdrant.hosting.reach import guess_path
from tests.e2e.raw import RawServer, clean_environment, run
from tests.qdrant_server import EITHER_ENGINE
from tests.test_distribution import PLUGIN

pytestmark = EITHER_ENGINE

DECIDED = "The billing service runs on Postgres 17, since the team knows it."
ASKED = "on which database does the billing service run?"
FITS = "Fits this prompt:"


class Person:
    """Somebody with a home of their own and Claude Code, whose hooks run in a shell."""

    def __init__(self, env: dict[str, str], home: Path) -> None:
        self.home = home
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.shell = clean_environment({}) | {"HOME": str(home), "PATH": path}
        self.env = self.shell | env

    def run(self, *words: str) -> str:
        """What a command of ours prints."""
        done = run(self.env, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def told(self, *asked: Any, **more: str) -> str:
        """What `hook` prints once it prints something, for which a busy machine may need time."""
        until = monotonic() + 120
        while not (page := self.hook(*asked, **more)):
            assert monotonic() < until, "nothing was told"
        return page

    def hook(self, hooks: dict, event: str, folder: Path, session: str, **more: str) -> str:
        """What the one hook of an event prints; the client's environment has no setting of ours."""
        ((one,),) = (group["hooks"] for group in hooks[event])
        told = {"hook_event_name": event, "session_id": session, "cwd": str(folder), **more}
        done = subprocess.run(
            one["command"],
            shell=True,
            input=json.dumps(told),
            env=self.shell,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def person(env: dict[str, str], tmp_path: Path) -> Person:
    (tmp_path / "billing" / "src").mkdir(parents=True)
    (tmp_path / "garden").mkdir()
    return Person(env, tmp_path)


def notes(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(f"# {name}\n\n{text}\n")


def test_the_hooks_that_init_writes_tell_what_fits_while_a_server_runs(person, env):
    notes(person.home / "billing", database=DECIDED, colours="Invoices are printed in blue.")
    (person.home / ".claude").mkdir()
    mine = {"model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}
    settings = person.home / ".claude" / "settings.json"
    settings.write_text(json.dumps(mine))
    folder = person.home / "billing"

    said = person.run(
        *("init", "--client", "claude-code", "--recall", "--folder", str(folder), "--yes")
    )
    written = json.loads(settings.read_text())
    hooks = written["hooks"]
    assert f'"SessionStart": "{sys.executable} -P -m mcp_server_qdrant recall ' in said
    assert "opus" not in said
    assert written | {"hooks": 0} == mine | {"hooks": 0}
    assert hooks["Stop"] == mine["hooks"]["Stop"]
    (kept,) = settings.parent.glob("settings.json.*.bak")
    assert json.loads(kept.read_text()) == mine

    prompt = {"prompt": ASKED}
    assert person.hook(hooks, "UserPromptSubmit", folder, "s1", **prompt) == ""
    assert person.hook(hooks, "SessionStart", folder, "s1") == ""

    entry = json.loads((person.home / ".claude.json").read_text())["mcpServers"]["qdrant"]
    server = RawServer(entry["env"], folder)
    try:
        server.call("qdrant-find", query="invoices")
        start = person.told(hooks, "SessionStart", folder / "src", "s2")
        told = person.told(hooks, "UserPromptSubmit", folder, "s3", **prompt)
        nothing = person.hook(
            hooks, "UserPromptSubmit", folder, "s2", prompt="rename all of the test classes please"
        )
    finally:
        status, log = server.close()

    assert (status, log) == (0, "")
    assert "New here:" in start
    assert DECIDED in start
    assert FITS in told
    assert f"> {DECIDED}" in told
    assert nothing == ""
    assert person.hook(hooks, "UserPromptSubmit", folder, "s4", **prompt) == ""

    person.run("init", "--client", "claude-code", "--no-recall", "--yes")
    left = json.loads(settings.read_text())["hooks"]
    assert {event: groups for event, groups in left.items() if groups} == mine["hooks"]


def test_a_hook_starts_no_engine(person, env):
    place = person.home / "recall"
    hooks = {"SessionStart": [{"hooks": [{"command": f"mcp-server-qdrant recall {place}"}]}]}

    assert person.hook(hooks, "SessionStart", person.home, "s1") == ""
    assert not Path(guess_path(env)).parent.exists()


def test_the_plugins_hooks_find_the_plugins_server(person, env, tmp_path):
    (tmp_path / "plugin").mkdir()

    def installed(path: str) -> dict:
        text = (PLUGIN / path).read_text()
        return json.loads(text.replace("${CLAUDE_PLUGIN_ROOT}", str(tmp_path / "plugin")))

    hooks = installed("hooks/hooks.json")["hooks"]
    (entry,) = installed(".claude-plugin/plugin.json")["mcpServers"].values()
    server = RawServer(env | entry["env"], person.home / "billing")
    try:
        server.call("qdrant-store", information=DECIDED, collection_name="billing")
        told = person.told(hooks, "UserPromptSubmit", person.home, "s1", prompt=ASKED)
    finally:
        server.close()

    assert f"> {DECIDED}" in told
    assert "stored with raw" in told
