"""How much a server takes on at once, and what it refuses in which words."""

import json

import pytest
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.types import ASGIApp

from mcp_server_qdrant.core.context import CALLER, Caller
from mcp_server_qdrant.http.limits import HEALTH, IDLE_SECONDS, SLOT, Load, Slots
from tests.asgi import Exchange, Work, turn
from tests.support import Clock


def limited(work: Work, **most: int) -> tuple[ASGIApp, Load, list[str]]:
    """The work within limits of which one caller may take half."""
    refused: list[str] = []
    load = Load(**({"calls": 4, "streams": 2} | most))
    return load.wrap(work, refused.append), load, refused


def sentence(exchange: Exchange) -> str:
    """What a refused client reads."""
    answer = json.loads(exchange.body)
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.headers["content-length"] == str(len(exchange.body))
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", None, -32000)
    return answer["error"]["message"]


def post(app, path: str = "/mcp", **headers: str) -> Exchange:
    exchange = Exchange(app, "POST", path, **headers)
    exchange.send(b"{}")
    return exchange


async def test_a_call_that_fails_makes_room_too():
    async def failing(*_):
        raise RuntimeError

    app, load, _ = limited(failing)
    with pytest.raises(RuntimeError):
        await post(app).done()

    assert load.calls.count == 0


async def test_health_metrics_preflights_and_farewells_are_never_refused():
    work = Work()
    app, load, _ = limited(work)
    waiting = [post(app), post(app)]
    await turn()
    load.draining = True
    work.go.set()

    for path in HEALTH:
        assert (await Exchange(app, "GET", path).done()).status == 200
    for method in ("OPTIONS", "DELETE"):
        bare = Exchange(app, method, "/mcp")
        bare.send()
        assert (await bare.done()).status == 200
    for one in waiting:
        await one.done()


async def test_a_server_that_ends_takes_neither_calls_nor_streams():
    app, load, refused = limited(Work())
    load.draining = True

    call, stream = await post(app).done(), await Exchange(app, "GET", "/mcp").done()

    assert (call.status, stream.status) == (503, 503)
    assert call.headers["retry-after"] == "1"
    assert "The server is shutting down" in sentence(call)
    assert refused == ["draining", "draining"]


async def test_streams_have_a_limit_of_their_own_and_count_as_no_call():
    work = Work()
    app, load, refused = limited(work)
    stream = Exchange(app, "GET", "/mcp")
    await turn()
    assert (load.streams.count, load.calls.count) == (1, 0)

    another = await Exchange(app, "GET", "/mcp").done()
    calls = [post(app), Exchange(app, "GET", "/viz")]
    await turn()

    assert another.status == 429
    assert refused == ["streams"]
    assert (load.streams.count, load.calls.count) == (1, 2)
    work.go.set()
    for call in calls:
        await call.done()
    await stream.done()
    assert load.streams.count == 0


@pytest.mark.parametrize("answered_first", [True, False])
async def test_a_call_counts_until_it_is_done_and_its_request_is_answered(answered_first):
    work, slots = Work(), []

    async def beginning(scope, receive, send):
        slots.append(scope[SLOT])
        await work(scope, receive, send)

    app, load, _ = limited(beginning)
    request = post(app, "/messages/")
    await turn()
    with slots[0]:  # as the MCP message does
        if answered_first:
            work.go.set()
            await request.done()
        assert load.calls.count == 1
    assert load.calls.count == (0 if answered_first else 1)
    work.go.set()
    await request.done()
    assert load.calls.count == 0


def by(app, name: str, method: str = "POST", path: str = "/mcp", **headers: str) -> Exchange:
    """A request of the token of this name, its body not sent."""
    who = Caller(name, frozenset({"read"}))

    async def known(scope, receive, send):
        await app({**scope, CALLER: who}, receive, send)

    return Exchange(known, method, path, **headers)


def call(app, name: str, path: str = "/mcp", **headers: str) -> Exchange:
    exchange = by(app, name, path=path, **headers)
    exchange.send(b"{}")
    return exchange


async def test_one_caller_cannot_take_the_place_of_others():
    work = Work()
    app, load, refused = limited(work, calls=4)
    taken = [call(app, "red"), call(app, "red")]
    await turn()

    third = await call(app, "red").done()
    taken += [call(app, "blue"), call(app, "blue")]
    await turn()
    fifth = await call(app, "green").done()

    assert "as many requests under way as the server allows" in sentence(third)
    assert third.headers["retry-after"] == "1"
    assert (third.status, fifth.status, load.calls.count) == (429, 429, 4)
    assert (refused, len(work.bodies)) == (["calls", "calls"], 4)
    work.go.set()
    assert [(await one.done()).status for one in taken] == [200] * 4
    assert (await call(app, "red").done()).status == 200
    assert load.calls.count == 0


async def test_without_tokens_a_caller_is_the_address_that_it_comes_from():
    app, _, refused = limited(Work(), calls=2)

    def from_(address: str) -> Exchange:
        async def known(scope, receive, send):
            await app({**scope, "client": (address, 7)}, receive, send)

        return post(known)

    waiting = [from_("10.0.0.1"), from_("10.0.0.2")]
    await turn()
    await from_("10.0.0.1").done()
    await from_("10.0.0.3").done()

    assert refused == ["calls", "calls"]
    for one in waiting:
        one.task.cancel()


async def test_bodies_that_do_not_come_hold_places_of_their_own_caller_alone():
    work = Work()
    work.go.set()
    app, load, refused = limited(RequestBodyLimitMiddleware(work, 10), calls=4)
    stalled = [by(app, "red") for _ in range(70)]
    for one in stalled:
        one.send(b"{", more=True)
    await turn()

    assert refused == ["calls"] * 68
    assert load.calls.count == 2
    assert (await call(app, "blue").done()).status == 200
    for one in stalled:
        one.task.cancel()


class Opening:
    """Opens a session with each request that has none."""

    def __init__(self) -> None:
        self.made = 0
        self.gone = b""

    async def __call__(self, scope, receive, send) -> None:
        given = dict(scope["headers"]).get(b"mcp-session-id")
        status = 404 if given == self.gone else 200
        self.made += given is None
        session = given or f"s{self.made}".encode()
        headers = [(b"mcp-session-id", session)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def test_one_caller_cannot_open_the_sessions_of_others():
    app, _, refused = limited(Opening(), sessions=4)

    for name, status in (("red", 200), ("red", 200), ("red", 429), ("blue", 200), ("blue", 200)):
        last = await call(app, name).done()
        assert last.status == status
    own = await call(app, "red").done()

    assert "as many sessions open as the server allows" in sentence(own)
    assert refused == ["sessions", "sessions"]
    for name in ("red", "blue"):
        assert (await call(app, name, mcp_session_id="s1").done()).status == 200
    assert (await call(app, "red", mcp_protocol_version="2026-07-28").done()).status == 200


async def test_a_session_that_another_caller_uses_counts_for_the_one_who_opened_it():
    app, _, _ = limited(Opening(), sessions=4)
    for name, given in (("red", {}), ("red", {}), ("blue", {"mcp_session_id": "s1"})):
        assert (await call(app, name, **given).done()).status == 200

    assert (await call(app, "red").done()).status == 429


@pytest.mark.parametrize("ends", ["DELETE", "POST"])
async def test_a_session_that_is_over_makes_room(ends):
    opening = Opening()
    app, _, _ = limited(opening, sessions=1)
    assert (await call(app, "red").done()).status == 200
    opening.gone = b"s1" if ends == "POST" else b""
    assert (await call(app, "red").done()).status == 429

    one = by(app, "red", ends, mcp_session_id="s1")
    one.send()
    await one.done()

    assert (await call(app, "red").done()).status == 200


async def test_sessions_that_nobody_uses_are_forgotten():
    clock = Clock()
    app, _, _ = limited(Opening(), sessions=4, clock=clock)

    async def status(name: str, **headers: str) -> int:
        return (await call(app, name, **headers).done()).status

    assert [await status("red") for _ in range(3)] == [200, 200, 429]
    clock.now += IDLE_SECONDS - 1
    assert await status("red", mcp_session_id="s1") == 200
    clock.now += 1

    assert [await status("red") for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(("most", "own"), [(64, 32), (1, 1), (3, 2)])
def test_a_share_is_half_and_never_nothing(most, own):
    slots = Slots(most)
    for number in range(own):
        assert not slots.is_full("red")
        slots.hold(number, "red")
    assert slots.is_full("red")
