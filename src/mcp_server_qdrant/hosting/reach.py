"""Finding or starting the service of a store, and the hello that is sent to it.

The service's address is guessed from a few variables. A wrong guess only costs time: a new service
reads all settings and reports its own address, or that of the service that has the store; a
service with another store says so. Only the standard library is imported, unless a settings file
sets one of these variables.
"""

import io
import json
import os
import select
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from mcp_server_qdrant import __version__
from mcp_server_qdrant.hosting.rendezvous import PROTOCOL, Rendezvous, rendezvous_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

APP = "mcp-server-qdrant"
SHARE = "QDRANT_SHARE_PROCESS"
NOT_STARTED = f"The service could not be started: `{APP} doctor` says why."
ANOTHER_VERSION = (
    "Another version of this server is using the store: stop it, or use the same version."
)
_LOCATING = ("QDRANT_LOCAL_PATH", "QDRANT_URL", "QDRANT_CACHE_PATH", SHARE)
_FALSE = ("0", "false", "f", "no", "n", "off")
_GREETING_SECONDS = 5.0
_CONNECT_SECONDS = 20.0
_GONE_SECONDS = 60.0
_PAUSE = 0.01
STARTS = 3  # attempts in a row
CHUNK = 1 << 16
_FOLDERS = {  # as in platformdirs, whose import would take longer than the rest of the start
    "linux": {"config": "~/.config", "data": "~/.local/share", "cache": "~/.cache"},
    "darwin": {
        "config": "~/Library/Application Support",
        "data": "~/Library/Application Support",
        "cache": "~/Library/Caches",
    },
}
_children: "list[subprocess.Popen[bytes]]" = []


class Ended(Exception):
    """The process must exit with this status, after printing the sentence, if any."""

    def __init__(self, status: int, sentence: str = "") -> None:
        self.status, self.sentence = status, sentence
        super().__init__(sentence)


class Died(Ended):
    """The service exited during its start without an explanation: a retry may succeed."""


def locators(env_file: str | None) -> dict[str, str]:
    """The variables that locate the service, from the environment or the settings file."""
    file = os.path.expanduser(env_file) if env_file else os.path.join(_folder("config"), ".env")
    given = {name.upper(): value for name, value in os.environ.items() if value}
    found = {**_read_settings_file(file), **given}
    return {name: found[name] for name in _LOCATING if name in found}


def may_share(variables: Mapping[str, str]) -> bool:
    """Whether these variables allow a shared service; an in-memory engine is never shared."""
    on_trial = variables.get("QDRANT_URL") == ":memory:"
    return not on_trial and variables.get(SHARE, "").strip().lower() not in _FALSE


def completing() -> bool:
    """Whether a shell asks for completions of a command line."""
    return any(name.startswith("_") and name.endswith("_COMPLETE") for name in os.environ)


def guess_path(variables: Mapping[str, str]) -> str:
    """The path where the service most likely publishes its address."""
    local, cache = variables.get("QDRANT_LOCAL_PATH"), variables.get("QDRANT_CACHE_PATH")
    return rendezvous_path(
        variables.get("QDRANT_URL"),
        os.path.expanduser(local or _folder("data")),
        os.path.expanduser(cache or _folder("cache")),
    )


def _read_settings_file(file: str) -> dict[str, str]:
    """The variables of a settings file; {} if it has none of those needed here."""
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, ValueError):
        return {}
    if not any(name in text.upper() for name in _LOCATING):
        return {}
    from dotenv import dotenv_values

    values = dotenv_values(stream=io.StringIO(text))
    return {name.upper(): value for name, value in values.items() if value}


def _folder(kind: str) -> str:
    """The user's "config", "data" or "cache" folder for this program."""
    usual = _FOLDERS.get(sys.platform)
    if usual is None:
        import platformdirs

        return str(getattr(platformdirs, f"user_{kind}_dir")(APP, appauthor=False))
    own = os.environ.get(f"XDG_{kind.upper()}_HOME", "").strip()
    return os.path.join(own or os.path.expanduser(usual[kind]), APP)


def env_file_args(env_file: str | None) -> list[str]:
    """The arguments that make a service read this settings file."""
    return ["--env-file", file] if (file := _absolute(env_file)) else []


def _absolute(path: str | None) -> str | None:
    return os.path.abspath(os.path.expanduser(path)) if path else None


def hello(
    kind: str,
    arguments: Sequence[str],
    env_file: str | None,
    hook: Mapping[str, object] | None = None,
) -> bytes:
    """The first line sent to a service: version, settings, working directory and terminal.

    A `hook` runs without the server's variables, so its environment is left out.
    """
    try:
        folder: str | None = os.getcwd()
    except OSError:  # the directory was deleted
        folder = None
    terminal = {"out": _is_terminal(sys.stdout), "err": _is_terminal(sys.stderr)}
    return json_line(
        {
            "kind": kind,
            "version": __version__,
            "variables": {} if hook else dict(os.environ),
            "env_file": _absolute(env_file),
            "folder": folder,
            "argv": [*arguments],
            "terminal": {**terminal, "columns": _columns()},
            "hook": hook or {},
        }
    )


def _columns() -> int:
    """The width of the terminal, in characters."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    with suppress(OSError, ValueError):
        return os.get_terminal_size(1).columns or 80
    return 80


def _is_terminal(stream: object) -> bool:
    return bool(stream and stream.isatty())  # type: ignore[attr-defined]


def json_line(value: object) -> bytes:
    """A value encoded as a line of JSON."""
    return json.dumps(value).encode() + b"\n"


def control(**fields: object) -> bytes:
    """A control line between pipe and service."""
    return b"!" + json_line(fields)


def split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split chunks into lines, without line ends; an unfinished last line is dropped."""
    begun: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for end in whole:
            yield b"".join([*begun, end])
            begun.clear()
        begun.append(rest)


def receive_chunks(sock: socket.socket) -> Iterator[bytes]:
    """The chunks received until the other side closes the connection. Raises OSError."""
    while True:
        while sys.platform == "win32" and not select.select([sock], [], [], 0.5)[0]:
            pass  # on Windows no signal interrupts a wait
        if not (piece := sock.recv(CHUNK)):
            return
        yield piece


def connect(place: str) -> tuple[socket.socket, Rendezvous] | None:
    """Connect to the service published at `place`; None if none answers."""
    found = Rendezvous.read(place)
    if found is None or found.protocol != PROTOCOL:
        return None
    try:
        sock = found.dial(_GREETING_SECONDS)
    except TimeoutError:
        return None
    return None if sock is None else (sock, found)


def connect_when_ready(place: str) -> tuple[socket.socket, Rendezvous]:
    """Connect to a service that reported that it listens at `place`. Raises Ended."""
    until = time.monotonic() + _CONNECT_SECONDS
    while time.monotonic() < until:
        if connection := connect(place):
            return connection
        _reap_children()
        found = Rendezvous.read(place)
        if found is None or not _runs(found.pid):
            raise Died(1, NOT_STARTED)
        time.sleep(_PAUSE)
    found = Rendezvous.read(place)
    if found and found.protocol != PROTOCOL:
        raise Ended(1, ANOTHER_VERSION)
    raise Ended(1, f"The service did not answer within {_CONNECT_SECONDS:.0f} seconds.")


def spawn(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a detached process with a pipe on its standard output."""
    import subprocess

    return subprocess.Popen(
        command,
        cwd=sys.prefix,  # import nothing from the current directory
        # It serves others too, who may have another time zone.
        env={name: value for name, value in os.environ.items() if name != "TZ"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def connect_or_start(
    command: Sequence[str], place: str, *, elsewhere: bool = False
) -> tuple[str, socket.socket, Rendezvous]:
    """Connect to the service at `place`, or start one; its path and the connection.

    `elsewhere`: the service at `place` has another store, so do not ask it. Raises as `start` does.
    """
    connection, tries = None if elsewhere else connect(place), STARTS
    if connection is None:
        with _start_lock(place):
            # Another process may have started one while this one waited.
            connection = None if elsewhere else connect(place)
            while connection is None:
                tries -= 1
                try:
                    place = start(command)
                    connection = connect_when_ready(place)
                except Died:
                    if not tries:
                        raise
    return place, *connection


@contextmanager
def _start_lock(place: str) -> Iterator[None]:
    """Hold the lock for starting a service at `place`: only one is needed, and a start is slow."""
    try:
        import fcntl

        folder = os.open(os.path.dirname(place), os.O_RDONLY)
    except (ImportError, OSError):  # Windows, or the folder does not exist yet
        yield
        return
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def start(command: Sequence[str]) -> str:
    """Start a service; the path where it, or the present service of its store, is published.

    Raises Ended if it reports that it cannot serve, OSError if no process can be started.
    """
    _reap_children()
    process = spawn(command)
    _children.append(process)
    assert process.stdout is not None
    with process.stdout as report:
        for line in report:
            order = parse_object(line)
            if "say" in order:
                write_stderr(str(order["say"]))
            elif "exit" in order:
                raise Ended(status_of(order))
            elif "alone" in order:
                raise OSError("The service could not open a socket.")
            elif "ready" in order:
                return str(order["ready"])
    raise Died(1, NOT_STARTED)


def _reap_children() -> None:
    """Reap child processes that have exited."""
    _children[:] = [one for one in _children if one.poll() is None]


def write_stderr(text: str) -> None:
    """Write to stderr; failures are ignored."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def print_end(end: Ended) -> int:
    """Print why the process exits; returns its status."""
    if end.sentence:
        write_stderr(f"{APP}: {end.sentence}\n")
    return end.status


def parse_control(line: bytes) -> Mapping[str, object]:
    """The fields of a control line; {} for any other line."""
    return parse_object(line[1:]) if line.startswith(b"!") else {}


def parse_object(line: bytes) -> Mapping[str, object]:
    """The line parsed as a JSON object; {} if it is not one."""
    try:
        found = json.loads(line.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def status_of(order: Mapping[str, object]) -> int:
    """The exit status in an order of the service."""
    status = order.get("exit")
    return status if isinstance(status, int) else 1


def await_end(service: Rendezvous, place: str) -> None:
    """Wait until a service that makes way for another has exited."""
    until = time.monotonic() + _GONE_SECONDS
    while Rendezvous.read(place) == service and _runs(service.pid) and time.monotonic() < until:
        time.sleep(_PAUSE)


def _runs(pid: int) -> bool:
    if sys.platform != "win32":  # on Windows signal 0 is not harmless
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
    return True
