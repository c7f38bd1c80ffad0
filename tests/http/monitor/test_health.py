"""Whether the server can answer calls now, and what it says where it cannot."""

import asyncio
import json

import pytest

from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.http.monitor import examine, readiness
from tests.fakes import FakeEncoder

AWAY = "Qdrant cannot be reached; check its address (QDRANT_URL) and that it is running."


class Services:
    """A catalog that answers, fails or hangs, and an encoder."""

    def __init__(self) -> None:
        self.catalog = self
        self.encoders = self
        self.default = FakeEncoder()
        self.failure: Exception | None = None
        self.hangs = False

    async def names(self) -> tuple[str, ...]:
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure:
            raise self.failure
        return ("notes",)


class Opening:
    """Opens the services once `go` is set, or fails to."""

    def __init__(self, *, go: bool = True) -> None:
        self.services = Services()
        self.failure: Exception | None = None
        self.go = asyncio.Event()
        self.task: asyncio.Task[Services] | None = None
        if go:
            self.go.set()

    def __call__(self) -> "asyncio.Task[Services]":
        if self.task is None or (self.task.done() and self.task.exception()):
            self.task = asyncio.ensure_future(self._open())
        return self.task

    async def _open(self) -> Services:
        await self.go.wait()
        if self.failure:
            raise self.failure
        return self.services


async def asked(opening: Opening, *, draining: bool = False) -> tuple[int, dict]:
    parts, _services = await examine(opening(), draining=draining, patience=0.05)
    response = readiness(parts)
    return response.status_code, json.loads(response.body)


async def test_with_engine_and_model_it_is_ready():
    status, told = await asked(Opening())

    assert status == 200
    assert told == {
        "status": "ready",
        "server": {"state": "up", "message": "The server takes calls."},
        "engine": {"state": "up", "message": "The engine answers."},
        "encoder": {"state": "ready", "message": "The model fake/Bag-of-Words is ready."},
    }


@pytest.mark.parametrize(
    ("state", "status", "said"),
    [
        ("loading", 503, "not ready"),
        ("downloading", 200, "degraded"),
        ("failed", 200, "degraded"),
        ("idle", 200, "degraded"),
    ],
)
async def test_a_model_that_is_not_there_leaves_keywords_one_that_comes_is_awaited(
    state, status, said
):
    opening = Opening()
    opening.services.default.be(state)
    code, told = await asked(opening)

    assert (code, told["status"]) == (status, said)
    assert told["encoder"] == {
        "state": state,
        "message": f"The model fake/Bag-of-Words is {state}.",
    }


@pytest.mark.parametrize("where", ["opening", "services"])
async def test_an_engine_that_is_down_is_said_and_its_return_is_seen(where):
    opening = Opening()
    failing = opening if where == "opening" else opening.services
    failing.failure = EngineUnavailable(AWAY)
    status, told = await asked(opening)

    assert (status, told["status"]) == (503, "not ready")
    assert told["engine"] == {"state": "down", "message": AWAY}
    assert told["encoder"]["state"] == ("unknown" if where == "opening" else "ready")
    failing.failure = None
    assert (await asked(opening))[0] == 200


async def test_an_engine_that_is_opened_or_hangs_is_not_waited_for_and_a_server_may_end():
    opening, hanging = Opening(go=False), Opening()
    hanging.services.hangs = True
    first, second = await asked(opening), await asked(hanging)
    ending = await asked(Opening(), draining=True)
    opening.go.set()

    assert first[0] == second[0] == ending[0] == 503
    assert first[1]["engine"] == {"state": "opening", "message": "The engine is being opened."}
    assert first[1]["encoder"]["state"] == "unknown"
    assert second[1]["engine"]["message"] == "The engine does not answer in time."
    assert (ending[1]["server"]["state"], ending[1]["engine"]["state"]) == ("draining", "up")
    assert (await asked(opening))[0] == 200
