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
from collections.abc import Iterable
from pathlib import Path
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


class Forked(subprocess.Popen):
    """A Popen of `[sys.executable, "-P", "-m", module, *arguments]`, or with `-c`."""

    def __init__(self, args, *, start_new_session=False, **options):
        known = {"env", "cwd", "stdin", "stdout", "stderr", "text", "encoding"}
        assert options.keys() <= known
        sys.audit("subprocess.Popen", None, args, None, None)  # refused by --fast
        self._alone = start_new_session
        ended, self._told = os.pipe()
        self._ended = os.fdopen(ended, "rb", buffering=0)
        super().__init__(args, **options)

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others):
        *_, in_read, in_write, out_read, out_write, err_read, err_write = others[:9]
        given = zip((in_read, out_write, err_write), (0, 1, 2), strict=True)
        streams = [own if stream < 0 else stream for stream, own in given]
        env = dict(os.environ if env is None else env)
        asked = json.dumps([[*map(str, args)], str(cwd or Path.cwd()), env, self._alone])
        socket.send_fds(_line(_kind(args)), [asked.encode()], [*streams, self._told])
        os.close(self._told)
        self.pid = self._next()
        assert self.pid != LOST, "the fork server has ended"
        self._child_created = True
        self._close_pipe_fds(in_read, in_write, out_read, out_write, err_read, err_write)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            with self._waitpid_lock:  # several threads may wait
                if self.returncode is None:
                    self.returncode = self._next()
        return self.returncode

    def _next(self) -> int:
        """The next number: the pid, then the exit status; LOST if the fork server ended."""
        number = self._ended.read(8)
        return int.from_bytes(number, "little", signed=True) if number else LOST

    def __del__(self) -> None:
        # Not a child of this process: nothing to reap, and a service may outlive it.
        if hasattr(self, "_ended"):
            self._ended.close()


Popen = Forked if sys.platform == "linux" else subprocess.Popen
MODULE = SimpleNamespace(
    Popen=Popen, DEVNULL=subprocess.DEVNULL
)  # replaces `subprocess` where services are started


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
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
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
