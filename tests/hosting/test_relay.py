"""The lines of a client, handed on to a service that may die at any moment."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from mcp_server_qdrant.core.errors import UNSURE
from mcp_server_qdrant.hosting import reach
from mcp_server_qdrant.hosting.reach import Ended
from mcp_server_qdrant.hosting.relay import STOPPED, STOPPED_OFTEN, Relay
from mcp_server_qdrant.hosting.rendezvous import Rendezvous
from tests.hosting.service import PATIENCE, Service, command

INITIALIZE = {"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "ana"}}}
BEGUN = {"method": "notifications/initialized"}
HELLO = b'{"kind": "stdio"}\n'


def call(number: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


class Client:
    """A client and its pipe, which runs in a thread."""

    def __init__(self, relay: Callable[..., Relay]) -> None:
        read, self.stdin = os.pipe()
        out, write = os.pipe()
        self.out = os.fdopen(out, "rb")
        self._theirs = (read, write)
        self.relay = relay(HELLO, read, write)
        self.status: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.relay.connect()
        except Ended as end:
            self.status = reach.print_end(end)
        else:
            self.status = self.relay.run()

    def send(self, *messages: Any) -> None:
        """Each as a line; bytes as they are."""
        for one in messages:
            os.write(
                self.stdin, one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n"
            )

    def hear(self) -> Any:
        return json.loads(self.out.readline())

    def end_input(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def end(self) -> int | None:
        """The status, once the pipe has ended."""
        self._thread.join(PATIENCE)
        return self.status

    def close(self) -> None:
        self.end_input()
        self.end()
        for thread in threading.enumerate():
            if thread.name == "client":  # or it could read from the next test's descriptor
                thread.join(PATIENCE)
        for one in self._theirs:
            with contextlib.suppress(OSError):
                os.close(one)
        self.out.close()


class Stage:
    """A folder with a service, which can be replaced, and one client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.service = Service(folder)
        self.starts = 0
        self._started: Queue[Service] = Queue()
        self.client = Client(lambda *rest: Relay(["service"], str(self.service.place), *rest))
        self.visitor = self.service.visitor()

    def begin(self) -> None:
        """Open the client's session."""
        self.client.send(INITIALIZE)
        assert self.visitor.hear() == INITIALIZE
        self.visitor.answer(0, {"serverInfo": {}})
        self.client.hear()
        self.client.send(BEGUN)
        assert self.visitor.hear() == BEGUN

    def start(self, _: object) -> str:
        """What the pipe has for starting a service."""
        self.starts += 1
        started = Service(self.folder)
        self._started.put(started)
        return str(started.place)

    def kill(self) -> None:
        """The service dies; the next one has the next visitor."""
        self.service.stop(withdraw=False)
        self.visitor.close()

    def next_visitor(self) -> None:
        self.service.stop(withdraw=False)
        self.visitor.close()
        self.service = self._started.get(timeout=PATIENCE)
        self.visitor = self.service.visitor()

    def close(self) -> None:
        self.visitor.close()
        self.service.stop()
        self.client.close()


@pytest.fixture
def stage(tmp_path, monkeypatch) -> Iterator[Stage]:
    one = Stage(tmp_path)
    monkeypatch.setattr(reach, "start", one.start)
    yield one
    if one.client.status is None:
        one.visitor.order(exit=0)
    one.close()


def test_lines_go_both_ways_as_they_are(stage):
    sent = b'{"id": "a", "method": "ping"}\n\n \r\nno json \xff\n'
    stage.client.send(sent[:7])
    stage.client.send(sent[7:])
    told = b'{"jsonrpc": "2.0", "id": "a", "result": {}}\nwhatever\n{"method": "x"}\n'
    heard = [stage.visitor.line() for _ in range(2)]
    for piece in (told[:20], told[20:]):
        stage.visitor.send(piece)

    assert stage.visitor.hello == {"kind": "stdio"}
    assert heard == [b'{"id": "a", "method": "ping"}\n', b"no json \xff\n"]
    assert b"".join(stage.client.out.readline() for _ in range(3)) == told


def test_a_long_message_arrives_whole(stage):
    long = call(1, "qdrant-find", query="x" * 3_000_000)
    threading.Thread(target=stage.client.send, args=(long,)).start()
    assert stage.visitor.hear() == long
    threading.Thread(target=stage.visitor.answer, args=(1, {"a": "y" * 3_000_000})).start()

    assert stage.client.hear()["result"] == {"a": "y" * 3_000_000}


def test_no_line_of_a_client_is_control(stage):
    stage.client.send(b'!{"interrupt": true}\n')

    assert stage.visitor.line() == b' !{"interrupt": true}\n'


def test_the_end_of_input_is_told_and_the_service_ends_the_pipe(stage):
    stage.client.send(call(1, "qdrant-find"), b'{"method": "last"}')
    stage.client.end_input()
    heard = [stage.visitor.line() for _ in range(3)]
    stage.visitor.answer(1)
    stage.visitor.order(exit=0)

    assert stage.client.hear()["id"] == 1
    assert heard[1:] == [b'{"method": "last"}\n', b""]
    assert stage.client.end() == 0


def test_the_services_sentences_are_on_stderr_and_its_status_is_the_pipes(stage, capfd):
    stage.visitor.order(say="mcp-server-qdrant: QDRANT_URL: is wrong.\n")
    stage.visitor.order(exit=2)

    assert stage.client.end() == 2
    assert capfd.readouterr().err == "mcp-server-qdrant: QDRANT_URL: is wrong.\n"
    assert stage.client._theirs  # nothing was written there
    os.close(stage.client._theirs[1])
    assert stage.client.out.read() == b""


def test_a_client_that_takes_no_answer_ends_the_pipe_with_status_0(stage):
    stage.client.out.close()
    stage.visitor.answer(1)

    assert stage.client.end() == 0


def test_reads_are_repeated_by_the_next_service_in_a_session_opened_again(stage):
    stage.begin()
    reads = [
        *(call(n, f"qdrant-{name}") for n, name in enumerate(("find", "get", "collections"), 1)),
        {"id": "list", "method": "tools/list"},
        call(4, "qdrant-project"),
    ]
    stage.client.send(*reads)
    assert [stage.visitor.hear() for _ in reads] == reads
    stage.visitor.answer(2)
    assert stage.client.hear()["id"] == 2
    stage.visitor.send(b'{"jsonrpc":"2.0","id":1,"result":{"half')
    stage.kill()
    stage.next_visitor()

    again = stage.visitor.hear()
    assert stage.visitor.hello == {"kind": "stdio"}
    assert {**again, "id": 0} == INITIALIZE
    assert again["id"] != 0
    stage.visitor.answer(again["id"], {"serverInfo": {}})
    assert stage.visitor.hear() == BEGUN
    left = [one for one in reads if one["id"] != 2]
    assert [stage.visitor.hear() for _ in left] == left
    for one in left:
        stage.visitor.answer(one["id"])
    assert [stage.client.hear()["id"] for _ in left] == [one["id"] for one in left]
    assert stage.starts == 1


@pytest.mark.parametrize("tool", ["qdrant-store", "qdrant-delete", "qdrant-new", None])
def test_a_call_that_may_have_changed_something_is_answered_with_a_sentence(stage, tool):
    stage.begin()
    stage.client.send(call(1, tool))
    stage.visitor.hear()
    stage.kill()
    text = stage.client.hear()["result"]
    stage.next_visitor()

    assert text == {"content": [{"type": "text", "text": f"{STOPPED} {UNSURE}"}], "isError": True}
    stage.visitor.hear(), stage.visitor.hear()
    stage.client.send(call(2, tool))
    assert stage.visitor.hear()["id"] == 2


def test_what_a_client_cancelled_is_neither_repeated_nor_answered(stage):
    stage.begin()
    stage.client.send(call(1, "qdrant-find"), call(2, "qdrant-store"))
    for number in (1, 2):
        stage.client.send({"method": "notifications/cancelled", "params": {"requestId": number}})
    for _ in range(4):
        stage.visitor.hear()
    stage.kill()
    stage.next_visitor()
    stage.visitor.hear(), stage.visitor.hear()
    stage.client.send(call(3, "qdrant-find"))

    assert stage.visitor.hear()["id"] == 3
    stage.visitor.answer(3)
    assert stage.client.hear()["id"] == 3


def test_a_service_that_dies_before_the_session_is_open_gets_the_clients_own_request(stage):
    stage.client.send(INITIALIZE)
    stage.visitor.hear()
    stage.kill()
    stage.next_visitor()

    assert stage.visitor.hear() == INITIALIZE
    stage.visitor.answer(0)
    assert stage.client.hear()["id"] == 0


def test_a_call_whose_service_dies_again_and_again_is_answered(stage):
    stage.begin()
    stage.client.send(call(1, "qdrant-find"), {"id": 2, "method": "tools/list"})
    for turn in range(4):
        while stage.visitor.hear() != {"id": 2, "method": "tools/list"}:
            pass
        stage.kill()
        if turn < 3:
            stage.next_visitor()

    assert stage.client.hear()["result"]["content"][0]["text"] == STOPPED_OFTEN
    assert stage.client.hear()["error"]["message"] == STOPPED_OFTEN
    assert stage.starts == 3
    stage.client.send(call(3, "qdrant-find"))  # only now there is a reason to start another one
    stage.next_visitor()
    stage.visitor.hear(), stage.visitor.hear()
    assert stage.visitor.hear()["id"] == 3
    assert stage.starts == 4


def test_one_that_dies_while_it_starts_is_started_again(stage, monkeypatch):
    deaths = [reach.Died(1), reach.Died(1)]

    def start(command: object) -> str:
        if deaths:
            raise deaths.pop()
        return stage.start(command)

    monkeypatch.setattr(reach, "start", start)
    stage.begin()
    stage.kill()
    stage.next_visitor()

    assert stage.visitor.hear()["method"] == "initialize"
    assert deaths == []


def test_another_clients_service_is_joined(stage):
    stage.begin()
    stage.visitor.close()
    stage.visitor = stage.service.visitor()

    assert stage.visitor.hear()["method"] == "initialize"
    assert stage.starts == 0


def test_after_the_end_of_input_only_what_is_under_way_starts_a_service(stage):
    stage.begin()
    stage.client.send(call(1, "qdrant-find"))
    stage.visitor.hear()
    stage.client.end_input()
    assert stage.visitor.hear() == b""
    stage.kill()
    stage.next_visitor()
    heard = [stage.visitor.hear() for _ in range(4)]
    assert (heard[2]["id"], heard[3]) == (1, b"")
    stage.visitor.answer(1)
    assert stage.client.hear()["id"] == 1
    stage.kill()

    assert stage.client.end() == 0
    assert stage.starts == 1


def test_a_service_of_another_store_is_left_and_nothing_is_lost(stage, monkeypatch, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stage.folder = elsewhere
    stage.client.send(call(1, "qdrant-store"))
    stage.visitor.hear()
    stage.visitor.order(elsewhere=True)
    stage.next_visitor()

    assert stage.visitor.hear()["id"] == 1
    stage.visitor.answer(1)
    assert stage.client.hear()["id"] == 1
    stage.kill()
    stage.next_visitor()
    assert stage.service.place.parent == elsewhere


def test_services_that_send_one_elsewhere_without_end_end_the_pipe(stage, capfd):
    for turn in range(4):
        stage.visitor.order(elsewhere=True)
        if turn < 3:
            stage.next_visitor()

    assert stage.client.end() == 1
    assert capfd.readouterr().err == f"mcp-server-qdrant: {reach.NOT_STARTED}\n"


def test_an_older_service_is_awaited_and_what_comes_meanwhile_is_kept(stage, monkeypatch):
    stage.begin()
    going, gone = threading.Event(), threading.Event()

    def await_end(service: object, place: object) -> None:
        going.set()
        assert gone.wait(PATIENCE)

    monkeypatch.setattr(reach, "await_end", await_end)
    stage.client.send(call(1, "qdrant-store"))
    stage.visitor.hear()
    stage.visitor.order(yielding=True)
    stage.visitor.answer(1)
    assert stage.client.hear()["id"] == 1
    stage.client.send(call(2, "qdrant-store"))
    stage.client.end_input()
    while 2 not in stage.client.relay._requests or not stage.client.relay._ended:
        time.sleep(0)
    stage.kill()
    assert going.wait(PATIENCE)
    gone.set()
    stage.next_visitor()

    heard = [stage.visitor.hear() for _ in range(4)]
    assert heard[2:] == [call(2, "qdrant-store"), b""]
    stage.visitor.answer(2)
    assert stage.client.hear()["id"] == 2
    assert stage.starts == 1


@pytest.mark.parametrize("error", [Ended(2, "No."), OSError()])
def test_where_no_service_can_be_started_again_each_call_is_answered_before_the_end(
    stage, monkeypatch, error, capfd
):
    def refuse(_: object) -> str:
        raise error

    stage.begin()
    monkeypatch.setattr(reach, "start", refuse)
    stage.client.send(call(1, "qdrant-find"), call(2, "qdrant-store"))
    stage.visitor.hear(), stage.visitor.hear()
    stage.kill()
    texts = {(one := stage.client.hear())["id"]: one["result"]["content"] for _ in range(2)}

    assert stage.client.end() == getattr(error, "status", 1)
    assert texts[1][0]["text"] == STOPPED
    assert UNSURE in texts[2][0]["text"]
    sentence = getattr(error, "sentence", reach.NOT_STARTED)
    assert capfd.readouterr().err == f"mcp-server-qdrant: {sentence}\n"


def test_who_sends_to_a_stopped_service_holds_nobody_up_when_it_dies(stage):
    stage.begin()
    long = call(1, "qdrant-find", query="x" * 5_000_000)
    sending = threading.Thread(target=stage.client.send, args=(long,))
    sending.start()
    while not stage.client.relay._requests:
        time.sleep(0)
    stage.kill()
    stage.next_visitor()
    stage.visitor.hear(), stage.visitor.hear()

    assert stage.visitor.hear() == long
    sending.join(PATIENCE)


def test_a_service_that_talks_before_it_listens_is_heard(stage):
    stage.begin()
    long = [call(n, "qdrant-find", query="x" * 2_000_000) for n in range(2)]
    sending = threading.Thread(target=stage.client.send, args=long)
    sending.start()
    assert [stage.visitor.hear() for _ in long] == long
    sending.join(PATIENCE)
    stage.kill()
    stage.next_visitor()
    telling = threading.Thread(target=stage.visitor.answer, args=(7, "y" * 2_000_000))
    telling.start()

    assert stage.client.hear()["result"] == "y" * 2_000_000
    telling.join(PATIENCE)
    stage.visitor.hear(), stage.visitor.hear()
    assert [stage.visitor.hear() for _ in long] == long


def test_each_call_has_one_answer_whenever_services_are_killed(tmp_path, real_hosts, rounds):
    place = tmp_path / "service.json"
    client = Client(lambda *rest: Relay(command(tmp_path), str(place), *rest))
    client.send(INITIALIZE)
    client.hear()
    client.send(BEGUN)
    calls = [call(n, ("qdrant-find", "qdrant-store")[n % 2]) for n in range(1, 400 * rounds)]
    sending = threading.Thread(target=client.send, args=calls)
    sending.start()
    answers = []
    for number in range(len(calls)):
        answers.append(client.hear())
        if number % 397 == 200 and (found := Rendezvous.read(place)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
    sending.join(PATIENCE)
    client.end_input()

    assert client.end() == 0
    client.close()
    assert sorted(one["id"] for one in answers) == [one["id"] for one in calls]
    assert all(one["id"] % 2 for one in answers if one["result"].get("isError"))
    for child in reach._children:
        child.kill()
        child.wait(PATIENCE)
    reach._children.clear()
