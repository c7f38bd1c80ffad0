"""The configuration files of MCP clients: their places, their entries, and safe edits."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from mcp_server_qdrant.core.disk import locked, write_atomically
from mcp_server_qdrant.core.errors import ConfigError, EngineUnavailable

OURS = re.compile("mcp[-_]server[-_]qdrant|qdrant-collections-mcp")
SECONDS = 120.0  # for a server's first answer; after that it counts as slow, not as broken
ADDRESS = "an address"
HOOK_SECONDS = 5  # timeout of a hook in the client
CLIENT = {"name": "doctor", "version": "1"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
LIST = {"name": "qdrant-collections", "arguments": {}}  # is answered once the engine answers
# A string (kept), or what JSON does not allow: comments, then trailing commas.
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')

Entry = Mapping[str, Any]
Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class McpClient:
    """A client and its user configuration; `section` has its servers, or its hooks, by name.

    `file` is below the home folder (`~`) or the configuration folder. Hooks run at `events`;
    `second` is a second in the unit of their timeouts, and `grouped` hooks are nested as in Claude
    Code. `then` is an instruction for the person after hooks were added.
    """

    title: str
    file: str
    section: str = "mcpServers"
    events: tuple[str, ...] = ()
    second: int = 1
    grouped: bool = True
    then: str = ""

    @property
    def path(self) -> Path:
        """The file on this system."""
        if self.file.startswith("~/"):
            return user_folder() / self.file[2:]
        return user_config_path(roaming=True) / self.file


CLIENTS: Mapping[str, McpClient] = {
    "claude-code": McpClient("Claude Code", "~/.claude.json"),
    "claude-desktop": McpClient("Claude Desktop", "Claude/claude_desktop_config.json"),
    "codex": McpClient("Codex", "~/.codex/config.toml", "mcp_servers"),
    "cursor": McpClient("Cursor", "~/.cursor/mcp.json"),
    "gemini-cli": McpClient("Gemini CLI", "~/.gemini/settings.json"),
    "vscode": McpClient("VS Code", "Code/User/mcp.json", "servers"),
}
EVENTS = "SessionStart", "UserPromptSubmit"
TRUST = "Codex runs new hooks only after you trust them: use its command /hooks."
# The clients whose hooks can pass text to an agent; Cursor's can do so only at the start.
HOOKS: Mapping[str, McpClient] = {
    "claude-code": McpClient("Claude Code", "~/.claude/settings.json", "hooks", EVENTS),
    "codex": McpClient("Codex", "~/.codex/hooks.json", "hooks", EVENTS, then=TRUST),
    "cursor": McpClient(
        "Cursor", "~/.cursor/hooks.json", "hooks", ("sessionStart",), grouped=False
    ),
    "gemini-cli": McpClient(
        "Gemini CLI", "~/.gemini/settings.json", "hooks", ("SessionStart", "BeforeAgent"), 1000
    ),
}


def user_folder() -> Path:
    """The user's home folder."""
    return Path(os.path.expanduser("~"))  # noqa: PTH111  # Path.home raises if there is none


def with_hooks(file: McpClient, held: Config, command: str | None) -> Config:
    """The settings with our hooks set to that command, or removed if None; others stay."""
    section = {**held.get(file.section, {})}
    one = {"command": command, "timeout": HOOK_SECONDS * file.second}
    ours = [{"hooks": [{"type": "command", **one}]} if file.grouped else one]
    for event in file.events:
        groups = section.pop(event, [])
        if not isinstance(groups, list):
            raise ConfigError(f"{file.path} must hold a list in {event!r}: fix it.")
        others = [group for group in groups if not _is_ours(group)]
        if found := [*others, *(ours if command else ())]:
            section[event] = found
    if section == held.get(file.section, {}):
        return held
    version: Config = {} if file.grouped else {"version": 1}
    if section:
        return {**version, **held, file.section: section}
    rest = {key: value for key, value in held.items() if key != file.section}
    return {} if rest == version else rest


def _is_ours(group: Any) -> bool:
    """True for one of our hooks, or a group that has only ours."""
    held = group.get("hooks", [group]) if isinstance(group, dict) else None
    said = [str(one.get("command")) for one in held or () if isinstance(one, dict)]
    return bool(said) and all(OURS.search(one) and " recall " in one for one in said)


def find_entries(
    client: McpClient, read: Mapping[str, Any]
) -> Iterator[tuple[str, str | None, Entry]]:
    """(name, project of Claude Code or None, entry) of each entry for this server."""
    projects = read.get("projects")
    places = [(None, read), *(projects.items() if isinstance(projects, dict) else ())]
    for project, place in places:
        servers = place.get(client.section) if isinstance(place, dict) else None
        for name, entry in servers.items() if isinstance(servers, dict) else ():
            if isinstance(entry, dict) and (
                name == "qdrant" or OURS.search(shlex.join(command_of(entry)))
            ):
                yield name, project, entry


def command_of(entry: Entry) -> list[str]:
    """The command of an entry with its arguments; empty if it has a URL."""
    arguments = entry.get("args")
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else ())]
    return [str(word) for word in words if word]


def other_program(entry: Entry) -> str | None:
    """The other program that an entry starts, or ADDRESS for a URL; None for this server.

    A program that no longer exists on this machine is ignored.
    """
    words = command_of(entry)
    if not words:
        return ADDRESS if entry else None
    ours = OURS.search(shlex.join(words)) or shutil.which(words[0]) is None
    return None if ours else words[0]


def try_start(entry: Entry, environment: Mapping[str, str], *, engine: bool = False) -> str:
    """Start the server as a client does; returns its name and version. Raises ConfigError.

    It is read-only and stopped at once. A slow server is no error. `engine` tests its engine too,
    and raises EngineUnavailable with the server's message if that fails.
    """
    sent = [{"id": 1, "method": "initialize", "params": HELLO}]
    if engine:
        sent.append({"method": "notifications/initialized"})
        sent.append({"id": 2, "method": "tools/call", "params": LIST})
    env = {**environment, **as_strings(entry.get("env")), "QDRANT_READ_ONLY": "true"}
    try:
        done = subprocess.run(
            command_of(entry),
            env=env,
            cwd=user_folder(),
            input="".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in sent),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a slow server: no answer within {SECONDS:.0f} s"
    except OSError as error:
        raise ConfigError(f"{command_of(entry)[0]} cannot be started: {error.strerror}.") from error
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


def as_strings(value: Any) -> dict[str, str]:
    """The variables of an entry, as strings."""
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def read_config(client: McpClient) -> Config:
    """A configuration, which may have comments and trailing commas; {} if there is none.

    Raises ConfigError.
    """
    return _parse(client, read_text(client.path))


def read_text(path: Path) -> str:
    """The text of a file; "" if it does not exist. Raises ConfigError."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as text.") from error


def _parse(client: McpClient, text: str) -> Config:
    form = "TOML" if client.path.suffix == ".toml" else "JSON"
    try:
        if form == "TOML":
            read = tomllib.loads(text)
        else:
            read = json.loads(_strict_json(text) if text.strip() else "{}")
    except (ValueError, RecursionError) as error:
        why = f" ({error})" if isinstance(error, ValueError) else ""
        raise ConfigError(f"{client.path} is not {form}{why}: fix it, or move it away.") from error
    if not isinstance(read, dict) or not isinstance(read.get(client.section, {}), dict):
        raise ConfigError(
            f"{client.path} must hold an object, and so must {client.section!r} in it: fix it, "
            "or move it away."
        )
    return read


def _strict_json(text: str) -> str:
    """The text as strict JSON with the same lines; comments and trailing commas become spaces."""
    for pattern in (_COMMENT, _COMMA):
        text = pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    return text


def write(client: McpClient, change: Callable[[Config], Config], now: datetime) -> Path | None:
    """Change a configuration; see `rewrite`. Raises ConfigError, also for comments in JSON."""
    return rewrite(client.path, lambda text: _edit(client, text, change), now)


def rewrite(path: Path, change: Callable[[str], str], now: datetime) -> Path | None:
    """Change a text file atomically; returns the backup of the old file, if there was one.

    The file is read again under a lock, so concurrent changes are kept, as are mode and links. A
    file that becomes empty is deleted. Raises ConfigError.
    """
    backup = None
    try:
        real = path.resolve()
        real.parent.mkdir(parents=True, exist_ok=True)
        with locked(real):
            text = change(read_text(real))
            if real.exists():
                backup = real.with_name(f"{real.name}.{now:%Y%m%d-%H%M%S-%f}.bak")
                shutil.copy2(real, backup)
            if text:
                write_atomically(real, text)
            else:
                real.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link loop
        raise ConfigError(f"{path} cannot be written.") from error
    return backup


def _edit(client: McpClient, text: str, change: Callable[[Config], Config]) -> str:
    """The text of a configuration after a change; in TOML the rest keeps its formatting."""
    toml = client.path.suffix == ".toml"
    if not toml and _strict_json(text) != text:
        raise ConfigError(f"{client.path} has comments, which would be lost: edit it by hand.")
    wanted = change(_parse(client, text))
    if not toml:
        return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n" if wanted else ""
    import tomlkit  # takes 0.1 s to import, and only Codex needs it

    with suppress(tomlkit.exceptions.TOMLKitError, LookupError, ValueError):
        document = tomlkit.parse(text)
        _apply(document, wanted)
        edited = tomlkit.dumps(document)
        if tomllib.loads(edited) == wanted:
            return edited
    raise ConfigError(f"{client.path} has syntax that cannot be edited safely: edit it by hand.")


def _apply(held: MutableMapping[str, Any], wanted: Config) -> None:
    """Make the table equal to `wanted`, and touch only what differs."""
    for key in held.keys() - wanted.keys():
        del held[key]
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(held.get(key), MutableMapping):
            _apply(held[key], value)
        elif held.get(key) != value:
            held[key] = value
