"""Inside the model host: callers take turns, and what comes too late is not done."""

import math

import pytest

from mcp_server_qdrant.encoders.local import serve
from mcp_server_qdrant.encoders.local.hosted import Spec
from mcp_server_qdrant.encoders.local.serve import Models, Session
from mcp_server_qdrant.hosting import wire
from tests.fakes import Line

FAULTS: dict[str, Exception] = {}  # by text


def query(number: int, caller: str = "", until: float = math.inf) -> wire.Call:
    return wire.Call(number, "query", (("dense", "model"), f"text {number}", 6.0), until, caller)


def served(line: Line, monkeypatch) -> list[str]:
    """The texts that are encoded, in their order; each takes a second."""
    now, texts = 0.0, []
    monkeypatch.setattr(serve.time, "monotonic", lambda: now)

    class Model:
        state = "ready"

        def loaded(self, seconds: float) -> None:
            """It is."""

        def encode_query(self, text: str) -> list[float]:
            nonlocal now
            now += 1.0
            texts.append(text)
            if fault := FAULTS.get(text):
                raise fault
            return []

    class OneModel:
        def of(self, spec: Spec, session: Session) -> Model:
            return Model()

    session = Session(line, OneModel())
    with pytest.raises(EOFError):
        session.run()
    return texts


def test_queries_of_one_caller_leave_room_for_anothers(monkeypatch):
    line = Line([query(n, "red") for n in range(4)], [query(9, "blue")])

    assert served(line, monkeypatch)[:2] == ["text 0", "text 9"]


def test_a_query_that_is_late_when_its_turn_comes_is_not_encoded(monkeypatch):
    line = Line([query(1), query(2, until=0.5), query(3)])

    assert served(line, monkeypatch) == ["text 1", "text 3"]
    assert line.replies == [(1, True, b""), (2, False, None), (3, True, b"")]


def test_a_call_that_fails_as_nobody_foresaw_is_answered_and_the_next_is_done(monkeypatch):
    line = Line([query(1), query(2)])
    monkeypatch.setitem(FAULTS, "text 1", RuntimeError("/secret/path"))
    served(line, monkeypatch)

    sentence = "The model host failed: an unexpected RuntimeError."
    failure = (1, False, ("EncoderUnavailable", (sentence,)))
    assert line.replies == [failure, (2, True, b"")]


def test_a_model_that_a_client_asked_for_as_it_left_is_let_go(monkeypatch):
    models, spec = Models(lambda *_: [], 5.0), Spec("dense", "none")
    monkeypatch.setattr(serve.FastEmbedEncoder, "start", lambda _: None)
    monkeypatch.setattr(serve.time, "monotonic", lambda: now)
    now, session = 0.0, models.session(Line())
    models.left(session)
    model = models.of(spec, session)
    now = 6.0
    models.tend()

    assert model.state == "closed"


def test_a_ping_between_queries_is_answered_at_once(monkeypatch):
    line = Line([query(1), query(2)], [wire.Call(3, "ping", (), math.inf, "")])
    served(line, monkeypatch)

    assert [number for number, *_ in line.replies] == [1, 3, 2]
