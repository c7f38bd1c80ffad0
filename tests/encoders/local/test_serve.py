"""Inside the model host: callers take turns, and what comes too late is not done."""

import gc
import math
from typing import Any

from mcp_server_qdrant.encoders.local import serve
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.serve import Models
from mcp_server_qdrant.hosting import wire
from tests.hosting.test_host import Somebody

FAULTS: dict[str, Exception] = {}  # by text


def query(number: int, caller: str = "", until: float = math.inf) -> wire.Call:
    return wire.Call(
        number, "query", (Spec("dense", "model"), f"text {number}", 6.0), until, caller
    )


class Busy(Models):
    """Models of which each is ready."""

    state = "ready"

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def of(self, spec, client):
        return self

    def query(self, text: str, _: float) -> str:
        self.texts.append(text)
        if fault := FAULTS.get(text):
            raise fault
        return text.upper()

    async def encoded(self, *calls: wire.Call) -> tuple[list[str], list[Any]]:
        """The texts in the order in which they are encoded, and the replies."""
        somebody = Somebody()
        for call in calls:
            self.take(somebody, call)
        await self.end()
        return self.texts, somebody.replies


async def test_queries_of_one_caller_leave_room_for_anothers():
    texts, _ = await Busy().encoded(*(query(n, "red") for n in range(4)), query(9, "blue"))

    assert set(texts[:2]) == {"text 0", "text 9"}


async def test_a_call_that_fails_as_nobody_foresaw_is_answered_and_the_next_is_done(monkeypatch):
    monkeypatch.setitem(FAULTS, "text 1", RuntimeError("/secret/path"))
    _, replies = await Busy().encoded(query(1), query(2))

    (_, failure), well = replies
    assert repr(failure) == (
        "EncoderUnavailable('The model host failed: an unexpected RuntimeError.')"
    )
    assert well == (2, "TEXT 2")


def test_a_model_goes_with_its_last_client(monkeypatch):
    models, spec = Models(), Spec("dense", "none")
    monkeypatch.setattr(serve.FastEmbedEncoder, "start", lambda _: None)
    clients = [Somebody(), Somebody()]
    assert len({id(models.of(spec, client)) for client in clients}) == 1

    clients.pop()
    gc.collect()
    assert len(models._models) == 1
    clients.pop()
    gc.collect()
    assert len(models._models) == 0
