"""A scripted service, in a thread of the test or as a separate program."""

import contextlib
import json
import os
import socket
import sys
from hmac import compare_digest
from pathlib import Path
from typing import Any

from mcp_server_qdrant.hosting import rendezvous
from mcp_server_qdrant.hosting.rendezvous import NONCE, PROOF, PROTOCOL, Rendezvous, proof

PATIENCE = 60.0


class Visitor:
    """The service's end of a connection."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._file = line.makefile("rb")
        self.hello: dict[str, Any] = {}

    def greet(self, key: bytes) -> "Visitor":
        """Authenticate each other with the key, and read the hello."""
        own = os.urandom(NONCE)
        self._line.sendall(own)
        assert compare_digest(self._file.read(PROOF), proof(key, b"client", own))
        self._line.sendall(proof(key, b"host", self._file.read(NONCE)))
        self.hello = self.hear()
        return self

    def line(self) -> bytes:
        """Read the next line; b"" at the end."""
        return self._file.readline()

    def hear(self) -> Any:
        """Read the next line as JSON, b"" at the end; without the mark of control lines."""
        line = self.line()
        return json.loads(line.removeprefix(b"!")) if line else b""

    def send(self, data: bytes) -> None:
        self._line.sendall(data)

    def order(self, **control: object) -> None:
        self.send(b"!" + json.dumps(control).encode() + b"\n")

    def answer(self, number: object, result: object = None) -> None:
        message = {"jsonrpc": "2.0", "id": number, "result": result or {}}
        self.send(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        self._file.close()
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()


class Service:
    """Listens, and publishes its address in a folder."""

    def __init__(self, folder: Path, wire: int = PROTOCOL) -> None:
        self.place = folder / "service.json"
        Rendezvous.clear(self.place)
        if rendezvous.sys.platform == "win32":
            self._socket = socket.create_server(("127.0.0.1", 0))
            address = "{}:{}".format(*self._socket.getsockname())
        else:
            address = rendezvous.socket_path()
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(address)
            self._socket.listen()
        self._socket.settimeout(PATIENCE)
        self.published = Rendezvous(address, os.urandom(32), os.getpid(), wire, "0.9")
        self.published.write(self.place)

    def visitor(self) -> Visitor:
        """Accept the next client, and authenticate it."""
        line, _ = self._socket.accept()
        line.settimeout(PATIENCE)
        return Visitor(line).greet(self.published.key)

    def stop(self, *, withdraw: bool = True) -> None:
        """Stop listening; the files stay, as after a kill."""
        self._socket.close()
        if withdraw:
            self.published.withdraw(self.place)


def main(folder: Path) -> None:
    """Report, then serve one visitor after the other; each start adds a line to `starts`."""
    with (folder / "starts").open("a+") as file:
        file.write(f"{os.getpid()}\n")
    service = Service(folder)
    report(say="starting\n")
    report(ready=str(service.place))
    os.close(1)
    while True:
        visitor = service.visitor()
        (folder / "hello.json").write_text(json.dumps(visitor.hello))
        while message := visitor.hear():
            if "id" not in message:
                continue
            visitor.answer(message["id"], {"pid": os.getpid()})
        with contextlib.suppress(OSError):
            visitor.order(exit=0)
        visitor.close()


def report(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def command(folder: Path) -> list[str]:
    """The command that starts this module as a program."""
    return [sys.executable, "-P", __file__, str(folder)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
