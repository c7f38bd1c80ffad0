"""Processes that begin where the imports are done.

A server takes a second of processor time to import what it needs, and the tests start hundreds.
Here a process that has imported it forks each of them: it has the arguments, environment, folder,
streams and exit status that it would have. Tests of the start itself use `subprocess`.
"""

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
import time
from functools import cache
from pathlib import Path
from typing import Any

PRELOADED = (
    "mcp_server_qdrant.cli.main",
    "mcp_server_qdrant.app.stdio",
    "mcp_server_qdrant.app.http",
    "mcp_server_qdrant.evaluation.run",
    "mcp_server_qdrant.app.local_models",
)
LONGEST = 1 << 17


@cache
def _parent() -> socket.socket:
    """The line to the process that forks, which ends with this one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    process = subprocess.Popen([sys.executable, "-P", __file__], stdin=there, env=kept)
    there.close()
    atexit.register(process.wait)
    atexit.register(here.close)
    return here


class Forked(subprocess.Popen):
    """A Popen of `[sys.executable, "-P", "-m", module, *arguments]`; `-c` does as well."""

    def __init__(self, args, *, env, cwd=None, stdin=None, stdout=None, stderr=None, **text):
        assert text.keys() <= {"text", "encoding"}
        super().__init__(args, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, **text)

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others):
        *_, in_read, in_write, out_read, out_write, err_read, err_write = others[:9]
        self._ended, told = os.pipe()
        given = zip((in_read, out_write, err_write), (0, 1, 2), strict=True)
        streams = [own if stream < 0 else stream for stream, own in given]
        asked = json.dumps([[*map(str, args)], str(cwd or Path.cwd()), dict(env)])
        socket.send_fds(_parent(), [asked.encode()], [*streams, told])
        os.close(told)
        self.pid = self._told()
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
            self.returncode = self._told()
            os.close(self._ended)
        return self.returncode

    def _told(self) -> int:
        if not (number := os.read(self._ended, 8)):
            raise ChildProcessError("the process that forks has ended")
        return int.from_bytes(number, "little", signed=True)


Popen = Forked if sys.platform == "linux" else subprocess.Popen


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
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([line, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            for pid in [*running]:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    _tell(running[pid], os.waitstatus_to_exitcode(status))
                    os.close(running.pop(pid))
        if line in ready:
            asked, passed, _, _ = socket.recv_fds(line, LONGEST, 4)
            if not asked:
                os._exit(0)
            *streams, told = passed
            if pid := os.fork():
                running[pid] = told
                _tell(told, pid)
                for stream in streams:
                    os.close(stream)
            else:
                return _become(streams, *json.loads(asked))


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(pipe, number.to_bytes(8, "little", signed=True))


def _become(streams: list[int], args: list[str], cwd: str, env: dict[str, str]) -> list[str]:
    """Take over streams, folder and environment."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    return args[1:]


def main() -> None:
    """Import everything once, fork for ever; in a fork, run what was asked for."""
    gc.disable()  # all that is imported stays
    from mcp_server_qdrant.app.opening import import_services

    import_services()
    for name in PRELOADED:
        __import__(name)
    gc.freeze()
    gc.enable()
    asked = fork_all(socket.socket(fileno=os.dup(0)))
    if asked[0] == "-P":
        del asked[0]
    else:
        sys.path.insert(0, str(Path.cwd()))
    way, what, *arguments = asked
    sys.argv[:] = [way, *arguments]
    if way == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
