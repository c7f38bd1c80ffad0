"""Inside the model host: callers take turns, and what comes too late is not done."""

import math

import pytest

from mcp_server_qdrant.encoders.local import serve
from mcp_server_qdrant.encoders.local.hosted import Spec
from mcp_server_qdrant.encoders.local.serve import Models
from mcp_server_qdrant.hosting import wire

FAULTS: dict[str, Exception] = {}  # by text


class Replies(list):
    """A client that remembers what it is to be told."""

    gone = False
    send = list.extend
    reply = list.append
    __hash__ = object.__hash__


def query(number: int, caller: str = "", until: float = math.inf) -> wire.Call:
    return wire.Call(number, "query", (("dense", "model"), f"text {number}", 6.0), until, caller)


class Over(BaseException):
    """Nothing is left to do."""


class Busy(Models):
    """Models of which each is ready, and takes a second for a query."""

    def __init__(self, monkeypatch) -> None:
        super().__init__(lambda *_: [], 5.0)
        self.texts: list[str] = []
        self.now = 0.0
        self.state = "ready"
        monkeypatch.setattr(serve.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(self._changed, "wait", self._over)

    def of(self, spec, client):
        return self

    def loaded(self, seconds: float) -> None:
        """They are."""

    def encode_query(self, text: str) -> list[float]:
        self.now += 1.0
        self.texts.append(text)
        if fault := FAULTS.get(text):
            raise fault
        return []

    def encoded(self, *calls: wire.Call) -> tuple[list[str], Replies]:
        """The texts in the order in which they are encoded, and the replies."""
        replies = Replies()
        for call in calls:
            self.heard(replies, call)
        with pytest.raises(Over):
            self._encode()
        return self.texts, replies

    def _over(self) -> None:
        raise Over


def test_queries_of_one_caller_leave_room_for_anothers(monkeypatch):
    calls = [*(query(n, "red") for n in range(4)), query(9, "blue")]
    texts, _ = Busy(monkeypatch).encoded(*calls)

    assert texts[:2] == ["text 0", "text 9"]


def test_a_query_that_is_late_when_its_turn_comes_is_not_encoded(monkeypatch):
    texts, replies = Busy(monkeypatch).encoded(query(1), query(2, until=0.5), query(3))

    assert texts == ["text 1", "text 3"]
    assert replies == [(1, True, b""), (2, False, None), (3, True, b"")]


def test_a_call_that_fails_as_nobody_foresaw_is_answered_and_the_next_is_done(monkeypatch):
    monkeypatch.setitem(FAULTS, "text 1", RuntimeError("/secret/path"))
    _, replies = Busy(monkeypatch).encoded(query(1), query(2))

    sentence = "The model host failed: an unexpected RuntimeError."
    failure = (1, False, ("EncoderUnavailable", (sentence,)))
    assert replies == [failure, (2, True, b"")]


def test_a_model_that_a_client_asked_for_as_it_left_is_let_go(monkeypatch):
    models, spec = Models(lambda *_: [], 5.0), Spec("dense", "none")
    monkeypatch.setattr(serve.FastEmbedEncoder, "start", lambda _: None)
    monkeypatch.setattr(serve.time, "monotonic", lambda: now)
    now, client = 0.0, Replies()
    client.gone = True
    models.left(client)
    model = models.of(spec, client)
    now = 6.0
    models.tend()

    assert model.state == "closed"
