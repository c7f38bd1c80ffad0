"""Configuration files of clients: their places, and editing that leaves all else as it was."""

import json
import stat
from datetime import datetime

import platformdirs
import platformdirs.macos
import platformdirs.windows
import pytest

from mcp_server_qdrant.cli.clients import (
    CLIENTS,
    Client,
    entries,
    other,
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
def client(tmp_path) -> Client:
    return Client("VS Code", str(tmp_path / "User" / "mcp.json"), "servers")


@pytest.mark.parametrize(
    ("system", "desktop", "code"),
    [
        (None, ".config/Claude", ".config/Code"),
        (
            platformdirs.macos.MacOS,
            "Library/Application Support/Claude",
            "Library/Application Support/Code",
        ),
        (platformdirs.windows.Windows, "AppData/Roaming/Claude", "AppData/Roaming/Code"),
    ],
)
def test_each_system_has_its_paths(system, desktop, code, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(
        "platformdirs.windows.get_win_folder", lambda _: f"{tmp_path}/AppData/Roaming"
    )
    if system:
        monkeypatch.setattr(platformdirs, "PlatformDirs", system)

    assert {name: one.path.relative_to(tmp_path).as_posix() for name, one in CLIENTS.items()} == {
        "claude-code": ".claude.json",
        "claude-desktop": f"{desktop}/claude_desktop_config.json",
        "cursor": ".cursor/mcp.json",
        "vscode": f"{code}/User/mcp.json",
    }


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("  \n", {}),
        ('{"a": "a // b, }", "servers": {"w": {}}}', {"a": "a // b, }", "servers": {"w": {}}}),
        (COMMENTED, {"servers": {"web": {"url": "http://h/mcp"}, "qdrant": {"command": "old"}}}),
    ],
)
def test_comments_and_trailing_commas_may_stand_in_a_file(there, text, held):
    there.path.write_text(text)

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
        ("[" * 100_000, "is not JSON: mend it"),
        ("[]", "must hold an object, and so must 'servers' in it: mend it"),
        ('{"servers": []}', "must hold an object, and so must 'servers' in it: mend it"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(there, text, sentence):
    there.path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as refused:
        read_config(there)

    assert str(there.path) in str(refused.value)


def test_a_file_is_replaced_and_its_copy_kept(client, tmp_path):
    assert write(client, dict, NOW) is None
    assert stat.S_IMODE(client.path.stat().st_mode) == 0o600
    client.path.chmod(0o644)
    real = tmp_path / "dotfiles.json"
    client.path.rename(real)
    client.path.symlink_to(real)

    backup = write(client, lambda held: {**held, "servers": {}, "name": "ü"}, NOW)

    assert backup == tmp_path / "dotfiles.json.20261122-123000-000000.bak"
    assert json.loads(backup.read_text()) == {}
    assert client.path.is_symlink()
    assert json.loads(real.read_text("utf-8")) == {"servers": {}, "name": "ü"}
    assert stat.S_IMODE(real.stat().st_mode) == 0o644


@pytest.fixture
def there(client):
    client.path.parent.mkdir(parents=True)
    return client


def test_a_link_to_itself_is_one_sentence(there):
    there.path.symlink_to(there.path)
    with pytest.raises(ConfigError, match="cannot be read as text"):
        read_config(there)


def test_a_byte_order_mark_is_no_fault(there):
    there.path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n')

    assert read_config(there) == {"a": 1}


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
    held = with_hooks(known, RECALL.replace("venv", "old"))
    held = with_hooks(held, RECALL)
    ours = {"hooks": [{"type": "command", "command": RECALL, "timeout": 5}]}
    others = known.get("hooks", {}).get("SessionStart", [])

    assert held["hooks"] == known.get("hooks", {}) | {
        "SessionStart": [*others, ours],
        "UserPromptSubmit": [ours],
    }
    assert held | {"hooks": 0} == known | {"hooks": 0}
    assert with_hooks(held, RECALL) == held
    gone = with_hooks(held, None)
    assert gone.get("hooks", {}) == known.get("hooks", {})
    assert with_hooks(known, None) == known


@pytest.mark.parametrize("groups", [{"a": 1}, 7])
def test_hooks_that_are_no_list_are_left_alone(groups):
    with pytest.raises(ConfigError, match="must hold a list in 'SessionStart'"):
        with_hooks({"hooks": {"SessionStart": groups}}, RECALL)


def test_entries_of_this_server_are_known_by_command_or_name_in_projects_too():
    read = {
        "mcpServers": {"qdrant": {"url": "http://h"}, "web": {"command": "npx"}, "odd": 3},
        "projects": {"/p": {"mcpServers": {"memory": ENTRY}}, "/q": {}, "/r": None},
    }

    assert [
        (name, project)
        for name, project, _ in entries(CLIENTS["claude-code"], json.loads(json.dumps(read)))
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

    assert {other(entry): entry for entry in entries.values()} == entries
    assert other({}) is None
    assert other({"command": "sh", "args": ["-c", "mcp-server-qdrant"]}) is None
