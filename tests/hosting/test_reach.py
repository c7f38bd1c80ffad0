"""Where a service is looked for, what is said to it first, and how it is started."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import platformdirs
import pytest
from platformdirs.macos import MacOS

from mcp_server_qdrant import __version__
from mcp_server_qdrant.hosting import reach
from mcp_server_qdrant.hosting.reach import (
    Died,
    Ended,
    connect,
    connect_when_ready,
    guess_path,
    hello,
    locators,
    may_share,
    parse_object,
    split_lines,
    start,
)
from mcp_server_qdrant.hosting.rendezvous import PROTOCOL, rendezvous_path
from tests.hosting.service import Service

APP = "mcp-server-qdrant"


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No variable of interest, and a home of its own."""
    for name in ("QDRANT_LOCAL_PATH", "QDRANT_URL", "QDRANT_CACHE_PATH", reach.SHARE):
        monkeypatch.delenv(name, raising=False)
    for kind in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def real_processes(real_hosts):
    pass


def test_without_a_setting_the_service_is_that_of_the_users_data_folder():
    data = platformdirs.user_data_path(APP, appauthor=False)

    assert guess_path(locators(None)) == str(data / "service.json")


@pytest.mark.skipif(sys.platform != "linux", reason="compares with the platform's own")
@pytest.mark.parametrize("kind", ["config", "data", "cache"])
@pytest.mark.parametrize("own", [None, "/own", " "])
def test_the_folders_are_those_of_platformdirs(kind, own, monkeypatch):
    if own:
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", own)

    theirs = getattr(platformdirs, f"user_{kind}_dir")(APP, appauthor=False)
    assert reach._folder(kind) == theirs
    monkeypatch.setattr(reach, "sys", SimpleNamespace(platform="darwin"))
    assert reach._folder(kind) == getattr(MacOS(APP, appauthor=False), f"user_{kind}_dir")
    monkeypatch.setattr(reach, "sys", SimpleNamespace(platform="win32"))
    assert reach._folder(kind) == theirs


def test_a_variable_names_the_folder_or_the_server(monkeypatch, tmp_path):
    monkeypatch.setenv("qdrant_local_path", "~/engine")
    assert guess_path(locators(None)) == str(tmp_path / "engine" / "service.json")

    monkeypatch.setenv("QDRANT_URL", "http://one:6333")
    monkeypatch.setenv("QDRANT_CACHE_PATH", "~/cache")
    assert guess_path(locators(None)) == rendezvous_path("http://one:6333", "", tmp_path / "cache")


def test_a_settings_file_does_the_same_and_the_environment_wins(monkeypatch, tmp_path):
    own = tmp_path / ".config" / APP / ".env"
    own.parent.mkdir(parents=True)
    own.write_text("export qdrant_local_path='/from/own'\n")
    other = tmp_path / "other.env"
    other.write_text("QDRANT_LOCAL_PATH=/from/other\nQDRANT_SHARE_PROCESS=false\n")

    assert guess_path(locators(None)) == "/from/own/service.json"
    assert (
        guess_path(locators(str(other)))
        == guess_path(locators("~/other.env"))
        == "/from/other/service.json"
    )
    assert not may_share(locators(str(other)))
    monkeypatch.setenv("QDRANT_LOCAL_PATH", "/from/environment")
    assert guess_path(locators(str(other))) == "/from/environment/service.json"
    assert locators(str(tmp_path / "nowhere.env")) == {"QDRANT_LOCAL_PATH": "/from/environment"}


def test_a_blank_variable_is_none(monkeypatch, tmp_path):
    (tmp_path / "x.env").write_text("QDRANT_URL=http://one:6333\nQDRANT_LOCAL_PATH=\n")
    monkeypatch.setenv("QDRANT_URL", "")

    assert locators(str(tmp_path / "x.env")) == {"QDRANT_URL": "http://one:6333"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [("false", False), (" Off", False), ("0", False), ("1", True), ("", True)],
)
def test_processes_are_shared_unless_that_is_switched_off(value, expected, monkeypatch):
    monkeypatch.setenv("QDRANT_SHARE_PROCESS", value)

    assert may_share(locators(None)) is expected


def test_the_hello_tells_settings_folder_and_terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("QDRANT_READ_ONLY", "true")
    monkeypatch.setenv("COLUMNS", "99")
    said = json.loads(hello("command", ["sync", "x"], "some.env"))

    assert said.pop("variables") == dict(os.environ)
    assert said == {
        "kind": "command",
        "version": __version__,
        "env_file": str(tmp_path / "some.env"),
        "folder": str(tmp_path),
        "argv": ["sync", "x"],
        "terminal": {"out": False, "err": False, "columns": 99},
        "hook": {},
    }


def test_a_hooks_hello_has_no_variables_and_a_folder_that_is_gone_is_none(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = json.loads(hello("recall", [], None, {"prompt": "x"}))

    assert (said["variables"], said["folder"], said["env_file"]) == ({}, None, None)
    assert said["hook"] == {"prompt": "x"}


def test_a_line_is_handed_on_once_it_is_whole():
    pieces = [b"on", b"e\ntw", b"o\n\n", b"three\nfo", b"ur"]

    assert [*split_lines(pieces)] == [b"one", b"two", b"", b"three"]


@pytest.mark.parametrize("line", [b"", b"no", b"[]", b"7", b"[" * 100_000, b'"\xff', b"null"])
def test_a_line_is_an_object_with_a_mark_and_broken_bytes_too_or_an_empty_one(line):
    assert parse_object(line) == {}
    assert parse_object(b'\xef\xbb\xbf{"a": "\xff"}') == {"a": "\ufffd"}


def test_a_service_of_another_protocol_is_not_spoken_to(tmp_path, monkeypatch):
    monkeypatch.setattr(reach, "_CONNECT_SECONDS", 0.05)
    service = Service(tmp_path, wire=PROTOCOL + 1)

    assert connect(str(service.place)) is None
    with pytest.raises(Ended, match="Another version") as ended:
        connect_when_ready(str(service.place))
    assert ended.value.status == 1
    service.stop()


def test_a_service_that_lets_nobody_in_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(reach, "_CONNECT_SECONDS", 0.05)
    service = Service(tmp_path)
    service.stop(withdraw=False)

    with pytest.raises(Ended, match="did not answer within"):
        connect_when_ready(str(service.place))


@pytest.mark.parametrize("withdraw", [True, False])
def test_a_service_that_has_died_is_not_waited_for(tmp_path, monkeypatch, withdraw):
    service = Service(tmp_path)
    service.stop(withdraw=withdraw)
    monkeypatch.setattr(reach, "_runs", lambda _: False)

    with pytest.raises(Died):
        connect_when_ready(str(service.place))


def program(*printed: object, code: str = "") -> list[str]:
    """A service that reports this."""
    said = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in printed)
    return [sys.executable, "-c", f"import sys; sys.stdout.write({said!r}); {code}"]


def test_a_service_that_starts_says_where_it_listens(capfd):
    report = ["a library's own words", {"say": "one\n"}, [1], {"say": "two\n"}, {"ready": "/x/y"}]

    assert start(program(*report)) == "/x/y"
    assert capfd.readouterr() == ("", "one\ntwo\n")


@pytest.mark.parametrize(
    ("report", "status", "said"),
    [
        ([{"say": "QDRANT_URL: is wrong.\n"}, {"exit": 2}], 2, ""),
        ([{"say": "QDRANT_URL: is wrong.\n"}], 1, reach.NOT_STARTED),
        ([], 1, reach.NOT_STARTED),
    ],
)
def test_a_service_that_cannot_serve_ends_its_pipe_with_status_and_sentence(
    report, status, said, capfd
):
    with pytest.raises(Ended) as ended:
        start(program(*report))

    assert (ended.value.status, ended.value.sentence) == (status, said)
    assert capfd.readouterr().err == "".join(one["say"] for one in report if "say" in one)


def test_a_service_is_started_apart_from_its_client(tmp_path):
    code = (
        "import os; assert os.getsid(0) == os.getpid() and os.read(0, 1) == b''; "
        "print('{\"ready\": \"' + os.getcwd() + '\"}')"
    )

    assert start(program(code=code)) == sys.prefix


def test_what_cannot_be_started_is_an_error_of_the_system():
    with pytest.raises(OSError, match="nowhere"):
        start(["/nowhere/python"])


def test_a_service_that_yields_is_awaited_until_it_has_gone(tmp_path, monkeypatch):
    service = Service(tmp_path)
    naps = []

    def nap(_: float) -> None:
        naps.append(1)
        service.stop()

    monkeypatch.setattr(reach, "time", SimpleNamespace(sleep=nap, monotonic=lambda: 0.0))
    reach.await_end(service.published, str(service.place))
    assert naps == [1]

    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    service.published.pid = process.pid
    service.published.write(service.place)
    reach.await_end(service.published, str(service.place))
    assert naps == [1]


def test_on_windows_a_wait_is_cut_in_pieces(monkeypatch):
    ours, theirs = reach.socket.socketpair()
    monkeypatch.setattr(reach, "sys", SimpleNamespace(platform="win32"))
    with ours, contextlib.closing(theirs):
        theirs.sendall(b"x")
        theirs.shutdown(reach.socket.SHUT_WR)

        assert [*reach.receive_chunks(ours)] == [b"x"]


def test_a_broken_stderr_is_no_fault(monkeypatch):
    class Broken:
        def write(self, _: str) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(reach, "sys", SimpleNamespace(stderr=Broken()))
    reach.write_stderr("x")
    monkeypatch.setattr(reach, "sys", SimpleNamespace(stderr=None))
    reach.write_stderr("x")


def test_a_file_that_is_none_is_no_fault(tmp_path):
    (tmp_path / "x.env").write_bytes(b"\xff\xfe")

    assert locators(str(tmp_path / "x.env")) == locators(str(Path("/"))) == {}
