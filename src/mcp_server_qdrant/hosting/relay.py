"""Forwards the lines of one stdio client to the service of its store, and the answers back.

If the service dies, it is restarted. The client's `initialize` is replayed, pending requests that
only read are retried, and all others are answered with an error.

One thread reads from the client, another from the service.
"""

import json
import os
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from mcp_server_qdrant.hosting import reach
from mcp_server_qdrant.hosting.reach import STARTS, Ended, json_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_server_qdrant.hosting.rendezvous import Rendezvous

REPLAYED = "mcp-server-qdrant: initialize again"  # the id of the replayed request
_BEGUN = "notifications/initialized"
_READING_TOOLS = ("qdrant-find", "qdrant-get", "qdrant-collections", "qdrant-project")
# The start of a response: responses may be long, so only the id is parsed.
_ANSWER = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)":', re.ASCII
)

STOPPED = "The service stopped during this call."
STOPPED_OFTEN = (
    "The service stopped several times during this call: `mcp-server-qdrant doctor` looks for the "
    "reason."
)

Id = str | int


class ClientGone(Exception):
    """The client has closed its end."""


class _Request:
    """A pending request of the client."""

    def __init__(self, message: Mapping[str, object], data: bytes) -> None:
        self.message, self.data = message, data
        self.sent = False  # completely, so the service may have processed it
        self.repeated = 0

    @property
    def calls_tool(self) -> bool:
        return self.message["method"] == "tools/call"

    @property
    def only_reads(self) -> bool:
        """True if it can safely be retried."""
        params = self.message.get("params")
        tool = params.get("name") if isinstance(params, dict) else None
        return not self.calls_tool or tool in _READING_TOOLS


class Relay:
    """Forwards the lines of one client to the service, and the answers back.

    `service` is the command that starts one, `place` the path where it is looked for first;
    `stdin` and `stdout` are file descriptors.
    """

    def __init__(
        self, service: Sequence[str], place: str, hello: bytes, stdin: int = 0, stdout: int = 1
    ) -> None:
        self._service, self._place, self._hello = service, place, hello
        self._stdin, self._stdout = stdin, stdout
        self._lock = threading.Condition()  # guards sending, and reconnecting
        self._requests: dict[Id, _Request] = {}
        self._initialize: bytes | None = None  # the client's `initialize`, for a replay
        self._initialized: bytes | None = None
        self._yielding = False
        self._queueing = False  # requests are queued until `_replay` has run
        self._ended = False  # the client's input has ended
        self._starts = 0  # of services since the last response
        self._moved = 0  # how often in a row a service had another store
        self._socket: socket.socket
        self._rendezvous: Rendezvous

    def connect(self, *, elsewhere: bool = False) -> None:
        """Find or start the service. Raises Ended; OSError if no process can be started."""
        found = reach.connect_or_start(self._service, self._place, elsewhere=elsewhere)
        self._place, self._socket, self._rendezvous = found
        self._starts += 1
        with suppress(OSError):  # a dead service is noticed by the reader
            self._socket.sendall(self._hello)

    def run(self) -> int:
        """Forward until the client or the service ends; the exit status."""
        threading.Thread(target=self._read_client, name="client", daemon=True).start()
        try:
            elsewhere = self._read_service()
            while self._reconnect(elsewhere=elsewhere):
                elsewhere = self._read_service()
        except Ended as end:
            return reach.print_end(end)
        except ClientGone:
            return 0
        else:
            return 0
        finally:
            self._socket.close()

    def end_input(self, seconds: float = -1) -> None:
        """Note the end of the client's input; the service answers pending requests, then closes."""
        if self._lock.acquire(timeout=seconds):
            self._ended = True
            if not self._queueing:  # else `_replay` tells the next service
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_WR)
            self._lock.notify()
            self._lock.release()

    def _read_client(self) -> None:
        """Send the client's lines until its input ends."""
        pieces = iter(partial(os.read, self._stdin, reach.CHUNK), b"")
        with suppress(OSError):
            for line in reach.split_lines(
                chain(pieces, [b"\n"])
            ):  # the last line may lack its newline
                if line.strip():
                    self._send(line)
        self.end_input()

    def _send(self, line: bytes) -> None:
        message = reach.parse_object(line)
        # Not a message: the space keeps the service from taking it for a control line.
        data = b"%s%s\n" % (b" " if line.startswith(b"!") else b"", line)
        with self._lock:
            request = self._track(message, data)
            if request is None or not self._queueing:
                with suppress(OSError):  # a dead service is noticed by the reader
                    self._socket.sendall(data)
                    if request is not None:
                        request.sent = True
            self._lock.notify()

    def _track(self, message: Mapping[str, object], data: bytes) -> _Request | None:
        """Track a message; returns its request, or None for a response or notification."""
        method, number, params = (message.get(name) for name in ("method", "id", "params"))
        if method == _BEGUN:
            self._initialized = data
        elif method == "notifications/cancelled" and isinstance(params, dict):
            cancelled = params.get("requestId")
            if isinstance(cancelled, Id):
                self._requests.pop(cancelled, None)
        if method is None or not isinstance(number, Id):
            return None
        request = self._requests[number] = _Request(message, data)
        return request

    def _read_service(self) -> bool:
        """Forward the service's lines until the connection ends. Raises Ended.

        True if this service has another store, so that another service must be found.
        """
        with suppress(OSError):
            for line in reach.split_lines(reach.receive_chunks(self._socket)):
                if line.startswith(b"!"):
                    order = reach.parse_control(line)
                    if "elsewhere" in order:
                        return True
                    self._obey(order)
                elif self._is_for_client(line):
                    self._write(line + b"\n")
        return False

    def _obey(self, order: Mapping[str, object]) -> None:
        if "say" in order:
            reach.write_stderr(str(order["say"]))
        elif "exit" in order:
            raise Ended(reach.status_of(order))
        elif "yielding" in order:
            self._yielding = self._queueing = True

    def _is_for_client(self, line: bytes) -> bool:
        """False for the response to a replayed request; any other ends its pending request."""
        if found := _ANSWER.match(line):
            number = json.loads(found[1])
        else:
            message = reach.parse_object(line)
            number = message.get("id")
            if "method" in message or not isinstance(number, Id):
                return True
        if number == REPLAYED:
            return False
        request = self._requests.pop(number, None)
        if request and request.message["method"] == "initialize":
            self._initialize = json_line({**request.message, "id": REPLAYED})
        self._starts = 0
        return True

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._stdout, left) :]
        except OSError:
            raise ClientGone from None

    def _reconnect(self, *, elsewhere: bool) -> bool:
        """Connect again; False if the client needs no connection any more. Raises Ended."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a sender that holds the lock
        with self._lock:
            self._socket.close()
            if self._yielding:
                reach.await_end(self._rendezvous, self._place)
                self._yielding = False
            self._moved = self._moved + 1 if elsewhere else 0
            if self._moved > STARTS:
                raise Ended(1, reach.NOT_STARTED)
            self._settle_requests(nothing_done=elsewhere)
            # A service that keeps dying is restarted only for a request.
            while not (elsewhere or self._starts < STARTS or self._requests or self._ended):
                self._lock.wait()
            if self._ended and not self._requests:
                return False
            try:
                self.connect(elsewhere=elsewhere)
            except (Ended, OSError) as error:
                for number in [*self._requests]:
                    self._answer_with_error(number, STOPPED)
                raise error if isinstance(error, Ended) else Ended(1, reach.NOT_STARTED) from None
            self._queueing = True
            # In a thread of its own, because this one must read the responses meanwhile.
            threading.Thread(target=self._replay, args=(self._socket,), daemon=True).start()
            return True

    def _settle_requests(self, *, nothing_done: bool) -> None:
        """Decide for each pending request of a lost connection: retry, or answer with an error."""
        for number, request in [*self._requests.items()]:
            if nothing_done:
                request.sent = False
            elif request.sent and not request.only_reads:
                self._answer_with_error(number, STOPPED)
            elif request.sent and request.repeated >= STARTS:
                self._answer_with_error(number, STOPPED_OFTEN)

    def _answer_with_error(self, number: Id, sentence: str) -> None:
        """Answer a request with an error in place of the service."""
        request = self._requests.pop(number)
        if request.sent and not request.only_reads:
            from mcp_server_qdrant.core.errors import UNSURE

            sentence = f"{sentence} {UNSURE}"
        content = [{"type": "text", "text": sentence}]
        outcome = (
            {"result": {"content": content, "isError": True}}
            if request.calls_tool
            else {"error": {"code": -32603, "message": sentence}}
        )
        self._write(json_line({"jsonrpc": "2.0", "id": number, **outcome}))

    def _replay(self, connection: socket.socket) -> None:
        """Replay the session's start and retry the pending requests."""
        with self._lock, suppress(OSError):
            if connection is not self._socket:  # this service has died too
                return
            self._queueing = False
            if self._initialize:
                connection.sendall(self._initialize + (self._initialized or b""))
            for request in [*self._requests.values()]:
                request.repeated += request.sent
                connection.sendall(request.data)
                request.sent = True
            if self._ended:
                connection.shutdown(socket.SHUT_WR)
