"""The processes that a client starts: a pipe over stdio, a command, and a hook's question."""

import io
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcp_server_qdrant.hosting import pipe, reach
from mcp_server_qdrant.hosting.pipe import LOST, ask_recall, run_command
from mcp_server_qdrant.hosting.rendezvous import PROTOCOL
from tests.e2e.raw import clean_environment
from tests.hosting.service import PATIENCE, Service, Visitor, command
from tests.hosting.test_reach import program

START = """
import sys
from mcp_server_qdrant.hosting.pipe import run_stdio
run_stdio(sys.argv[2:], ["--transport", "stdio"], sys.argv[1] or None)
print("in this process")
"""


def started(folder: Path, service: list[str], env_file: str = "", **options) -> subprocess.Popen:
    """A pipe to the service of a folder, started by that command."""
    env = clean_environment({"QDRANT_LOCAL_PATH": str(folder), **options.pop("env", {})})
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    words = [sys.executable, "-P", "-c", START, env_file, *service]
    return subprocess.Popen(words, env=env, cwd=folder, **{**streams, **options})


@pytest.fixture
def served(tmp_path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.stop()


def test_a_service_is_started_with_the_settings_file(tmp_path):
    (tmp_path / "x.env").touch()
    code = "print(__import__('json').dumps({'say': sys.argv[1:]})); print('{\"exit\": 0}')"
    with started(tmp_path, program(code=code), "x.env") as process:
        _, err = process.communicate(timeout=PATIENCE)

    assert err.decode() == str(["--env-file", str(tmp_path / "x.env")])


@pytest.mark.parametrize("env", [{"QDRANT_SHARE_PROCESS": "false"}, {"_X_COMPLETE": "bash_source"}])
def test_a_server_that_shall_be_alone_runs_in_this_process(tmp_path, env):
    with started(tmp_path, command(tmp_path), env=env) as process:
        out, err = process.communicate(timeout=PATIENCE)

    assert (process.returncode, out, err) == (0, b"in this process\n", b"")
    assert not (tmp_path / "starts").exists()


@pytest.mark.parametrize("service", [["/nowhere/python"], program({"alone": True})])
def test_where_no_service_can_be_started_or_listen_the_server_runs_in_this_process(
    tmp_path, service
):
    with started(tmp_path, service) as process:
        process.stdin.close()
        out = process.stdout.read()

    assert (process.returncode, out) == (0, b"in this process\n")


def test_closed_standard_streams_are_the_end_of_input_and_no_sockets(tmp_path, served):
    words = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-P", "-c", START, ""]
    env = clean_environment({"QDRANT_LOCAL_PATH": str(tmp_path)})
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as process:
        visitor = served.visitor()
        assert visitor.hear() == b""
        visitor.order(say="nobody hears it")
        visitor.order(exit=7)
        process.wait(PATIENCE)
    visitor.close()

    assert process.returncode == 7


def test_without_news_of_processes_the_parent_is_watched(monkeypatch):
    parents, naps = iter([7, 7, 1]), []
    monkeypatch.setattr(pipe, "os", SimpleNamespace(getppid=lambda: next(parents)))
    monkeypatch.setattr(pipe, "time", SimpleNamespace(sleep=naps.append))
    monkeypatch.setattr(pipe, "_client", lambda *_: 7)

    assert pipe.client_handle(7, 0) is None
    pipe.await_client_end(7, None)
    assert len(naps) == 2


# A command.


@pytest.fixture
def talking(served, monkeypatch):
    """Have a thread be the service of the next visitor; the hello it got."""
    monkeypatch.setenv("QDRANT_LOCAL_PATH", str(served.place.parent))
    monkeypatch.delenv("QDRANT_URL", raising=False)
    threads, hellos = [], []

    def talk(*, says) -> list:
        def serve() -> None:
            visitor = served.visitor()
            hellos.append(visitor.hello)
            says(visitor)
            visitor.close()

        threads.append(threading.Thread(target=serve))
        threads[0].start()
        return hellos

    yield talk
    for thread in threads:
        thread.join(PATIENCE)


def test_without_a_service_no_command_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("QDRANT_LOCAL_PATH", str(tmp_path))
    assert run_command(["sync"]) is None
    monkeypatch.setenv("QDRANT_SHARE_PROCESS", "no")
    assert run_command(["sync"], service=["no such program"]) is None


def test_a_command_is_run_by_the_service(talking, capsys):
    def says(visitor: Visitor) -> None:
        visitor.order(say="one of two\r")
        visitor.order(out="asked for: ü\n")
        visitor.order(exit=3)

    (hello,) = [talking(says=says)]

    assert run_command(["sync", "--dry-run"], "x.env") == 3
    assert capsys.readouterr() == ("asked for: ü\n", "one of two\r")
    assert (hello[0]["kind"], hello[0]["argv"]) == ("command", ["sync", "--dry-run"])
    assert hello[0]["env_file"] == str(Path("x.env").absolute())


def test_ctrl_c_interrupts_the_command_and_not_the_process(talking):
    def says(visitor: Visitor) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert visitor.hear() == {"interrupt": True}
        visitor.order(exit=130)

    talking(says=says)
    before = signal.getsignal(signal.SIGINT)

    assert run_command([]) == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_the_process(monkeypatch):
    ours, theirs = socket.socketpair()
    ended = []
    monkeypatch.setattr(pipe.os, "_exit", ended.append)
    with ours, theirs:
        handler = pipe._interrupting(ours)
        handler(signal.SIGINT, None)
        assert ended == []
        monkeypatch.setattr(ours.__class__, "sendall", lambda *_: None)
        handler(signal.SIGINT, None)

    assert ended == [130]


def test_a_service_that_dies_under_a_command_is_a_sentence_and_status_1(talking, capsys):
    talking(says=lambda visitor: visitor.send(b'!{"exit": 0'))

    assert run_command([]) == 1
    assert capsys.readouterr().err == f"mcp-server-qdrant: {LOST}\n"


@pytest.mark.parametrize("order", ["elsewhere", "yielding"])
def test_a_service_that_is_not_the_commands_runs_none(talking, monkeypatch, order):
    awaited = []
    monkeypatch.setattr(reach, "await_end", lambda *whose: awaited.append(whose))
    talking(says=lambda visitor: visitor.order(**{order: True}))

    assert run_command([]) is None
    assert len(awaited) == (order == "yielding")


def test_a_command_whose_output_nobody_reads_ends_with_status_1(tmp_path, served):
    code = (
        "import sys; from mcp_server_qdrant.hosting.pipe import run_command; "
        "sys.exit(run_command([]))"
    )
    env = clean_environment({"QDRANT_LOCAL_PATH": str(tmp_path)})
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = [sys.executable, "-P", "-c", code]
    with subprocess.Popen(words, env=env, **streams) as process:
        visitor = served.visitor()
        process.stdout.close()
        visitor.order(out="x\n")
        assert visitor.hear() == b""
        visitor.close()
        process.wait(PATIENCE)

        assert (process.returncode, process.stderr.read()) == (1, b"")


def test_what_a_terminal_cannot_show_is_marked(talking, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))

    def says(visitor: Visitor) -> None:
        visitor.order(out="für\n")
        visitor.order(exit=0)

    talking(says=says)

    assert run_command([]) == 0
    assert raw.getvalue() == b"f?r\n"


# A hook's question.


@pytest.fixture(autouse=True)
def patient_dials(monkeypatch):
    monkeypatch.setattr(pipe, "_DIAL_SECONDS", PATIENCE)


def test_a_hook_gets_the_services_text(talking, served):
    def says(visitor: Visitor) -> None:
        visitor.order(out="what fits\n")
        visitor.order(exit=0)

    hellos = talking(says=says)

    assert ask_recall(str(served.place), {"prompt": "x"}, PATIENCE) == "what fits\n"
    assert (hellos[0]["kind"], hellos[0]["hook"]) == ("recall", {"prompt": "x"})


def test_a_hook_does_not_wait_for_a_service_that_is_slow(talking, served, monkeypatch):
    done, clock = threading.Event(), itertools.count(0.0, PATIENCE)
    monkeypatch.setattr(pipe, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    talking(says=lambda _: done.wait(PATIENCE))

    assert ask_recall(str(served.place), {"prompt": "x"}, PATIENCE) == ""
    done.set()


def test_a_hook_is_told_nothing_by_a_service_that_dies(talking, served):
    talking(says=lambda visitor: visitor.order(out="half"))

    assert ask_recall(str(served.place), {"prompt": "x"}, PATIENCE) == ""


def test_a_hook_without_a_service_is_told_nothing(tmp_path):
    assert ask_recall(str(tmp_path / "service.json"), {}, PATIENCE) == ""
    service = Service(tmp_path, wire=PROTOCOL + 1)
    assert ask_recall(str(service.place), {}, PATIENCE) == ""
    service.stop(withdraw=False)
    Service(tmp_path).stop(withdraw=False)
    assert ask_recall(str(service.place), {}, PATIENCE) == ""
