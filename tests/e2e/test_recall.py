"""Hooks as a client runs them, beside real servers: told what fits, in the right folder, fenced."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from time import monotonic

import pytest

from mcp_server_qdrant.cli.clients import CLIENTS
from mcp_server_qdrant.hosting.reach import guess_place
from tests import forked
from tests.e2e.raw import RawServer, clean_environment
from tests.qdrant_server import EITHER_ENGINE
from tests.test_distribution import PLUGIN

pytestmark = EITHER_ENGINE

COMMAND = [sys.executable, "-P", "-m", "mcp_server_qdrant"]
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
        done = forked.run([*COMMAND, *words], env=self.env, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def told(self, hooks: dict, event: str, folder: Path, session: str, **more: str) -> str:
        """What it prints that is to print something: on a busy machine it may have to try again."""
        until = monotonic() + 120
        while not (page := self.hook(hooks, event, folder, session, **more)):
            assert monotonic() < until, "nothing was told"
        return page

    def hook(self, hooks: dict, event: str, folder: Path, session: str, **more: str) -> str:
        """What the one hook of an event prints; the client's environment has no setting of ours."""
        ((one,),) = (group["hooks"] for group in hooks[event])
        told = {"hook_event_name": event, "session_id": session, "cwd": str(folder), **more}
        return self.piped(one["command"], told, folder)

    def piped(self, command: str, told: dict, folder: Path) -> str:
        """What a hook's command prints, as a client runs it in that folder."""
        done = subprocess.run(
            command,
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


# What these clients write to a hook beside the event, by their documents; their own directory.
COMMON = {"transcript_path": None, "session_id": "s1"}
CODEX = COMMON | {"model": "gpt-5.5", "permission_mode": "default"}
GEMINI = COMMON | {"timestamp": "2026-11-29T10:00:00Z"}
CURSOR = {"conversation_id": "s1", "generation_id": "g", "cursor_version": "3.20.17"} | COMMON


@pytest.mark.parametrize(
    ("flag", "file", "start", "prompt", "more"),
    [
        ("codex", ".codex/hooks.json", "SessionStart", "UserPromptSubmit", CODEX),
        ("cursor", ".cursor/hooks.json", "sessionStart", None, CURSOR),
        ("gemini-cli", ".gemini/settings.json", "SessionStart", "BeforeAgent", GEMINI),
    ],
)
def test_the_hooks_of_other_clients_answer_in_the_form_of_each(
    person, flag, file, start, prompt, more
):
    folder = person.home / "billing"
    notes(folder, database=DECIDED, colours="Invoices are printed in blue.")
    person.run("init", "--client", flag, "--recall", "--folder", str(folder), "--yes")
    hooks = json.loads((person.home / file).read_text())["hooks"]
    read = {"codex": tomllib.loads, "gemini-cli": json.loads, "cursor": json.loads}[flag]
    client = CLIENTS[flag]
    held = read((person.home / client.file[2:]).read_text())
    place = {"workspace_roots": [str(folder)]} if flag == "cursor" else {"cwd": str(folder)}

    def run(event: str, **own: str) -> str:
        (one,) = hooks[event]
        (one,) = one.get("hooks", [one])
        told = {"hook_event_name": event, **more, **place, **own}
        return person.piped(one["command"], told, person.home if flag == "cursor" else folder)

    def told(event: str, **own: str) -> str:
        until = monotonic() + 120
        while not (said := run(event, **own)):
            assert monotonic() < until, "nothing was told"
        answer = json.loads(said)
        if flag == "cursor":
            assert answer.keys() == {"additional_context"}
            return answer["additional_context"]
        context = answer["hookSpecificOutput"].pop("additionalContext")
        assert answer == {"hookSpecificOutput": {"hookEventName": event}}
        return context

    assert [run(event) for event in hooks if event in (start, prompt)] == [""] * len(hooks)
    server = RawServer(held[client.section]["qdrant"]["env"], folder)
    try:
        server.call("qdrant-find", query="invoices")
        pages = [told(start)]
        if prompt:
            asked = {"session_id": "s2", "prompt": ASKED}
            pages.append(told(prompt, **asked))
            nothing = run(prompt, **(asked | {"prompt": "rename all of the test classes please"}))
            assert nothing == ""
    finally:
        server.close()

    assert "New here:" in pages[0]
    assert DECIDED in pages[0]
    assert pages[-1].startswith("Stored notes, recalled by mcp-server-qdrant")
    assert prompt is None or FITS in pages[1]


def test_a_hook_starts_no_engine(person, env):
    place = person.home / "recall"
    hooks = {"SessionStart": [{"hooks": [{"command": f"mcp-server-qdrant recall {place}"}]}]}

    assert person.hook(hooks, "SessionStart", person.home, "s1") == ""
    assert not Path(guess_place(env)).parent.exists()


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


def test_two_servers_in_two_folders_keep_to_their_own_at_once(person, env):
    for folder in ("billing", "garden"):
        notes(person.home / folder, plan=f"The plan of the {folder}: the service runs in May.")
        person.run("ingest", str(person.home / folder), "--collection", folder)
        said = person.run("describe", folder, "--folder", str(person.home / folder))
        assert said == f"{folder}: belongs to {person.home / folder}.\n"
    own = env | {"QDRANT_RECALL_PATH": str(person.home / "recall")}
    command = f"mcp-server-qdrant recall {person.home / 'recall'}"
    hooks = {"UserPromptSubmit": [{"hooks": [{"command": command}]}]}
    (person.home / "link").symlink_to(person.home / "garden")
    places = {"billing": "billing/src", "garden": "link"}
    servers = {one: RawServer(own, person.home / path) for one, path in places.items()}
    outside = RawServer(own, person.home)
    try:
        found, stored, told = {}, {}, {}
        for one, server in servers.items():
            asked = server.call("qdrant-find", query="when does the service run in the plan")
            found[one] = {hit["collection"] for hit in asked["structuredContent"]["results"]}
            done = server.call("qdrant-store", information=f"A note on the {one}.")
            stored[one] = done["structuredContent"]["collection"]
            told[one] = person.told(
                *(hooks, "UserPromptSubmit", person.home / places[one], one),
                prompt="when does the service run in the plan?",
            )
        asked = servers["garden"].call("qdrant-find", query="plan service", collections=["*"])
        named = {hit["collection"] for hit in asked["structuredContent"]["results"]}
        asked = outside.call("qdrant-find", query="plan service")
        nobodys = {hit["collection"] for hit in asked["structuredContent"]["results"]}
        done = outside.call("qdrant-store", information="A note of nobody.")
        stored["outside"] = done["structuredContent"]["collection"]
    finally:
        for server in (*servers.values(), outside):
            server.close()

    assert found == {"billing": {"billing"}, "garden": {"garden"}}
    assert stored == {"billing": "billing", "garden": "garden", "outside": "memory"}
    assert named == nobodys == {"billing", "garden"}
    assert "> The plan of the billing" in told["billing"]
    assert "garden" not in told["billing"].replace(str(person.home), "")
    assert "> The plan of the garden" in told["garden"]
    assert "billing" not in told["garden"]


def test_recall_tells_memories_for_what_a_prompt_asks_and_no_manuals_or_web_pages(person, env):
    manuals = person.home / "manuals"
    manuals.mkdir()
    notes(manuals, git="Commit with a message and push to the harbour remote.", pier="Piers rust.")
    place = person.home / "recall"
    command = {"command": f"{sys.executable} -P -m mcp_server_qdrant recall {place}"}
    hooks = {event: [{"hooks": [command]}] for event in ("UserPromptSubmit", "SessionStart")}
    sync = json.dumps([{"path": str(manuals), "collection": "manuals"}])
    env = env | {"QDRANT_RECALL_PATH": str(place), "SYNC_SOURCES": sync}
    price = "The price of a berth rises to 46 euros, the harbour office asked for it."
    server = RawServer(env, person.home / "billing")
    try:
        server.call("qdrant-store", information=price, collection_name="memory")
        page = {
            "information": "The lift of the harbour carries 12 tonnes.",
            "collection_name": "web",
        }
        server.call("qdrant-store", **page, metadata={"source": "https://example.com/lift"})
        pin = {"information": "Be brief.", "collection_name": "memory", "tags": ["pinned"]}
        server.call("qdrant-store", **pin)
        until = monotonic() + 120
        while "push" not in str(server.call("qdrant-find", query="commit and push")):
            assert monotonic() < until

        def told(prompt: str, session: str) -> str:
            where = (hooks, "UserPromptSubmit", person.home / "garden", session)
            return person.hook(*where, prompt=prompt)

        asked = "Draft an email to the harbour office about the new price"
        started = person.told(hooks, "SessionStart", person.home / "garden", "s0")
        for number, before in enumerate(("", "@src/main.go please look\n", "KeyError: 'x'\n" * 50)):
            assert f"> {price}" in told(before + asked, f"s{number}")
        for prompt in ("commit and push", "how many tonnes does the harbour lift carry?"):
            known = person.told(hooks, "UserPromptSubmit", person.home, prompt, prompt=prompt)
            assert FITS not in known
        assert told("commit and push", "s0") == ""
    finally:
        server.close()

    assert "Pinned:" in started
    assert "> Be brief." in started
