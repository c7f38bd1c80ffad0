"""Planted faults: `doctor` finds each, and following its line mends it. `init` in an empty home."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_server_qdrant.cli import clients
from mcp_server_qdrant.cli.clients import CLIENTS
from mcp_server_qdrant.cli.doctor import Examination
from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.core.datatypes import CollectionInfo
from mcp_server_qdrant.core.errors import EngineFailure
from tests import forked
from tests.made_sessions import exchange, written
from tests.rerank_stub import served
from tests.support import make_settings


@dataclass
class Person:
    """A person with a home of their own, who runs commands and follows what they are told."""

    home: Path
    env: dict[str, str | None]
    invoke: Callable[..., Any]

    def run(self, *words: str) -> Any:
        return self.invoke(*words, **self.env)

    def checks(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit status and what was checked."""
        done = self.run("doctor", "--json")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, json.loads(done.stdout)

    def doctor(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit status and the problems."""
        status, checks = self.checks()
        return status, [one for one in checks if not one["ok"]]

    def follow(self, line: str) -> None:
        if found := re.match(r"unset (\w+)", line):
            self.env[found[1]] = None
        elif found := re.match(r"Remove (\w+) from (.+)", line):
            path = Path(found[2])
            kept = [one for one in path.read_text().splitlines() if found[1] not in one]
            path.write_text("\n".join(kept))
        elif line.startswith("export "):
            name, _, value = shlex.split(line)[1].partition("=")
            self.env[name] = value
        elif line.startswith("Fix "):
            path = Path(line.removeprefix("Fix ").split(", then: ")[0])
            path.write_text(path.read_text() + "}")
        elif line.startswith("mcp-server-qdrant "):
            assert self.run(*shlex.split(line)[1:]).exit_code == 0
        else:
            subprocess.run(["sh", "-c", line], check=True)


class Started:
    """Starts what clients are configured to start: a server by `forked`."""

    TimeoutExpired = subprocess.TimeoutExpired

    @staticmethod
    def run(words: list[str], **options: Any) -> Any:
        if words[0] != sys.executable:
            return subprocess.run(words, **options)  # noqa: PLW1510
        return forked.run(words, **{k: options[k] for k in ("env", "cwd", "input", "timeout")})


@pytest.fixture
def person(invoke, tmp_path, monkeypatch) -> Person:
    monkeypatch.setattr("mcp_server_qdrant.cli.clients.SECONDS", 300.0)  # a busy machine is slow
    monkeypatch.setattr("mcp_server_qdrant.cli.clients.subprocess", Started)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    env = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local"),
        "HF_HUB_OFFLINE": "1",
        "EMBEDDING_PROVIDER": "none",
        "EMBEDDING_MODEL_PATH": None,
    }
    return Person(home, env, invoke)


def settings_file(person: Person, text: str, mode: int = 0o600) -> None:
    path = person.home / ".config" / "mcp-server-qdrant" / ".env"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(text)
    path.chmod(mode)


def variables(**values: str) -> Callable[[Person], None]:
    return lambda person: person.env.update(values)


def client(file: str, text: str) -> Callable[[Person], None]:
    """Write a client's configuration file."""

    def plant(person: Person) -> None:
        path = person.home / file
        path.parent.mkdir()
        path.write_text(text)

    return plant


def cursor(text: str) -> Callable[[Person], None]:
    return client(".cursor/mcp.json", text)


def nearly_named(person: Person) -> None:
    (person.home / "a.md").write_text("moss")
    assert person.run("ingest", str(person.home / "a.md"), "--collection", "notes").exit_code == 0
    person.env["COLLECTION_NAME"] = "note"


def no_folder(person: Person) -> None:
    person.env["SYNC_SOURCES"] = json.dumps({str(person.home / "notes"): "notes"})


def moved_folder(person: Person) -> None:
    sources = json.dumps(json.dumps({str(person.home / "old"): "notes"}))
    env = f'"env": {{"SYNC_SOURCES": {sources}}}'
    cursor(f'{{"mcpServers": {{"qdrant": {{{STARTS}, {env}}}}}}}')(person)


def empty_model(person: Person) -> None:
    (person.home / "empty").mkdir()
    person.env["EMBEDDING_MODEL_PATH"] = str(person.home / "empty")


STARTS = f'"command": {json.dumps(sys.executable)}, "args": ["-P", "-m", "mcp_server_qdrant"]'
FAULTS: dict[str, tuple[Callable[[Person], None], str, str]] = {
    "a wrong variable": (variables(FASTMCP_PORT="x"), "settings", "unset FASTMCP_PORT"),
    "a wrong line of the settings file": (
        lambda person: settings_file(person, "FASTMCP_PORT=x\n"),
        "settings",
        "Remove FASTMCP_PORT from {home}/.config/mcp-server-qdrant/.env",
    ),
    "a settings file that others may write": (
        lambda person: settings_file(person, "FASTMCP_PORT=8001\n", 0o666),
        "settings",
        "chmod go-w {home}/.config/mcp-server-qdrant/.env",
    ),
    "two engines": (
        variables(QDRANT_URL="http://127.0.0.1:1", QDRANT_LOCAL_PATH="/nowhere"),
        "settings",
        "unset QDRANT_LOCAL_PATH",
    ),
    "no reranker at its address": (
        variables(RERANK_URL="http://127.0.0.1:1/rerank"),
        "reranker",
        "unset RERANK_URL  (or repair what it names)",
    ),
    "no server at the address": (
        variables(QDRANT_URL="http://127.0.0.1:1"),
        "engine",
        "unset QDRANT_URL  (or repair what it names)",
    ),
    "a model folder without a model": (
        empty_model,
        "model",
        "unset EMBEDDING_MODEL_PATH  (or repair what it names)",
    ),
    "a model that is not spelled so": (
        variables(EMBEDDING_MODEL="all-MiniLM-L6-v2"),
        "model",
        "export EMBEDDING_MODEL=sentence-transformers/all-MiniLM-L6-v2",
    ),
    "a folder that is not there": (no_folder, "sync", "mkdir -p {home}/notes"),
    "a client that follows a folder that was moved": (
        moved_folder,
        "sync",
        "mcp-server-qdrant init --client cursor --name qdrant --yes --remove {home}/old",
    ),
    "a default collection that is not spelled so": (
        nearly_named,
        "collection",
        "export COLLECTION_NAME=notes",
    ),
    "a client whose command is gone": (
        cursor('{"mcpServers": {"qdrant": {"command": "/gone/python"}}}'),
        "client",
        "mcp-server-qdrant init --client cursor --name qdrant --yes",
    ),
    "Codex, whose command is gone": (
        client(".codex/config.toml", '[mcp_servers.qdrant]\ncommand = "/gone/python"\n'),
        "client",
        "mcp-server-qdrant init --client codex --name qdrant --yes",
    ),
    "Gemini CLI, whose command is gone": (
        client(".gemini/settings.json", '{"mcpServers": {"qdrant": {"command": "/gone/python"}}}'),
        "client",
        "mcp-server-qdrant init --client gemini-cli --name qdrant --yes",
    ),
    "a client with a wrong variable": (
        cursor(f'{{"mcpServers": {{"memory": {{{STARTS}, "env": {{\n"FASTMCP_PORT": "x"\n}}}}}}}}'),
        "client",
        "Remove FASTMCP_PORT from {home}/.cursor/mcp.json",
    ),
    "a client's file that is no JSON": (
        cursor('{"mcpServers": {}'),
        "client",
        "Fix {home}/.cursor/mcp.json, then: mcp-server-qdrant doctor",
    ),
}
OF_MODELS = ("a model folder without a model", "a model that is not spelled so")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_its_line_mends_it(fault, person, tmp_path, put_model):
    plant, check, fix = FAULTS[fault]
    if fault in OF_MODELS:
        put_model(tmp_path / "models")
        person.env["EMBEDDING_PROVIDER"] = "fastembed"
        person.env["FASTEMBED_CACHE_PATH"] = str(tmp_path / "models")
    plant(person)

    status, problems = person.doctor()
    assert (status, [one["check"] for one in problems]) == (1, [check])
    assert problems[0]["fix"] == fix.format(home=person.home)

    person.follow(problems[0]["fix"])
    _, left = person.doctor()
    if fault == "two engines":  # one of them is not there either
        assert [one["check"] for one in left] == ["engine"]
    else:
        assert left == []


def test_where_nobody_can_know_the_value_its_setting_is_named(person):
    """A service's address is never to be taken away: texts would go to another one."""
    url = "http://127.0.0.1:1/v1"
    person.env.update(EMBEDDING_PROVIDER="openai", EMBEDDING_SERVICE_URL=url, EMBEDDING_MODEL="m")
    _, problems = person.doctor()

    assert problems[0]["check"] == "embedding service"
    fix = "Check the service and the network, or set EMBEDDING_SERVICE_URL to one that answers"
    assert problems[0]["fix"].startswith(fix)


def test_the_round_trip_leaves_no_collection_and_is_skipped_where_nothing_may_be_written(person):
    said = {}
    tenants = {"QDRANT_READ_ONLY": None, "TENANT_FIELD": "t", "TENANT_ID": "red"}
    for env in ({}, {"QDRANT_READ_ONLY": "true"}, tenants):
        person.env.update(env)
        found = json.loads(person.run("doctor", "--json").stdout)
        said[str(env)] = next(one["text"] for one in found if one["check"] == "round trip")
        assert [one for one in found if one["check"] == "collection"] == []

    assert [text.split()[0] for text in said.values()] == ["A", "Skipped:", "Skipped:"]


def test_a_round_trip_that_fails_leaves_no_collection_either(person, monkeypatch):
    async def fails(*_: object) -> None:
        raise EngineFailure("The engine failed.")

    person.env["QDRANT_SHARE_PROCESS"] = "false"  # the engine is in the process of the test
    with monkeypatch.context() as patch:
        patch.setattr("mcp_server_qdrant.search.pipeline.Pipeline.search", fails)
        _, problems = person.doctor()

    assert [(one["check"], one["text"]) for one in problems] == [
        ("round trip", "The engine failed.")
    ]
    assert "doctor-scratch" not in person.run("doctor").stdout


def test_keys_are_masked_and_every_setting_has_its_source(person):
    settings_file(person, "QDRANT_SEARCH_LIMIT=7\nOPENAI_API_KEY=s3cret\n")
    person.env.update(QDRANT_URL=":memory:", RERANK_URL="http://ana:s3cret@host/rerank")
    shown = person.run("doctor").stdout

    assert f"QDRANT_SEARCH_LIMIT=7 (from {person.home}/.config" in shown
    assert "QDRANT_URL=:memory: (from the environment)" in shown
    assert "OPENAI_API_KEY=**********" in shown
    assert "http://**********@host/rerank" in shown
    assert "s3cret" not in shown


def bread(person: Person) -> Path:
    """A folder with a note."""
    notes = person.home / "notes"
    notes.mkdir()
    (notes / "bread.md").write_text("# Bread\n\nIt needs 72 % water.")
    return notes


def test_init_sets_up_all_clients_in_an_empty_home_that_then_start_the_server(person):
    notes = bread(person)
    person.env["EMBEDDING_API_KEY"] = "s3cret"

    named = [word for client in CLIENTS for word in ("--client", client)]
    done = person.run("init", *named, "--folder", str(notes), "--yes")
    assert done.exit_code == 0, done.stderr
    assert "- notes: Bread\n  " in done.stdout
    assert "It needs 72 % water." in done.stdout
    assert "s3cret" not in done.stdout
    status, checks = person.checks()
    assert (status, [one for one in checks if not one["ok"]]) == (0, [])
    started = [one["text"] for one in checks if one["check"] == "client"]
    assert len(started) == len(CLIENTS) > 1
    assert [one for one in started if "starts mcp-server-qdrant" not in one] == []


def test_a_wrong_setting_of_this_shell_is_no_fault_of_a_client(person):
    cursor(f'{{"mcpServers": {{"qdrant": {{{STARTS}}}}}}}')(person)
    person.env["FASTMCP_PORT"] = "x"
    status, problems = person.doctor()

    assert (status, [one["check"] for one in problems]) == (1, ["settings"])


def test_a_reranking_service_that_answers_is_told(person):
    with served() as stub:
        person.env["RERANK_URL"] = stub.url
        status, checks = person.checks()

    assert status == 0
    assert [one["text"] for one in checks if one["check"] == "reranker"] == [
        "The service scores texts."
    ]


def test_a_home_that_cannot_be_written_is_told_from_an_engine_that_fails(person):
    person.env["XDG_DATA_HOME"] = "/dev/null"
    status, problems = person.doctor()

    assert (status, [one["check"] for one in problems]) == (1, ["engine"])
    assert problems[0]["fix"] == "export QDRANT_LOCAL_PATH='<a writable folder>'"


def test_another_server_of_that_name_is_neither_started_nor_replaced(person):
    text = '{"mcpServers": {"qdrant": {"command": "touch", "args": ["started"]}}}'
    cursor(text)(person)
    done = person.run("init", "--client", "cursor", "--yes")
    told = [one["text"] for one in person.checks()[1] if one["check"] == "client"]
    other = person.run("init", "--client", "cursor", "--name", "notes", "--yes")

    assert (done.exit_code, done.stderr) == (
        2,
        "mcp-server-qdrant: Cursor has another server named 'qdrant' (touch): give this one a name "
        "of its own with --name.\n",
    )
    assert "starts another program (touch), which is not started here." in told[0]
    assert not (person.home / "started").exists()
    assert other.exit_code == 0
    written = json.loads((person.home / ".cursor" / "mcp.json").read_text())["mcpServers"]
    assert (list(written), written["qdrant"]["command"]) == (["qdrant", "notes"], "touch")


def test_init_without_a_model_stores_for_keywords_and_says_once_what_is_missing(person):
    notes = bread(person)
    person.env.update(EMBEDDING_PROVIDER=None, FASTEMBED_CACHE_PATH=str(person.home / "none"))
    done = person.run("init", "--client", "cursor", "--folder", str(notes), "--yes")

    assert (done.exit_code, done.stderr.count("could not be downloaded")) == (0, 1)
    assert "Only keywords find these texts for now" in done.stdout
    assert "It needs 72 % water." in done.stdout
    assert (person.home / ".cursor" / "mcp.json").exists()


def test_a_server_that_is_slow_is_not_called_broken(person, monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.cli.clients.SECONDS", 0.01)
    done = person.run("init", "--client", "cursor", "--yes")
    status, checks = person.checks()

    assert (done.exit_code, [one for one in checks if not one["ok"]], status) == (0, [], 0)
    assert (person.home / ".cursor" / "mcp.json").exists()
    (client,) = [one for one in checks if one["check"] == "client"]
    assert (client["ok"], client["fix"]) == (True, None)
    assert "slow" in client["text"]


def test_whoever_interrupts_the_first_reading_is_told_that_the_server_goes_on(person, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mcp_server_qdrant.cli.frame.run_at_engine", interrupted)
    done = person.run("init", "--client", "cursor", "--yes")

    assert done.exit_code == 130
    assert "the server continues with the folders" in done.stderr


def test_init_proposes_the_clients_that_there_are_and_ends_where_nobody_answers(person):
    cursor("{}")(person)
    (person.home / ".claude.json").write_text("{}")
    done = CliRunner().invoke(main, ["init"], input="", env=person.env)

    assert "[claude-code, cursor]" in done.output
    assert done.output.endswith("\nmcp-server-qdrant: Interrupted; run it again.\n")
    assert done.exit_code == 130


def sessions(person: Person) -> Path:
    """The folder of a client's sessions, two of people and one of a sub-agent."""
    folder = person.home / ".claude" / "projects"
    for number in range(2):
        name = f"6c073d8e-2bb1-45cb-90bc-00000000000{number}.jsonl"
        file = written(folder, exchange(0, f"Why does pump {number} stop?", "A float."), name)
        os.utime(file, (1_767_225_600 + number * 86_400,) * 2)  # 2026-01-01, and a day later
    written(folder, exchange(0, "Look at the pump.", "I did."), "agent-d2969342.jsonl")
    return folder


TWO = "2 sessions of Claude Code, 4 kB, 2026-01-01 to 2026-01-02"


def test_init_stores_and_follows_the_sessions_of_a_client_that_is_named(person):
    folder, notes = sessions(person), person.home / "notes"
    notes.mkdir()
    words = ("init", "--client", "cursor", "--folder", str(notes), "--yes")
    done = person.run(*words, "--sessions", "claude-code")

    assert done.exit_code == 0, done.stderr
    assert f"The server will store and follow {TWO}.\n" in done.stdout
    assert "sessions: 2 new, 0 changed, 0 removed, 0 unchanged, 0 not read" in done.stdout
    written = json.loads((person.home / ".cursor" / "mcp.json").read_text())
    assert json.loads(written["mcpServers"]["qdrant"]["env"]["SYNC_SOURCES"]) == [
        {"path": str(notes), "collection": "notes"},
        {
            "path": str(folder),
            "collection": "sessions",
            "name": "claude-code",
            "include": ["*.jsonl"],
            "exclude": ["agent-*.jsonl", "subagents/"],
            "keep": True,
        },
    ]


def entry(person: Person, file: str = ".cursor/mcp.json", section: str = "mcpServers") -> dict:
    """What a client starts as `qdrant`."""
    return json.loads((person.home / file).read_text())[section]["qdrant"]


def followed(person: Person) -> list[str]:
    """The folders that Cursor's server follows, by their own names."""
    return [Path(one["path"]).name for one in json.loads(entry(person)["env"]["SYNC_SOURCES"])]


def test_init_adds_what_is_followed_to_what_was_and_removes_what_is_named(person):
    sessions(person)
    folders = [person.home / name for name in ("notes", "harbor", "old", "filed")]
    for folder in folders:
        folder.mkdir()
    notes, harbor, old, filed = folders
    settings_file(person, f"SYNC_SOURCES={json.dumps({str(filed): 'filed'})}")
    start = ("init", "--client", "cursor", "--yes")
    known = {"command": "/gone", "env": {"SYNC_SOURCES": json.dumps({str(old): "old"})}}
    cursor(json.dumps({"mcpServers": {"qdrant": known}}))(person)

    assert person.run(*start).exit_code == 0
    assert followed(person) == ["filed", "old"]
    assert person.run(*start, "--folder", str(notes), "--folder", f"{harbor}=sea").exit_code == 0
    assert followed(person) == ["filed", "old", "notes", "harbor"]
    assert person.run(*start, "--sessions", "claude-code", "--folder", str(notes)).exit_code == 0
    assert followed(person) == ["filed", "old", "notes", "harbor", "projects"]
    before = entry(person)
    refused = person.run(*start, "--remove", "codex")
    assert (refused.exit_code, entry(person)) == (2, before)
    assert f"codex is not followed; choose from: {filed}, {old}, " in refused.stderr
    removed = person.run(*start, "--remove", str(harbor), "--remove", "claude-code")

    assert removed.exit_code == 0, removed.stderr
    assert followed(person) == ["filed", "old", "notes"]
    lines = removed.stdout.splitlines()
    assert [one for one in lines if one.startswith("- ") and "/harbor" in one]
    assert [one for one in lines if one.startswith("  ") and "/notes" in one]


@pytest.mark.parametrize(
    ("name", "value"), [("QDRANT_URL", "http://127.0.0.1:1"), ("QDRANT_LOCAL_PATH", "/dev/null/x")]
)
def test_an_engine_of_a_client_that_does_not_answer_is_a_problem_of_it(person, name, value):
    env = json.dumps({name: value})
    cursor(f'{{"mcpServers": {{"qdrant": {{{STARTS}, "env": {env}}}}}}}')(person)
    status, problems = person.doctor()

    path = person.home / ".cursor" / "mcp.json"
    assert (status, [one["check"] for one in problems]) == (1, ["client"])
    assert f"{name} in {path}" in problems[0]["fix"].replace(" from ", " in ")
    assert problems[0]["text"].startswith(f"Cursor, 'qdrant' in {path}: ")


def test_init_shows_what_stays_in_an_entry_and_no_values_of_others(person):
    variables = {"QDRANT_SEARCH_LIMIT": "7", "QDRANT_API_KEY": "s3cret", "MY_TOKEN": "s3cret"}
    variables["EMBEDDING_PROVIDER"] = "none"
    other = {"command": "npx", "args": ["--token=s3cret"], "env": {"ACCOUNT": "ana@example.org"}}
    old = {"command": "/gone", "args": ["--token=s3cret"], "headers": {"A": "s3cret"}}
    servers = {"web": other, "qdrant": {**old, "env": variables}}
    cursor(json.dumps({"account": "ana", "mcpServers": servers}))(person)
    done = person.run("init", "--client", "cursor", "--yes")
    shown = done.stdout + done.stderr

    assert done.exit_code == 0
    assert not [word for word in ("s3cret", "ana", "web", "npx", "/gone") if word in shown]
    for kept in ('"QDRANT_SEARCH_LIMIT": "7"', '"QDRANT_API_KEY"', '"MY_TOKEN"', '"headers"'):
        assert [one for one in done.stdout.splitlines() if kept in one and one[0] == " "], kept
    person.env.update(QDRANT_SEARCH_LIMIT="8")
    again = person.run("init", "--client", "cursor", "--yes").stdout.splitlines()
    assert [one[0] for one in again if '"command"' in one] == [" "], "the old one is the new one"


def test_init_does_all_that_it_can_and_says_what_it_could_not(person):
    notes = bread(person)
    mine = person.home / ".config" / "Code" / "User" / "mcp.json"
    mine.parent.mkdir(parents=True)
    mine.write_text('{"servers": {} // mine\n}')
    (person.home / ".cursor").mkdir()
    (person.home / ".cursor" / "mcp.json").write_text("{")
    chosen = [word for one in ("vscode", "cursor", "claude-code") for word in ("--client", one)]
    done = person.run("init", *chosen, "--folder", str(notes), "--recall", "--yes")

    assert done.exit_code == 2
    assert f"{mine} has comments, which would be lost: edit it by hand." in done.stderr
    assert "mcp.json is not JSON" in done.stderr
    assert done.stderr.endswith("mcp-server-qdrant: Not set up: VS Code, Cursor.\n")
    assert "It needs 72 % water." in done.stdout
    assert json.loads(entry(person, ".claude.json")["env"]["SYNC_SOURCES"])
    assert "UserPromptSubmit" in (person.home / ".claude" / "settings.json").read_text()


def test_init_overwrites_no_entry_that_was_changed_meanwhile(person, monkeypatch):
    started = clients.try_start

    def changed(*given, **named):
        cursor('{"mcpServers": {"qdrant": {"command": "/gone", "env": {"A": "1"}}}}')(person)
        return started(*given, **named)

    monkeypatch.setattr(clients, "try_start", changed)
    done = person.run("init", "--client", "cursor", "--yes")

    assert done.exit_code == 2
    assert "was changed meanwhile: run this again." in done.stderr
    assert entry(person)["env"] == {"A": "1"}


def test_init_says_what_it_would_read_and_takes_no_answer_for_no(person):
    sessions(person)
    # An unknown client, a client, no folder, the sessions, no server, do not write.
    answers = "nothing-known\ncursor\n\n\n\nn\n"
    done = CliRunner().invoke(main, ["init"], input=answers, env=person.env)

    assert done.exit_code == 0, done.output
    assert f"Read and follow {TWO} (without tool output, secrets masked), into" in done.output
    assert "will store" not in done.output
    assert not (person.home / ".cursor").exists(), "writing was declined"


def test_init_names_a_client_that_has_no_sessions_here(person):
    done = person.run("init", "--client", "cursor", "--sessions", "codex", "--yes")

    assert done.exit_code == 2
    assert f"There is no session of Codex in {person.home}/.codex/sessions." in done.stderr


def memory(person: Person) -> Path:
    """The folder of Claude Code's projects, of which one has a memory of two notes."""
    sessions(person)
    notes = person.home / ".claude" / "projects" / "-home-ada-shed" / "memory"
    (notes / "topics").mkdir(parents=True)
    (notes / "MEMORY.md").write_text("The shed's lamp is red.")
    (notes / "topics" / "pump.md").write_text("Its float sticks in frost.")
    (notes.parent / "readme.md").write_text("No memory of Claude's.")
    return person.home / ".claude" / "projects"


def test_init_follows_the_memory_of_claude_code_where_that_is_asked(person):
    folder = memory(person)
    start = ("init", "--client", "codex", "--sessions", "claude-memory")
    done = person.run(*start, "--sessions", "claude-code", "--yes")

    assert done.exit_code == 0, done.stderr
    assert "will store and follow 2 notes of Claude Code's memory, 1 kB, 20" in done.stdout
    assert "claude-memory: 2 new, 0 changed, 0 removed, 0 unchanged, 0 not read" in done.stdout
    assert "\nsessions: 2 new, 0 changed" in done.stdout
    path = person.home / ".codex" / "config.toml"
    entry = tomllib.loads(path.read_text())["mcp_servers"]["qdrant"]
    assert json.loads(entry["env"]["SYNC_SOURCES"])[0] == {
        "path": str(folder),
        "collection": "claude-memory",
        "name": "claude-memory",
        "include": ["*/memory/**/*.md"],
        "exclude": [],
        "keep": False,
    }

    removed = person.run("init", "--client", "codex", "--remove", "claude-memory", "--yes")
    assert removed.exit_code == 0, removed.stderr
    assert "claude-memory" not in path.read_text()


def test_recall_is_set_up_for_all_clients_and_undone(person):
    chosen = [f"--client={flag}" for flag in clients.HOOKS]
    done = person.run("init", *chosen, "--recall", "--yes")

    assert done.exit_code == 0, done.stderr
    assert "Restart Codex. Codex runs new hooks only after you trust them" in done.stdout
    files = [person.home / file.file[2:] for file in clients.HOOKS.values()]
    assert all(" recall " in file.read_text() for file in files)
    assert "QDRANT_RECALL_PATH" in entry(person, ".claude.json")["env"]
    undone = person.run("init", *chosen, "--no-recall", "--yes")
    assert undone.exit_code == 0, undone.stderr
    assert "QDRANT_RECALL_PATH" not in entry(person, ".claude.json").get("env", {})
    assert [one for one in undone.stdout.splitlines() if one.startswith("-") and "RECALL" in one]
    left = [file for file in files if file.exists()]
    assert [file.name for file in left] == ["settings.json"], "Gemini's, which has its servers"
    assert "hooks" not in json.loads(left[0].read_text())


@pytest.mark.parametrize(
    ("legs", "note", "fix", "ok"),
    [
        (("dense", "bm25"), None, None, True),
        (("dense",), None, "mcp-server-qdrant upgrade n", True),
        (("bm25",), None, "mcp-server-qdrant upgrade --model a/b n", True),
        ((), None, "mcp-server-qdrant upgrade n", False),
        (("dense", "bm25"), "run accept-loss", "mcp-server-qdrant accept-loss n", False),
    ],
)
def test_a_collection_that_lacks_something_gets_the_command_that_adds_it(legs, note, fix, ok):
    found = list[dict[str, Any]]()
    examination = Examination(found.append)
    examination.settings = make_settings(embedding_model="a/b", embedding_provider="openai")
    examination._collection(CollectionInfo("n", 3, legs, None, None, note))

    assert [(one["fix"], one["ok"]) for one in found] == [(fix, ok)]
