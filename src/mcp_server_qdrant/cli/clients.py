"""Configuration files of MCP clients: where they are, what they start, and how one is edited."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from mcp_server_qdrant.core.disk import locked, write_atomically
from mcp_server_qdrant.core.errors import ConfigError, EngineUnavailable

OURS = re.compile("mcp[-_]server[-_]qdrant|qdrant-collections-mcp")
SECONDS = 120.0  # for a server's first answer; one that runs and takes longer is slow, not broken
ADDRESS = "an address"
HOOK_SECONDS = 5  # after which a client stops waiting for a hook
RECALLED = ("SessionStart", "UserPromptSubmit")  # events at which Claude Code runs `recall`
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "doctor", "version": "1"},
    },
}
# What a server answers once its engine does.
ENGINE = (
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "qdrant-collections", "arguments": {}},
    },
)
# A string, or what JSON does not know: comments; then commas before a closing bracket.
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')

Entry = Mapping[str, Any]
Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class McpClient:
    """A client and its user's configuration; `section` holds its servers by name.

    The file is below the person's folder, `~`, or that of configurations.
    """

    title: str
    file: str
    section: str = "mcpServers"

    @property
    def path(self) -> Path:
        """The file on this system."""
        if self.file.startswith("~/"):
            return user_folder() / self.file[2:]
        return user_config_path(roaming=True) / self.file


CLIENTS: Mapping[str, McpClient] = {
    "claude-code": McpClient("Claude Code", "~/.claude.json"),
    "claude-desktop": McpClient("Claude Desktop", "Claude/claude_desktop_config.json"),
    "cursor": McpClient("Cursor", "~/.cursor/mcp.json"),
    "vscode": McpClient("VS Code", "Code/User/mcp.json", "servers"),
}
# The settings of Claude Code, as far as they are hooks: events by name.
HOOKS = McpClient("Claude Code", "~/.claude/settings.json", "hooks")


def user_folder() -> Path:
    """The folder of the person who runs this."""
    return Path(os.path.expanduser("~"))  # noqa: PTH111  # Path's own raises where there is none


def with_hooks(held: Config, command: str | None) -> Config:
    """The settings in which RECALLED run that command of ours, or none, beside all others."""
    section = {**held.get(HOOKS.section, {})}
    ours = [{"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]}]
    for event in RECALLED:
        groups = section.pop(event, [])
        if not isinstance(groups, list):
            raise ConfigError(f"{HOOKS.path} must hold a list in {event!r}: mend it.")
        others = [group for group in groups if not _recalls(group)]
        if found := [*others, *(ours if command else ())]:
            section[event] = found
    return {**held, HOOKS.section: section} if section or HOOKS.section in held else held


def _recalls(group: Any) -> bool:
    """True for hooks that are all ours."""
    held = group.get("hooks") if isinstance(group, dict) else None
    said = [str(one.get("command")) for one in held or () if isinstance(one, dict)]
    return bool(said) and all(OURS.search(one) and " recall " in one for one in said)


def entries(client: McpClient, read: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Entry]]:
    """Name, project (of Claude Code) and entry of each server that is this one."""
    projects = read.get("projects")
    places = [(None, read), *(projects.items() if isinstance(projects, dict) else ())]
    for project, place in places:
        servers = place.get(client.section) if isinstance(place, dict) else None
        for name, entry in servers.items() if isinstance(servers, dict) else ():
            if isinstance(entry, dict) and (
                name == "qdrant" or OURS.search(shlex.join(command(entry)))
            ):
                yield name, project, entry


def command(entry: Entry) -> list[str]:
    """The command that an entry starts, with its arguments; none where it names an address."""
    arguments = entry.get("args")
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else ())]
    return [str(word) for word in words if word]


def other(entry: Entry) -> str | None:
    """The other program that an entry starts, or ADDRESS for one at a URL; None for this server.

    A program that is not on this machine any more does not count.
    """
    words = command(entry)
    if not words:
        return ADDRESS if entry else None
    ours = OURS.search(shlex.join(words)) or shutil.which(words[0]) is None
    return None if ours else words[0]


def start(entry: Entry, environment: Mapping[str, str], *, engine: bool = False) -> str:
    """Start the server as a client does: what it calls itself. Raises ConfigError where it cannot.

    It writes nothing meanwhile, and is ended at once. One that is slow is not broken. With `engine`
    its engine is asked too: EngineUnavailable is raised with what it says where it fails.
    """
    sent = (HELLO, *ENGINE) if engine else (HELLO,)
    env = {**environment, **texts(entry.get("env")), "QDRANT_READ_ONLY": "true"}
    try:
        done = subprocess.run(
            command(entry),
            env=env,
            cwd=user_folder(),
            input="".join(json.dumps(one) + "\n" for one in sent),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a slow server: no answer within {SECONDS:.0f} s"
    except OSError as error:
        raise ConfigError(f"{command(entry)[0]} cannot be started: {error.strerror}.") from error
    try:
        first, *rest = map(json.loads, done.stdout.splitlines())
        told = first["result"]["serverInfo"]
        answer: Any = next((one["result"] for one in rest if one.get("id") == 2), {})
        if answer.get("isError"):
            raise EngineUnavailable(answer["content"][0]["text"])
        return f"{told['name']} {told['version']}"
    except (LookupError, ValueError, TypeError, RecursionError):
        said = done.stderr.strip() or "it ended without an answer."
        raise ConfigError(said.splitlines()[-1].removeprefix("mcp-server-qdrant: ")) from None


def texts(value: Any) -> dict[str, str]:
    """The variables of an entry, as a process gets them."""
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def read_config(client: McpClient) -> Config:
    """A configuration, in which comments and trailing commas may stand; {} where there is none.

    Raises ConfigError.
    """
    return _parsed(client, _text(client))


def _text(client: McpClient) -> str:
    try:
        return client.path.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{client.path} cannot be read as text.") from error


def _parsed(client: McpClient, text: str) -> Config:
    try:
        read = json.loads(_plain(text) if text.strip() else "{}")
    except (ValueError, RecursionError) as error:
        where = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"{client.path} is not JSON{where}: mend it, or move it away.") from error
    if not isinstance(read, dict) or not isinstance(read.get(client.section, {}), dict):
        raise ConfigError(
            f"{client.path} must hold an object, and so must {client.section!r} in it: mend it, or "
            "move it away."
        )
    return read


def _plain(text: str) -> str:
    """The text as JSON, of the same lines: what it does not know becomes spaces."""
    for pattern in (_COMMENT, _COMMA):
        text = pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    return text


def before(client: McpClient, name: str) -> Entry:
    """A server's entry in the copy that the last change kept; {} where there is none."""
    path = client.path.resolve()
    copies = sorted(path.parent.glob(f"{path.name}.*.bak"))
    try:
        held = _parsed(client, copies[-1].read_text("utf-8-sig")) if copies else {}
    except (OSError, UnicodeDecodeError, ConfigError):
        return {}
    found = held.get(client.section, {}).get(name)
    return found if isinstance(found, dict) else {}


def write(client: McpClient, change: Callable[[Config], Config], now: datetime) -> Path | None:
    """Change a configuration in one step; the copy of what was there before, if anything was.

    What changed since it was read last is kept, and so are its mode and links. Raises ConfigError,
    also where comments would be lost.
    """
    backup = None
    try:
        path = client.path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            text = _text(client)
            if _plain(text) != text:
                raise ConfigError(
                    f"{client.path} has comments, which would be lost: edit it by hand."
                )
            held = change(_parsed(client, text))
            if path.exists():
                backup = path.with_name(f"{path.name}.{now:%Y%m%d-%H%M%S-%f}.bak")
                shutil.copy2(path, backup)
            write_atomically(path, json.dumps(held, indent=2, ensure_ascii=False) + "\n")
    except (OSError, RuntimeError) as error:  # a link to itself is the latter
        raise ConfigError(f"{client.path} cannot be written.") from error
    return backup
