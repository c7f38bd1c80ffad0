"""Which commands go to a service, and what `doctor` and `init` have done there."""

import json
import os
import subprocess
import sys

import pytest

from mcp_server_qdrant.cli import frame, route
from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.hosting import pipe
from mcp_server_qdrant.hosting.reach import Ended
from tests.cli.visitor import Visitor


@pytest.fixture
def asked(monkeypatch):
    """What a service is asked to run."""
    asked = []

    def run(words, file, *_, **__):
        asked.append((words, file))
        return 7

    monkeypatch.setattr(pipe, "run_command", run)
    return asked


def test_commands_of_the_engine_go_to_the_service(asked):
    for words, file in (
        (["ingest", ".", "--collection", "c"], None),
        (["--env-file", "a.env", "history"], "a.env"),
        (["--env-file=a.env", "history", "--env-file=/b.env"], "/b.env"),
        (["history", "--", "--env-file", "x"], None),
    ):
        assert route.run_elsewhere(words, ()) == 7
        assert asked.pop() == (words, file)


@pytest.mark.parametrize(
    "words",
    [
        *([], ["--version"], ["init", "--yes"], ["doctor"], ["token", "ana"]),
        *(["sync", "--help"], ["--transport", "sse"], ["--transport", "ingest"], ["no-such"]),
    ],
)
def test_all_else_stays_in_its_own_process(words, asked):
    assert route.run_elsewhere(words, ()) is None
    assert asked == []


def test_every_command_that_is_hosted_is_one():
    assert set(main.commands) >= route.HOSTED
    for name in ("examine", "first-search"):
        assert main.commands[name].hidden


def test_it_is_decided_before_anything_else_is_imported():
    code = (
        "import sys\nfrom mcp_server_qdrant.cli import route\n"
        "from mcp_server_qdrant.hosting import pipe\n"
        "pipe.run_command = lambda *_: print('click' in sys.modules) or 3\n"
        "sys.argv[1:] = ['history']\n"
        "from mcp_server_qdrant.__main__ import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (3, "False\n", "")


@pytest.fixture
def service(monkeypatch, tmp_path):
    """A service for the commands of the tests."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    ran = []

    def run(words, *_, out=None):
        ran.append(words[0])
        own = sys.stdout, sys.stderr, sys.stdin
        try:
            one = Visitor(tmp_path, dict(os.environ))
            status, said, err = one.run(*words)
        finally:
            sys.stdout, sys.stderr, sys.stdin = own
        (out or sys.stdout.write)(said)
        sys.stderr.write(err)
        return status

    monkeypatch.setattr(pipe, "run_command", run)
    return ran


SETTINGS = {"QDRANT_URL": ":memory:", "EMBEDDING_PROVIDER": "none"}


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")} | SETTINGS


def test_doctor_finds_the_same_with_a_service_and_without(invoke, home, service, monkeypatch):
    with_one = invoke("doctor", "--json", **home)
    monkeypatch.setattr(pipe, "run_command", lambda *_, **__: None)
    without = invoke("doctor", "--json", **home)

    assert service == ["examine"]
    assert with_one.exit_code == without.exit_code == 0
    assert json.loads(with_one.stdout) == json.loads(without.stdout)
    assert {one["check"] for one in json.loads(with_one.stdout)} > {"engine", "round trip"}


def test_doctor_finds_the_reason_where_no_service_starts(invoke, home, monkeypatch):
    def refused(*_, **__):
        raise Ended(1)

    monkeypatch.setattr(pipe, "run_command", refused)
    done = invoke("doctor", **home)

    assert (done.exit_code, "round trip: A text was stored and found" in done.stdout) == (0, True)


def test_doctor_goes_on_where_the_service_stops(invoke, home, asked):
    done = invoke("doctor", **home)

    assert done.exit_code == 1
    assert "PROBLEM engine: The service that runs the engine stopped" in done.stdout
    assert "client: No client here" in done.stdout


def test_doctor_ends_where_it_is_interrupted_in_the_service(invoke, home, monkeypatch):
    monkeypatch.setattr(pipe, "run_command", lambda *_, **__: frame.INTERRUPTED)
    done = invoke("doctor", **home)

    assert (done.exit_code, done.stderr) == (130, "")


@pytest.mark.parametrize("fault", [False, True])
def test_the_first_search_of_init_is_done_by_the_service(
    invoke, home, service, monkeypatch, fault, tmp_path
):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "bread.md").write_text("# Bread\n\nIt needs 72 % water.")
    if fault:
        monkeypatch.setattr(pipe, "run_command", lambda *_, **__: 1)
    monkeypatch.setattr("mcp_server_qdrant.cli.clients.try_start", lambda *_, **__: "this server")
    words = ("init", "--client", "cursor", "--folder", str(notes), "--yes")
    done = invoke(*words, **home)

    assert done.exit_code == (1 if fault else 0), done.stderr
    assert service == ([] if fault else ["first-search"])
    assert ("It needs 72 % water." in done.stdout) is not fault


def test_an_engine_that_init_names_is_searched_from_its_own_process(
    invoke, home, asked, monkeypatch
):
    monkeypatch.setattr("mcp_server_qdrant.cli.clients.try_start", lambda *_, **__: "this server")
    del home["QDRANT_URL"]
    done = invoke("init", "--client", "cursor", "--url", ":memory:", "--yes", **home)

    assert (done.exit_code, asked) == (0, [])
    assert "A first search" in done.stdout
