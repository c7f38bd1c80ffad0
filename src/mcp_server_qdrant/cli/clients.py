"""Configuration files of MCP clients: where they are, what they start, and how one is edited."""

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from platformdirs import user_config_path

from mcp_server_qdrant.core.errors import ConfigError

OURS = re.compile("mcp[-_]server[-_]qdrant|qdrant-collections-mcp")
SECONDS = 120.0  # for a server's first answer; one that runs and takes longer is slow, not broken
SLOW_SECONDS = 10.0
HOOK_SECONDS = 5  # after which a client stops waiting for a hook
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
# A string, or what JSON does not know: comments; then commas before a closing bracket.
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')
_SPACE = re.compile(r"\s*")

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """A client and its user's configuration; `section` holds its servers by name."""

    title: str
    path: Path
    section: str = "mcpServers"


def clients() -> dict[str, Client]:
    """The clients by the names that `init` knows them by, with their paths on this system."""
    home = user_folder()

    def folder(app: str) -> Path:
        return user_config_path(app, appauthor=False, roaming=True)

    desktop, code = folder("Claude") / "claude_desktop_config.json", folder("Code") / "User"
    return {
        "claude-code": Client("Claude Code", home / ".claude.json"),
        "claude-desktop": Client("Claude Desktop", desktop),
        "cursor": Client("Cursor", home / ".cursor" / "mcp.json"),
        "vscode": Client("VS Code", code / "mcp.json", "servers"),
    }


def hooks() -> Client:
    """The user's settings of Claude Code, as far as they are hooks: events by name."""
    return Client("Claude Code", user_folder() / ".claude" / "settings.json", "hooks")


def hooked(client: Client, text: str, events: Sequence[str], command: str | None) -> str:
    """The settings in which these events run that command of ours, or none, beside all others."""
    for event in events:
        groups = parse(client, text).get(client.section, {}).get(event, [])
        if not isinstance(groups, list):
            raise ConfigError(f"{client.path} must hold a list in {event!r}: mend it.")
        others = [group for group in groups if not _recalls(group)]
        ours = [{"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]}]
        wanted = [*others, *(ours if command else ())]
        text = edited(client, text, event, wanted) if wanted != groups else text
    return text


def _recalls(group: Any) -> bool:
    """True for hooks that are all ours."""
    held = group.get("hooks") if isinstance(group, dict) else None
    said = [str(one.get("command")) for one in held or () if isinstance(one, dict)]
    return bool(said) and all(OURS.search(one) and " recall " in one for one in said)


def user_folder() -> Path:
    """The folder of the person who runs this."""
    return Path(os.path.expanduser("~"))  # noqa: PTH111  # Path's own raises where there is none


def entries(client: Client, read: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Entry]]:
    """Name, project (of Claude Code) and entry of each server that is this one."""
    projects = read.get("projects")
    places = [(None, read), *(projects.items() if isinstance(projects, dict) else ())]
    for project, place in places:
        servers = place.get(client.section) if isinstance(place, dict) else None
        for name, entry in servers.items() if isinstance(servers, dict) else ():
            if isinstance(entry, dict) and (name == "qdrant" or OURS.search(_command_line(entry))):
                yield name, project, entry


def _command_line(entry: Entry) -> str:
    return " ".join(map(str, command(entry)))


def command(entry: Entry) -> list[str]:
    """The command that an entry starts, with its arguments; none where it names an address."""
    arguments = entry.get("args")
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else ())]
    return [str(word) for word in words if word]


def other(entry: Entry) -> str | None:
    """The program that an entry starts, or "an address", where it is not this server.

    A program that cannot be started on this machine any more does not count.
    """
    words = command(entry)
    if not words:
        return "an address" if entry else None
    ours = OURS.search(_command_line(entry)) or shutil.which(words[0]) is None
    return None if ours else words[0]


@dataclass(frozen=True, slots=True)
class Start:
    """How the start of a server went: what it calls itself, or why it is broken, if it is."""

    told: str
    fault: str | None = None
    slow: bool = False


def start(entry: Entry, environment: Mapping[str, str]) -> Start:
    """Start the server as a client does. It writes nothing meanwhile, and is ended at once."""
    since = monotonic()
    env = {**environment, **texts(entry.get("env")), "QDRANT_READ_ONLY": "true"}
    try:
        done = subprocess.run(
            command(entry),
            env=env,
            cwd=user_folder(),
            input=json.dumps(HELLO) + "\n",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
        out, err = done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return Start(f"a slow server: no answer within {SECONDS:.0f} s", slow=True)
    except OSError as error:
        return Start("", f"{command(entry)[0]} cannot be started: {error.strerror}")
    try:
        told = json.loads(out.splitlines()[0])["result"]["serverInfo"]
        seconds = monotonic() - since
        late = f", slowly: after {seconds:.0f} s" if seconds > SLOW_SECONDS else ""
        return Start(f"{told['name']} {told['version']}{late}", slow=bool(late))
    except (LookupError, ValueError, TypeError):
        said = [line for line in err.splitlines() if line.strip()] or ["it ended without an answer"]
        return Start("", said[-1].removeprefix("mcp-server-qdrant: "))


def texts(value: Any) -> dict[str, str]:
    """The variables of an entry, as a process gets them."""
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def text_of(client: Client) -> str:
    """The text of a client's configuration, its line ends as they are; "" where there is none."""
    try:
        return client.path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{client.path} cannot be read as text.") from error


def parse(client: Client, text: str) -> dict[str, Any]:
    """A configuration, in which comments and trailing commas may stand. Raises ConfigError."""
    try:
        read = json.loads(_plain(text) if text.strip() else "{}")
    except (ValueError, RecursionError) as error:
        where = (
            f" (line {error.lineno}: {error.msg})"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise ConfigError(f"{client.path} is not JSON{where}: mend it, or move it away.") from error
    if not isinstance(read, dict) or not isinstance(read.get(client.section, {}), dict):
        raise ConfigError(
            f"{client.path} must hold an object, and so must {client.section!r} in it: mend it, or "
            "move it away."
        )
    return read


def _plain(text: str) -> str:
    """The same length of JSON: what it does not know becomes spaces."""
    text = text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text
    for pattern in (_COMMENT, _COMMA):
        text = pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    return text


def edited(client: Client, text: str, name: str, entry: Entry | Sequence[Any]) -> str:
    """The configuration with this entry; all else stays as it is written, comments too."""
    read = parse(client, text)
    if "\r\n" in text:
        return edited(client, text.replace("\r\n", "\n"), name, entry).replace("\n", "\r\n")
    text = text if text.strip() else "{}\n"
    plain = _plain(text)
    top = plain.index("{")
    sections = _spans(plain, top)
    if client.section not in sections:
        return _inserted(text, top, client.section, {name: entry}, 1, read)
    start, _ = sections[client.section]
    servers = _spans(plain, start)
    if name not in servers:
        return _inserted(text, start, name, entry, 2, read[client.section])
    first, last = servers[name]
    return text[:first] + _written(entry, 2) + text[last:]


def _inserted(text: str, at: int, name: str, value: Any, depth: int, known: Any) -> str:
    """The text with a first member in the object that begins at `at`, and holds `known`."""
    indent = "  " * depth
    end = "," if known else "\n" + indent[2:]
    member = f"\n{indent}{json.dumps(name)}: {_written(value, depth)}{end}"
    rest = text[at + 1 :]
    return text[: at + 1] + member + (rest if known else rest.lstrip(" \t\n"))


def _written(value: Any, depth: int) -> str:
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    return ("\n" + "  " * depth).join(lines)


def _spans(plain: str, start: int) -> dict[str, tuple[int, int]]:
    """Where the values of the object that begins at `start` begin and end."""
    decoder, found, at = json.JSONDecoder(), dict[str, tuple[int, int]](), start + 1

    def skipped(at: int) -> int:
        return _SPACE.match(plain, at).end()  # type: ignore[union-attr]  # it always matches

    while plain[at := skipped(at)] != "}":
        key, at = decoder.raw_decode(plain, at)
        first = skipped(skipped(at) + 1)
        _, last = decoder.raw_decode(plain, first)
        found[key] = (first, last)
        at = skipped(last)
        at += plain[at] == ","
    return found


def write(client: Client, before: str, text: str, now: datetime) -> Path | None:
    """Write a configuration in one step; the copy of what was there before, if anything was.

    Owner, mode and links stay. Raises ConfigError, also where it is not what it was `before`.
    """
    try:
        path = client.path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
        new = Path(name)  # its owner's alone: it may hold a key
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if text_of(client) != before:
                raise ConfigError(f"{client.path} was changed meanwhile: run this again.")
            backup = _copy(path, now) if path.exists() else None
            if backup is not None:
                _as_was(path, new)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # a link to itself is the latter
        reason = error.strerror if isinstance(error, OSError) else "it is a link to itself"
        raise ConfigError(f"{client.path} cannot be written: {reason}.") from error
    return backup


def _copy(path: Path, now: datetime) -> Path:
    """A copy beside the file, under a name that no other copy has."""
    for number in itertools.count(1):
        copy = path.with_name(f"{path.name}.{now:%Y%m%d-%H%M%S}{f'-{number}' * (number > 1)}.bak")
        with contextlib.suppress(FileExistsError):
            copy.touch(mode=0o600, exist_ok=False)
            shutil.copy2(path, copy)
            _as_was(path, copy)
            return copy
    raise AssertionError


def _as_was(old: Path, new: Path) -> None:
    """Give a file the mode and, where that is allowed, the owner of another one."""
    shutil.copymode(old, new)
    there = old.stat()
    with contextlib.suppress(OSError, AttributeError):  # Windows has no owners
        os.chown(new, there.st_uid, there.st_gid)
