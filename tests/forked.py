"""Fork server: starts processes whose imports are already done.

A service takes a second of processor time for its imports, a map's layout 1.2 s, and the tests
start hundreds. A process that has done the imports forks each of them, with its own arguments,
environment, folder, streams and exit status. Tests of the start itself use `subprocess`, and the
fixture `real_hosts` for services.
"""

import asyncio
import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE
from types import SimpleNamespace
from typing import Any

SERVICE = "mcp_server_qdrant.cli.service"
LAYOUT = "mcp_server_qdrant.projection.neighbours"
SERVER = (
    "mcp_server_qdrant.cli.main",
    "mcp_server_qdrant.app.stdio",
    "mcp_server_qdrant.app.http",
)
ENGINE = "mcp_server_qdrant.qdrant.edge.embedded"
MODELS = "mcp_server_qdrant.encoders.local.models"
# Module to run -> modules imported in advance; "": all others (pipes, servers, commands).
PRELOADED = {
    SERVICE: (*SERVER, SERVICE, "mcp_server_qdrant.cli.hosted", ENGINE, MODELS, "fastembed"),
    "": (
        *SERVER,
        "mcp_server_qdrant.evaluation.run",
        ENGINE,
        MODELS,
        "mcp_server_qdrant.hosting.reach",
    ),
}
WHERE_NEEDED = ("openTSNE", "sklearn.cluster")  # for layouts: imported at the first one
LONGEST = 1 << 17  # bytes of a request
LOST = -(1 << 62)  # instead of a pid or status: the fork server has ended
_lines: dict[str, socket.socket] = {}
_lock = threading.Lock()


def _line(kind: str) -> socket.socket:
    """The socket of the fork server for this kind, which ends with this process."""
    with _lock:
        if kind not in _lines:
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kept = {
                name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
            }
            command = [sys.executable, "-P", __file__, kind]
            process = subprocess.Popen(command, stdin=there, env=kept)
            there.close()
            atexit.register(process.wait)
            atexit.register(here.close)
            _lines[kind] = here
        return _lines[kind]


class Forked:
    """What the tests need of a Popen of `[sys.executable, "-P", "-m", module, *arguments]`."""

    def __init__(
        self,
        args: list[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        text: bool = False,
        encoding: str = "utf-8",
        start_new_session: bool = False,
    ) -> None:
        sys.audit("subprocess.Popen", None, args, None, None)  # refused by --fast
        self.args, self.returncode = args, None
        self._lock = threading.Lock()  # several threads may wait
        code = encoding if text else None
        self.stdin, in_read = _stream(stdin, 0, code)
        self.stdout, out_write = _stream(stdout, 1, code)
        self.stderr, err_write = _stream(stderr, 2, code)
        self._ended, told = os.pipe()
        own = dict(os.environ if env is None else env)
        asked = json.dumps([[*map(str, args)], str(cwd or Path.cwd()), own, start_new_session])
        theirs = [in_read, out_write, err_write, told]
        socket.send_fds(_line(_kind(args)), [asked.encode()], theirs)
        given = (stdin, stdout, stderr)
        _close([told, *(theirs[n] for n, one in enumerate(given) if one in (PIPE, DEVNULL))])
        self.pid = self._next()
        assert self.pid != LOST, "the fork server has ended"

    def poll(self) -> int | None:
        """The exit status, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._next()
        return self.returncode

    def communicate(self, given: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write the input, read both streams to their end, and wait. Raises TimeoutExpired."""
        until = None if timeout is None else time.monotonic() + timeout
        read: dict[Any, Any] = {}
        works = [(self._write, given)] if self.stdin else []
        works += [(lambda one: read.update({one: one.read()}), one) for one in self._outputs()]
        threads = [threading.Thread(target=do, args=(it,), daemon=True) for do, it in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(None if until is None else max(until - time.monotonic(), 0))
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        for one in self._outputs():
            one.close()
        self.wait(None if until is None else max(until - time.monotonic(), 0))
        return read.get(self.stdout), read.get(self.stderr)

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self.stdin, *self._outputs()):
            if one:
                one.close()
        self.wait()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # reaped, its status is on its way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __del__(self, close: Any = os.close) -> None:  # `os` may be gone at the end of Python
        # Not a child of this process: nothing to reap, and a service may outlive it.
        if hasattr(self, "_ended"):
            close(self._ended)

    def _outputs(self) -> list[Any]:
        return [one for one in (self.stdout, self.stderr) if one and not one.closed]

    def _write(self, given: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            if given:
                self.stdin.write(given)
            self.stdin.close()

    def _next(self) -> int:
        """The next number: the pid, then the exit status; LOST if the fork server ended."""
        number = os.read(self._ended, 8)
        return int.from_bytes(number, "little", signed=True) if number else LOST


def _stream(wanted: int | None, number: int, encoding: str | None) -> tuple[Any, int]:
    """Our end of a standard stream, if it is a pipe, and the descriptor of the process's end."""
    if wanted is None:
        return None, number
    if wanted == DEVNULL:
        return None, os.open(os.devnull, os.O_RDWR)
    if wanted != PIPE:
        return None, wanted
    read, write = os.pipe()
    ours, theirs, mode = (read, write, "r") if number else (write, read, "w")
    return os.fdopen(ours, mode if encoding else f"{mode}b", encoding=encoding), theirs


Popen: Any = Forked if sys.platform == "linux" else subprocess.Popen


def spawn(command: list[str]) -> subprocess.Popen:
    """Replaces `hosting.reach.spawn`."""
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return Popen(command, cwd=sys.prefix, stdout=subprocess.PIPE, start_new_session=True, **quiet)


class Awaited:
    """The part of asyncio's `Process` that the product uses."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def communicate(self, given: bytes) -> tuple[bytes, bytes]:
        return await asyncio.to_thread(self._process.communicate, given)

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait)


async def create_subprocess_exec(*args: str, **streams: Any) -> Awaited:
    """Replaces `asyncio.create_subprocess_exec`."""
    return Awaited(Popen([*args], **streams))


ASYNC_MODULE = SimpleNamespace(  # replaces `asyncio` in `projection.neighbours`
    create_subprocess_exec=create_subprocess_exec, subprocess=asyncio.subprocess
)


def run(args: list[str], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with all streams as text."""
    given = options.pop("input", None)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), PIPE)
    with Popen(args, **pipes, text=True, encoding="utf-8", **options) as process:
        try:
            out, err = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _kind(args: Iterable[str]) -> str:
    return next(one for one in PRELOADED if one in args or not one)


def fork_all(line: socket.socket, own_kind: str) -> list[str]:
    """Fork a process for each request. Returns only in the forks: the command to run.

    Services, which import more, have their own fork server.
    """
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ends silently with the tests
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # requests of the forks
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([line, own, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _reap(running)
        for one in (line, own):
            if one not in ready:
                continue
            asked, passed, _, _ = socket.recv_fds(one, LONGEST, 4)
            if not asked:
                os._exit(0)
            *streams, told = passed
            command = json.loads(asked)
            if _kind(command[0]) == SERVICE != own_kind:
                socket.send_fds(_line(SERVICE), [asked], passed)
                _close(passed)
                continue
            _import(WHERE_NEEDED if LAYOUT in command[0] else ())
            if pid := os.fork():
                running[pid] = told
                _tell(told, pid)
                _close(streams)
            else:
                line.detach(), own.detach()
                return _become(streams, theirs.detach(), *command)


def _reap(running: dict[int, int]) -> None:
    """Report the exit status of processes that have ended."""
    for pid in [*running]:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            _tell(running[pid], os.waitstatus_to_exitcode(status))
            os.close(running.pop(pid))


def _close(descriptors: Iterable[int]) -> None:
    for one in descriptors:
        os.close(one)


def _import(names: Iterable[str]) -> None:
    for name in names:
        __import__(name)


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
        os.write(pipe, number.to_bytes(8, "little", signed=True))


def _become(
    streams: list[int], line: int, args: list[str], cwd: str, env: dict[str, str], alone: bool
) -> list[str]:
    """Take over the request's streams, folder and environment."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.dup2(line, 3, inheritable=False)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    for one in _lines.values():
        one.detach()
    _lines.update(dict.fromkeys(PRELOADED, socket.socket(fileno=3)))
    if alone:
        os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    return args[1:]


def main(kind: str) -> None:
    """Import everything once, then fork forever; in a fork, run the command."""
    gc.disable()  # imported objects stay
    if kind in ("", SERVICE):
        from mcp_server_qdrant.app.opening import import_services

        import_services()
    _import(PRELOADED[kind])
    sys.modules["mcp_server_qdrant.hosting.reach"].spawn = spawn
    if LAYOUT in sys.modules:
        sys.modules[LAYOUT].asyncio = ASYNC_MODULE
    sys.modules.pop(SERVICE, None)  # it runs as __main__
    gc.freeze()
    gc.enable()
    asked = fork_all(socket.socket(fileno=os.dup(0)), kind)
    if asked[0] == "-P":
        del asked[0]
    else:
        sys.path.insert(0, str(Path.cwd()))
    way, what, *arguments = asked
    sys.argv[:] = [way, *arguments]
    if what == LAYOUT:
        del sys.modules[what]  # it runs as __main__
    if what == SERVICE:
        _run_to_the_end(what)
    elif way == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


def _run_to_the_end(module: str) -> None:
    """Run a module, then exit without the libraries' exit handlers.

    These would wait forever for threads that were started by imports, which a fork does not have.
    """
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
    except Exception:  # noqa: BLE001 - printed, then the process ends
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
