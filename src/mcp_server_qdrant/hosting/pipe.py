"""The pipe: the process that a client starts over stdio, connected to the service of its store.

After authentication (`hosting/rendezvous.py`) both sides send lines of UTF-8. The first is the
hello of `hosting/reach.py`. A later line that begins with `!` is a control line in JSON; any other
is an MCP message, which `hosting/relay.py` forwards. Commands and the `recall` of a hook use the
same protocol.
"""

import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from mcp_server_qdrant.hosting import reach
from mcp_server_qdrant.hosting.reach import Ended, control
from mcp_server_qdrant.hosting.relay import Relay
from mcp_server_qdrant.hosting.rendezvous import PROTOCOL, Rendezvous

INTERRUPTED = 130
LOST = "The service stopped during this command: run it again."
_ENDS = ("exit", "elsewhere", "yielding")
_POLL_SECONDS = 1.0
_LAST_SECONDS = 45.0  # for pending answers, after the client has exited
_DIAL_SECONDS = 0.4


def run_stdio(service: Sequence[str], arguments: Sequence[str], env_file: str | None) -> None:
    """Run as the client's pipe, then exit this process.

    `service` is the command that starts a service. Returns only if the server must run in this
    process: because the settings say so, or because no service can be started.
    """
    _fill_standard_streams()
    parent = os.getppid()
    client = client_handle(parent, 0)  # now, because the client may exit while a service starts
    variables = reach.locators(env_file)
    # A shell that asks for completions passes no arguments either.
    if not reach.may_share(variables) or reach.completing():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    command = [*service, *reach.env_file_args(env_file)]
    relay = Relay(command, reach.guess_path(variables), reach.hello("stdio", arguments, env_file))
    try:
        relay.connect()
    except Ended as end:
        os._exit(reach.print_end(end))
    except OSError:
        return
    gc.freeze()
    gc.enable()
    watched = relay, parent, client
    threading.Thread(target=_leave_with_client, args=watched, name="end", daemon=True).start()
    os._exit(relay.run())


def _fill_standard_streams() -> None:
    """Open /dev/null for closed standard streams, so that no socket gets their descriptors."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(descriptor)


def _leave_with_client(relay: Relay, parent: int, client: int | None) -> None:
    """Exit when the client exits, even if another process keeps stdin open."""
    await_client_end(parent, client)
    time.sleep(_POLL_SECONDS)  # let the last lines be read
    relay.end_input(_LAST_SECONDS)
    time.sleep(_LAST_SECONDS)
    os._exit(0)


def await_client_end(parent: int, client: int | None) -> None:
    """Block until the client, or the parent process, has exited."""
    if client is not None:
        select.select([client], [], [])
        return
    while os.getppid() == parent:  # there is no notification to wait for
        time.sleep(_POLL_SECONDS)


def client_handle(parent: int, stdin: int) -> int | None:
    """A pidfd of the client; None if the system has none, or the client is in another container."""
    try:
        return os.pidfd_open(_client(parent, stdin))
    except (AttributeError, OSError):
        return None


def _client(parent: int, stdin: int) -> int:
    """The client's pid: that of the first ancestor with a different standard input.

    A launcher in between, such as a shell, shares its standard input with this process.
    """
    found = parent
    with suppress(OSError, ValueError):
        while os.path.samestat(os.stat(f"/proc/{found}/fd/0"), os.fstat(stdin)):
            with open(f"/proc/{found}/stat", encoding="utf-8", errors="replace") as status:
                found = int(status.read().rpartition(")")[2].split()[1])
    return found


def run_command(
    arguments: Sequence[str],
    env_file: str | None = None,
    service: Sequence[str] = (),
    out: Callable[[str], bool] | None = None,
) -> int | None:
    """Have the service of the store run a command; returns the exit status.

    Returns None if there is no service: the caller then runs the command in this process. `service`
    is the command that starts one if none is running. `out` gets the output instead of stdout, and
    returns whether to go on. Raises Ended if a service refuses to start.
    """
    variables = reach.locators(env_file)
    place = reach.guess_path(variables)
    if service and reach.may_share(variables):
        try:
            place, sock, found = reach.connect_or_start(
                [*service, *reach.env_file_args(env_file)], place
            )
        except OSError:  # no process can be started, or it cannot listen
            return None
    elif connection := reach.connect(place):
        sock, found = connection
    else:
        return None
    before = signal.signal(signal.SIGINT, _interrupting(sock))
    try:
        with sock:
            sock.sendall(reach.hello("command", arguments, env_file))
            end = _show_output(sock, out or _print)
    except OSError:
        end = {}
    finally:
        signal.signal(signal.SIGINT, before)
    if "yielding" in end:
        reach.await_end(found, place)
    if "yielding" in end or "elsewhere" in end:
        return None
    return reach.status_of(end) if end else reach.print_end(Ended(1, LOST))


def _interrupting(sock: socket.socket) -> Callable[..., None]:
    """A handler for Ctrl-C: the first interrupts the command, the second exits this process."""
    interrupted: list[int] = []

    def interrupt(number: int, _: object) -> None:
        if interrupted:
            os._exit(INTERRUPTED)
        interrupted.append(number)
        with suppress(OSError):
            sock.sendall(control(interrupt=True))

    return interrupt


def _show_output(sock: socket.socket, out: Callable[[str], bool]) -> Mapping[str, object]:
    """Print a command's output until it ends; its last order, or {} if the service died."""
    for one in reach.split_lines(reach.receive_chunks(sock)):
        order = reach.parse_control(one)
        if not order.keys().isdisjoint(_ENDS):
            return order
        if "say" in order:
            reach.write_stderr(str(order["say"]))
        elif "out" in order and not out(str(order["out"])):
            return {"exit": 1}
    return {}


def _print(text: str) -> bool:
    """Write to stdout, with `?` for what its encoding lacks; False if stdout is closed."""
    encoding = sys.stdout.encoding
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except OSError:
        # The rest of its buffer is flushed at exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def ask_recall(place: str, hook: Mapping[str, object], seconds: float) -> str:
    """The recall text for a hook, from the service at `place`; "" if it is gone or too slow."""
    until, text = time.monotonic() + seconds, ""
    found = Rendezvous.read(place)
    if found is None or found.protocol != PROTOCOL:
        return text
    with suppress(OSError):
        sock = found.dial(min(_DIAL_SECONDS, seconds))
        if sock is None:
            found.withdraw(place)  # it was killed
            return text
        with sock:
            sock.sendall(reach.hello("recall", [os.path.dirname(place)], None, hook=hook))
            for answer in reach.split_lines(_until(sock, until)):
                order = reach.parse_control(answer)
                text += str(order.get("out", ""))
                if "exit" in order:
                    return text
    return ""


def _until(sock: socket.socket, until: float) -> Iterator[bytes]:
    """The bytes received before the deadline `until`. Raises TimeoutError."""
    while True:
        sock.settimeout(max(until - time.monotonic(), 1e-3))
        if not (piece := sock.recv(reach.CHUNK)):
            return
        yield piece
