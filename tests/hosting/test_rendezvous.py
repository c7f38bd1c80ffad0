"""Where a service listens, and how both sides know each other."""

import json
import os
import socket
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcp_server_qdrant.hosting import rendezvous
from mcp_server_qdrant.hosting.rendezvous import (
    NONCE,
    PROOF,
    PROTOCOL,
    Rendezvous,
    rendezvous_path,
    socket_path,
)
from tests.hosting.service import PATIENCE, Service

ONE = Rendezvous("/somewhere/s", b"key", 7, PROTOCOL, "1.0")


@pytest.fixture(params=["linux", "win32"])
def platform(request, monkeypatch):
    """Where a service has a Unix socket, and where it listens on loopback."""
    monkeypatch.setattr(rendezvous, "sys", SimpleNamespace(platform=request.param))
    return request.param


def test_a_folder_and_a_server_each_have_a_place(tmp_path):
    url = "http://127.0.0.1:6333"
    name = f"service-{sha256(url.encode()).hexdigest()[:16]}.json"

    assert rendezvous_path(None, tmp_path, "cache") == str(tmp_path / "service.json")
    assert rendezvous_path("", tmp_path, "cache") == str(tmp_path / "service.json")
    assert rendezvous_path(url, "local", tmp_path) == str(tmp_path / "services" / name)


def test_what_is_published_is_read_and_nobody_elses(tmp_path):
    place = tmp_path / "service.json"
    ONE.write(place)

    assert place.stat().st_mode & 0o077 == 0
    assert Rendezvous.read(place) == ONE
    for mode in (0o604, 0o640):
        place.chmod(mode)
        assert Rendezvous.read(place) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"address": "a", "key": "x", "pid": 1, "wire": 1}', "7", "\x00"]
)
def test_a_file_that_is_not_whole_is_none(text, tmp_path):
    place = tmp_path / "service.json"
    place.touch(mode=0o600)
    place.write_text(text)

    assert Rendezvous.read(place) is None


def test_a_link_is_not_followed(tmp_path):
    ONE.write(tmp_path / "elsewhere.json")
    (tmp_path / "service.json").symlink_to(tmp_path / "elsewhere.json")

    assert Rendezvous.read(tmp_path / "service.json") is None


def test_fields_of_other_versions_do_no_harm(tmp_path):
    place = tmp_path / "service.json"
    ONE.write(place)
    fields = json.loads(place.read_text())
    del fields["version"]
    place.write_text(json.dumps({**fields, "more": 1}))

    assert Rendezvous.read(place) == Rendezvous(ONE.address, ONE.key, ONE.pid, ONE.protocol, "")


def test_who_withdraws_leaves_the_file_of_the_next_one(tmp_path):
    place = tmp_path / "service.json"
    service = Service(tmp_path)
    folder = Path(service.published.address).parent
    ONE.write(place)
    service.stop()

    assert not folder.exists()
    assert Rendezvous.read(place) == ONE


def test_what_a_killed_service_left_is_cleared(tmp_path):
    service = Service(tmp_path)
    service.stop(withdraw=False)
    socket_file = Path(service.published.address)
    assert socket_file.exists()

    Rendezvous.clear(service.place)

    assert not socket_file.parent.exists()
    assert not service.place.exists()


def test_the_path_of_a_socket_is_short_and_in_a_folder_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 30)))
    path = Path(socket_path())

    assert len(os.fsencode(path)) < 100
    assert path.parent.stat().st_mode & 0o077 == 0
    path.parent.rmdir()


def greeted(service: Service) -> threading.Thread:
    def visit():
        visitor = service.visitor()
        visitor.send(b"well\n")
        visitor.close()

    thread = threading.Thread(target=visit)
    thread.start()
    return thread


def test_both_sides_know_each_other_over_either_kind_of_address(platform, tmp_path):
    service = Service(tmp_path)
    thread = greeted(service)
    found = Rendezvous.read(service.place)
    with found.dial(PATIENCE) as line:
        line.sendall(b"{}\n")

        assert line.gettimeout() is None
        assert line.recv(5) == b"well\n"
        if platform == "win32":
            assert line.family == socket.AF_INET
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    thread.join(PATIENCE)
    service.stop()
    assert found.dial(PATIENCE) is None


def test_a_service_that_does_not_know_the_key_is_none(platform, tmp_path):
    service = Service(tmp_path)

    def pretend() -> None:
        with service._socket.accept()[0] as line:
            line.sendall(b"x" * (NONCE + PROOF))
            line.recv(1024)

    thread = threading.Thread(target=pretend)
    thread.start()

    assert service.published.dial(PATIENCE) is None
    thread.join(PATIENCE)
    service.stop()


def test_a_service_that_says_nothing_is_late(platform, tmp_path):
    service = Service(tmp_path)

    with pytest.raises(TimeoutError):
        service.published.dial(0.01)
    service.stop()


def test_an_address_of_another_kind_is_none(monkeypatch):
    monkeypatch.setattr(rendezvous, "sys", SimpleNamespace(platform="win32"))

    assert ONE.dial(PATIENCE) is None


def test_a_client_imports_next_to_nothing():
    code = "import sys, mcp_server_qdrant.hosting.pipe; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())

    assert "mcp_server_qdrant.hosting.relay" in loaded
    assert loaded.isdisjoint(
        {"typing", "pathlib", "asyncio", "subprocess", "tempfile", "inspect", "dataclasses"}
        | {"platformdirs", "dotenv", "click", "pydantic", "mcp_server_qdrant.core.errors"}
    )
