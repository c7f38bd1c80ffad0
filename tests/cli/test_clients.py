"""Configuration files of clients: their places, and editing that leaves all else as it was."""

import json
import stat
from datetime import datetime

import pytest

from mcp_server_qdrant.cli.clients import (
    CLIENTS,
    HOOKS,
    McpClient,
    find_entries,
    other_program,
    read_config,
    with_hooks,
    write,
)
from mcp_server_qdrant.core.errors import ConfigError

ENTRY = {"command": "python", "args": ["-m", "mcp_server_qdrant"]}
NOW = datetime(2026, 11, 22, 12, 30)
COMMENTED = """{
  // my servers
  "servers": {
    "web": {"url": "http://h/mcp"}, /* " kept */
    "qdrant": {"command": "old"}, // "mine"
  },
}
"""


@pytest.fixture
def client(tmp_path) -> McpClient:
    return McpClient("VS Code", str(tmp_path / "User" / "mcp.json"), "servers")


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("  \n", {}),
        ('\ufeff{"a": 1}\r\n', {"a": 1}),
        ('{"a": "a // b, }", "servers": {"w": {}}}', {"a": "a // b, }", "servers": {"w": {}}}),
        (COMMENTED, {"servers": {"web": {"url": "http://h/mcp"}, "qdrant": {"command": "old"}}}),
    ],
)
def test_comments_trailing_commas_and_a_byte_order_mark_may_stand_in_a_file(there, text, held):
    there.path.write_text(text, newline="")

    assert read_config(there) == held


def test_a_file_whose_comments_would_be_lost_is_left_alone(there):
    there.path.write_text(COMMENTED)
    with pytest.raises(ConfigError, match="has comments, which would be lost: edit it by hand"):
        write(there, dict, NOW)

    assert there.path.read_text() == COMMENTED


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{\n"a": }', "Expecting value: line 2"),
        ("[" * 100_000, "is not JSON: fix it"),
        ("[]", "must hold an object, and so must 'servers' in it: fix it"),
        ('{"servers": []}', "must hold an object, and so must 'servers' in it: fix it"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(there, text, sentence):
    there.path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as refused:
        read_config(there)

    assert str(there.path) in str(refused.value)


def test_a_file_is_replaced_and_its_copy_kept(client, tmp_path):
    assert write(client, lambda _: {"old": 1}, NOW) is None
    assert stat.S_IMODE(client.path.stat().st_mode) == 0o600
    client.path.chmod(0o644)
    real = tmp_path / "dotfiles.json"
    client.path.rename(real)
    client.path.symlink_to(real)

    backup = write(client, lambda held: {**held, "servers": {}, "name": "ü"}, NOW)

    assert backup == tmp_path / "dotfiles.json.20261122-123000-000000.bak"
    assert json.loads(backup.read_text()) == {"old": 1}
    assert client.path.is_symlink()
    assert json.loads(real.read_text("utf-8")) == {"old": 1, "servers": {}, "name": "ü"}
    assert stat.S_IMODE(real.stat().st_mode) == 0o644


@pytest.fixture
def there(client):
    client.path.parent.mkdir(parents=True)
    return client


def test_a_link_to_itself_is_one_sentence(there):
    there.path.symlink_to(there.path)
    with pytest.raises(ConfigError, match="cannot be read as text"):
        read_config(there)


CLAUDE = HOOKS["claude-code"]
OTHER = {"hooks": [{"type": "command", "command": "say hello"}]}
RECALL = "/venv/bin/python -P -m mcp_server_qdrant recall /cache/recall/qdrant"


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"model": "opus"},
        {"hooks": {}},
        {"hooks": {"SessionStart": [OTHER], "Stop": [OTHER]}, "model": "opus"},
    ],
)
def test_hooks_stand_beside_those_that_were_there_once_and_can_be_taken_out(known):
    held = with_hooks(CLAUDE, known, RECALL.replace("venv", "old"))
    held = with_hooks(CLAUDE, held, RECALL)
    ours = {"hooks": [{"type": "command", "command": RECALL, "timeout": 5}]}
    others = known.get("hooks", {}).get("SessionStart", [])

    assert held["hooks"] == known.get("hooks", {}) | {
        "SessionStart": [*others, ours],
        "UserPromptSubmit": [ours],
    }
    assert held | {"hooks": 0} == known | {"hooks": 0}
    assert with_hooks(CLAUDE, held, RECALL) == held
    gone = with_hooks(CLAUDE, held, None)
    assert gone.get("hooks", {}) == known.get("hooks", {})
    assert with_hooks(CLAUDE, known, None) == known


def group(command: str, timeout: int) -> dict:
    return {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}


@pytest.mark.parametrize(
    ("flag", "events", "hook"),
    [
        ("codex", ("SessionStart", "UserPromptSubmit"), group(f"{RECALL} codex", 5)),
        ("cursor", ("sessionStart",), {"command": f"{RECALL} cursor", "timeout": 5}),
        ("gemini-cli", ("SessionStart", "BeforeAgent"), group(f"{RECALL} gemini-cli", 5000)),
    ],
)
def test_each_client_has_the_form_of_hooks_that_it_documents(flag, events, hook):
    known = {"hooks": {"stop": [{"command": "say done"}]}, "theme": "dark"}
    held = with_hooks(HOOKS[flag], known, f"{RECALL} {flag}")

    assert held["hooks"] == {**known["hooks"], **{event: [hook] for event in events}}
    assert held.get("version") == (1 if flag == "cursor" else None)
    assert with_hooks(HOOKS[flag], held, f"{RECALL} {flag}") == held
    gone = with_hooks(HOOKS[flag], held, None)
    assert {**gone, "version": None} == {**known, "version": None}


CODEX_FILE = """# mine
model = "o3"  # good

[mcp_servers.web]  # a "server"
command = "npx"
args = [
  "a",  # first
]

[tools]
since = 2026-11-29T10:00:00Z # a moment

[mcp_servers."with.dot"]
command = 'y'
# end
"""


@pytest.fixture
def codex(tmp_path, monkeypatch) -> McpClient:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codex").mkdir()
    return CLIENTS["codex"]


def set_server(entry):
    return lambda held: {
        **held,
        "mcp_servers": {**held.get("mcp_servers", {}), "qdrant": entry},
    }


@pytest.mark.parametrize("text", ["", "# only a comment", CODEX_FILE])
def test_toml_keeps_each_line_that_is_not_ours(codex, text):
    codex.path.write_text(text)
    first = {"command": "python", "args": ["-m", "x"], "env": {"A": "1", "B": "2"}}
    write(codex, set_server(first), NOW)
    written = codex.path.read_text()
    assert read_config(codex)["mcp_servers"]["qdrant"] == first
    codex.path.write_text(written.replace('command = "python"', 'command = "python" # kept'))
    write(codex, set_server({"command": "other", "env": {"B": "3"}}), NOW)

    edited = codex.path.read_text().splitlines()
    assert [one for one in text.splitlines() if one not in edited] == []
    assert read_config(codex)["mcp_servers"]["qdrant"] == {"command": "other", "env": {"B": "3"}}
    (kept, *_) = sorted(codex.path.parent.glob("config.toml.*.bak"))
    assert kept.read_text() == written.replace('command = "python"', 'command = "python" # kept')


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = ", "is not TOML (Invalid value (at end of document)): fix it"),
        ("mcp_servers = 3", "must hold an object, and so must 'mcp_servers' in it: fix it"),
    ],
)
def test_toml_that_cannot_be_read_is_refused(codex, text, sentence):
    codex.path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_config(codex)

    assert sentence in str(refused.value)


def test_toml_in_a_form_that_would_change_its_meaning_is_left_alone(codex):
    text = 'mcp_servers.web.command = "x" # dotted\nmodel = "o3"\n'
    codex.path.write_text(text)
    with pytest.raises(
        ConfigError, match="has syntax that cannot be edited safely: edit it by hand"
    ):
        write(codex, set_server({"command": "y", "env": {"A": "1"}}), NOW)

    assert codex.path.read_text() == text


@pytest.mark.parametrize("groups", [{"a": 1}, 7])
def test_hooks_that_are_no_list_are_left_alone(groups):
    with pytest.raises(ConfigError, match="must hold a list in 'SessionStart'"):
        with_hooks(CLAUDE, {"hooks": {"SessionStart": groups}}, RECALL)


def test_entries_of_this_server_are_known_by_command_or_name_in_projects_too():
    read = {
        "mcpServers": {"qdrant": {"url": "http://h"}, "web": {"command": "npx"}, "odd": 3},
        "projects": {"/p": {"mcpServers": {"memory": ENTRY}}, "/q": {}, "/r": None},
    }

    assert [
        (name, project)
        for name, project, _ in find_entries(CLIENTS["claude-code"], json.loads(json.dumps(read)))
    ] == [
        ("qdrant", None),
        ("memory", "/p"),
    ]


def test_another_program_is_told_from_this_server_and_from_what_is_gone():
    entries = {
        "an address": {"url": "http://h/mcp"},
        "sh": {"command": "sh", "args": ["-c", "other-server"]},
        None: {"command": "/gone/python"},
    }

    assert {other_program(entry): entry for entry in entries.values()} == entries
    assert other_program({}) is None
    assert other_program({"command": "sh", "args": ["-c", "mcp-server-qdrant"]}) is None
