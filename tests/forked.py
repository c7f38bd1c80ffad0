"""Processes that begin where the imports are done.

A server takes a second of processor time to import what it needs, a host up to 0.7 s, and the tests
start hundreds; one that lays a map out, 1.2 s. Here a process that has imported it forks each of
them: it has the arguments, environment, folder, streams and exit status that it would have. Tests
of the start itself use `subprocess`, and the fixture `real_hosts` where it is a host's.
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

ENGINE_HOST = "mcp_server_qdrant.qdrant.edge.host"
MODEL_HOST = "mcp_server_qdrant.encoders.local.serve"
LAYOUT = "mcp_server_qdrant.projection.neighbours"
# What runs -> what is imported before; "" is all else: servers, commands, and their hosts.
PRELOADED = {
    ENGINE_HOST: (ENGINE_HOST,),
    MODEL_HOST: (MODEL_HOST, "fastembed"),
    "": (
        "mcp_server_qdrant.cli.main",
        "mcp_server_qdrant.app.stdio",
        "mcp_server_qdrant.app.http",
        "mcp_server_qdrant.evaluation.run",
        "mcp_server_qdrant.app.local_models",
        ENGINE_HOST,
        MODEL_HOST,
    ),
}
WHERE_NEEDED = ("openTSNE", "sklearn.cluster")  # of a layout: imported at the first one
LONGEST = 1 << 17
LOST = -(1 << 62)
_lines: dict[str, socket.socket] = {}
_lock = threading.Lock()


def _line(kind: str) -> socket.socket:
    """The line to the process that forks, which ends with this one."""
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
    """A Popen of `[sys.executable, "-P", "-m", module, *arguments]`; `-c` does as well."""

    def __init__(self, args, *, start_new_session=False, **options):
        known = {"env", "cwd", "stdin", "stdout", "stderr", "text", "encoding"}
        assert options.keys() <= known
        sys.audit("subprocess.Popen", None, args, None, None)  # which --fast refuses
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
        kind = next(one for one in PRELOADED if one in args or not one)
        socket.send_fds(_line(kind), [asked.encode()], [*streams, self._told])
        os.close(self._told)
        self.pid = self._next()
        assert self.pid != LOST, "the process that forks has ended"
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
        """What is told next: the process, then its exit status; LOST once what forks has ended."""
        number = self._ended.read(8)
        return int.from_bytes(number, "little", signed=True) if number else LOST

    def __del__(self) -> None:
        # It is no child of this process, so nothing is left to reap; a host outlives who began it.
        if hasattr(self, "_ended"):
            self._ended.close()


Popen = Forked if sys.platform == "linux" else subprocess.Popen
MODULE = SimpleNamespace(Popen=Popen, DEVNULL=subprocess.DEVNULL)  # for what starts hosts


class Awaited:
    """A process as `asyncio` has it, as far as the product uses that."""

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
    """What `asyncio` has by this name."""
    return Awaited(Popen([*args], **streams))


ASYNC_MODULE = SimpleNamespace(  # for what lays out
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


def fork_all(line: socket.socket) -> list[str]:
    """Fork a process for each request. Returns in these alone: what to run."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the tests, and silently
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # for those forked
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([line, own, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            for pid in [*running]:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    _tell(running[pid], os.waitstatus_to_exitcode(status))
                    os.close(running.pop(pid))
        for one in (line, own):
            if one not in ready:
                continue
            asked, passed, _, _ = socket.recv_fds(one, LONGEST, 4)
            if not asked:
                os._exit(0)
            *streams, told = passed
            command = json.loads(asked)
            _import(WHERE_NEEDED if LAYOUT in command[0] else ())
            if pid := os.fork():
                running[pid] = told
                _tell(told, pid)
                for stream in streams:
                    os.close(stream)
            else:
                line.detach(), own.detach()
                return _become(streams, theirs.detach(), *command)


def _import(names: Iterable[str]) -> None:
    for name in names:
        __import__(name)


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(pipe, number.to_bytes(8, "little", signed=True))


def _become(
    streams: list[int], line: int, args: list[str], cwd: str, env: dict[str, str], alone: bool
) -> list[str]:
    """Take over streams, folder and environment."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.dup2(line, 3, inheritable=False)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    _lines.update(dict.fromkeys(PRELOADED, socket.socket(fileno=3)))
    if alone:
        os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    return args[1:]


def main(kind: str) -> None:
    """Import everything once, fork for ever; in a fork, run what was asked for."""
    gc.disable()  # all that is imported stays
    if not kind:
        from mcp_server_qdrant.app.opening import import_services

        import_services()
    _import(PRELOADED[kind])
    sys.modules["mcp_server_qdrant.hosting.link"].subprocess = MODULE
    if LAYOUT in sys.modules:
        sys.modules[LAYOUT].asyncio = ASYNC_MODULE
    for name in (ENGINE_HOST, MODEL_HOST):  # they run as __main__
        sys.modules.pop(name, None)
    gc.freeze()
    gc.enable()
    asked = fork_all(socket.socket(fileno=os.dup(0)))
    if asked[0] == "-P":
        del asked[0]
    else:
        sys.path.insert(0, str(Path.cwd()))
    way, what, *arguments = asked
    sys.argv[:] = [way, *arguments]
    if what == LAYOUT:
        del sys.modules[what]  # it runs as __main__
    if what == MODEL_HOST:
        _run_to_the_end(what)
    elif way == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


def _run_to_the_end(module: str) -> None:
    """Run a module, then end without the libraries' own end: they wait for threads for ever.

    Those that they began at their import are not in a fork.
    """
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
    except Exception:  # noqa: BLE001 - it is told, and is the end
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
