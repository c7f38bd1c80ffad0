"""How much a server takes on at once, and what it refuses in which words."""

import json

import pytest

from mcp_server_qdrant.http_limits import HEALTH, BodyLimit, Limits, Load
from tests.asgi import Exchange, Work, turn


def limited(work: Work, load: Load | None = None, **limits: int) -> tuple[Limits, Load, list[str]]:
    refused: list[str] = []
    load = load or Load()
    bounds = {"calls": 2, "streams": 1} | limits
    return Limits(work, load, refused=refused.append, **bounds), load, refused


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


async def test_calls_beyond_the_limit_are_refused_with_a_time_to_wait():
    work = Work()
    app, load, refused = limited(work)
    first, second = post(app), post(app)
    await turn()
    assert load.under_way == 2

    third = await post(app).done()
    work.go.set()

    assert third.status == 429
    assert third.headers["retry-after"] == "1"
    assert "as many requests as it may" in sentence(third)
    assert refused == ["busy"]
    assert len(work.bodies) == 2
    for one in (first, second):
        assert (await one.done()).status == 200
    assert load.under_way == 0


ANSWER = b'{"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}'
CANCELLED = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}'
REQUEST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}'


@pytest.mark.parametrize("draining", [False, True])
@pytest.mark.parametrize(
    ("body", "session", "passes"),
    [
        (ANSWER, True, True),
        (CANCELLED, True, True),
        (REQUEST, True, False),
        (b"[1]", True, False),
        (b"{", True, False),
        (ANSWER, False, False),
        (ANSWER + b" " * 70_000, True, False),
    ],
)
async def test_what_ends_a_call_passes_where_no_call_would(body, session, passes, draining):
    work = Work()
    app, load, refused = limited(work, calls=1)
    under_way = post(app)
    await turn()
    load.draining = draining

    headers = {"content_length": str(len(body))} | ({"mcp_session_id": "s"} if session else {})
    answering = Exchange(app, "POST", "/mcp", **headers)
    answering.send(body[:10], more=True)
    answering.send(body[10:])
    await turn()
    assert load.under_way == 1
    work.go.set()

    assert (await answering.done()).status == (200 if passes else 503 if draining else 429)
    assert (work.bodies[1:], refused) == (
        ([body], []) if passes else ([], ["draining" if draining else "busy"])
    )
    await under_way.done()


async def test_once_a_call_is_done_there_is_room_again():
    work = Work()
    work.go.set()
    app, _, refused = limited(work, calls=1)

    for _ in range(5):
        assert (await post(app).done()).status == 200
    assert refused == []


async def test_with_the_last_part_of_its_answer_a_call_is_over():
    load = Load()
    seen = []

    async def lingering(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        seen.append(load.under_way)
        await send({"type": "http.response.body", "body": b"b"})
        seen.append(load.under_way)

    app, _, _ = limited(lingering, load)
    await post(app).done()

    assert seen == [1, 0]
    assert load.under_way == 0


async def test_a_call_that_fails_makes_room_too():
    async def failing(*_):
        raise RuntimeError

    app, load, _ = limited(failing)
    with pytest.raises(RuntimeError):
        await post(app).done()

    assert load.under_way == 0


async def test_health_metrics_preflights_and_farewells_are_never_refused():
    work = Work()
    app, load, _ = limited(work)
    waiting = [post(app), post(app)]
    await turn()
    load.draining = True
    work.go.set()

    for path in HEALTH:
        assert (await Exchange(app, "GET", path).done()).status == 200
    assert (await Exchange(app, "OPTIONS", "/mcp").done()).status == 200
    assert (await Exchange(app, "DELETE", "/mcp").done()).status == 200
    for one in waiting:
        await one.done()


async def test_a_server_that_ends_takes_neither_calls_nor_streams():
    app, load, refused = limited(Work())
    load.draining = True

    call, stream = await post(app).done(), await Exchange(app, "GET", "/mcp").done()

    assert (call.status, stream.status) == (503, 503)
    assert call.headers["retry-after"] == "1"
    assert "The server is ending" in sentence(call)
    assert refused == ["draining", "draining"]


async def test_streams_have_a_limit_of_their_own_and_count_as_no_call():
    work = Work()
    app, load, refused = limited(work)
    stream = Exchange(app, "GET", "/mcp")
    await turn()
    assert (load.streams, load.under_way) == (1, 0)

    another = await post(app, mcp_method="subscriptions/listen").done()
    call = post(app)
    await turn()

    assert another.status == 429
    assert refused == ["streams"]
    assert load.under_way == 1
    work.go.set()
    await call.done()
    await stream.done()
    assert load.streams == 0


async def test_an_open_stream_is_ended_as_one_that_is_complete():
    app, load, _ = limited(Work())
    stream = Exchange(app, "GET", "/sse")
    await turn()

    load.end_streams()
    await stream.done()

    assert (stream.status, stream.ended, stream.body) == (200, True, b"")
    assert load.streams == 0


async def test_calls_whose_request_is_over_count_as_well():
    app, _, refused = limited(Work(), Load(lambda: 2))

    assert (await post(app, "/messages/").done()).status == 429
    assert refused == ["busy"]


async def test_a_get_beside_the_streams_counts_as_a_call():
    work = Work()
    app, load, _ = limited(work)
    page = Exchange(app, "GET", "/viz")
    await turn()

    assert (load.streams, load.under_way) == (0, 1)
    work.go.set()
    await page.done()


async def test_what_is_no_request_passes():
    seen = []

    async def lifespan(scope, *_):
        seen.append(scope["type"])

    app, load, refused = limited(lifespan)
    load.draining = True
    await app({"type": "lifespan"}, None, None)
    await BodyLimit(lifespan, 1)({"type": "lifespan"}, None, None)

    assert seen == ["lifespan", "lifespan"]
    assert refused == []


def bounded(work: Work, seconds: float = 60.0) -> tuple[BodyLimit, list[str]]:
    work.go.set()
    refused: list[str] = []
    return BodyLimit(work, 10, seconds=seconds, refused=refused.append), refused


async def test_a_body_within_the_limit_arrives_whole():
    work = Work()
    app, refused = bounded(work)
    exchange = Exchange(app, "POST", "/mcp", content_length="10")
    exchange.send(b"01234", more=True)
    exchange.send(b"56789")

    assert (await exchange.done()).status == 200
    assert work.bodies == [b"0123456789"]
    assert refused == []


async def test_a_body_that_says_it_is_too_large_is_refused_unread():
    work = Work()
    app, refused = bounded(work)
    exchange = Exchange(app, "POST", "/mcp", content_length="11")

    assert (await exchange.done()).status == 413
    assert "larger than the server takes" in sentence(exchange)
    assert "retry-after" not in exchange.headers
    assert (work.bodies, refused) == ([], ["too_large"])


@pytest.mark.parametrize("headers", [{}, {"content_length": "3"}, {"content_length": "x"}])
async def test_a_body_that_does_not_say_so_is_refused_once_it_is_too_large(headers):
    work = Work()
    app, refused = bounded(work)
    exchange = Exchange(app, "POST", "/mcp", **headers)
    for _ in range(4):
        exchange.send(b"012", more=True)

    assert (await exchange.done()).status == 413
    assert (work.bodies, refused) == ([], ["too_large"])


async def test_a_body_that_does_not_come_is_not_waited_for():
    work = Work()
    app, refused = bounded(work, seconds=0.01)
    exchange = Exchange(app, "POST", "/mcp")
    exchange.send(b"0", more=True)

    assert (await exchange.done()).status == 408
    assert (work.bodies, refused) == ([], ["too_slow"])


async def test_a_client_that_leaves_is_told_of_to_the_application():
    work = Work()
    app, refused = bounded(work)
    exchange = Exchange(app, "POST", "/mcp")
    exchange.leave()

    await exchange.done()
    assert (work.bodies, refused) == ([b""], [])


async def test_a_stream_is_not_read_ahead():
    work = Work()
    app, _ = bounded(work)

    assert (await Exchange(app, "GET", "/mcp").done()).status == 200
