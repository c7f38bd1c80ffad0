"""An issuer's keys: fetched, kept, rotated, missing."""

import asyncio
import logging

import httpx
import pytest

from mcp_server_qdrant.core.errors import VerifierUnavailable
from mcp_server_qdrant.http.auth.oauth import FRESH_SECONDS, PAUSE_SECONDS, RETRY_SECONDS, Keys
from tests.hostile import ENDLESS, HEAVY, IN_BUFFERS, LATE, hostile
from tests.issuer import Issuer
from tests.support import Clock


class Line:
    """The way to an issuer."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.failure: Exception | None = None
        self.asked: list[str] = []
        self.gate: asyncio.Event | None = None

    async def handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        if self.gate:
            await self.gate.wait()
        if self.failure:
            raise self.failure
        status, body = self.issuer.answer(request.url.path)
        if isinstance(body, bytes):
            return httpx.Response(status, content=body)
        return httpx.Response(status, json=body)


@pytest.fixture
def line():
    return Line(Issuer())


@pytest.fixture
def clock():
    return Clock()


def keys_of(line, clock, url="https://login.example.com/jwks"):
    return Keys(line.issuer.url, url, transport=httpx.MockTransport(line.handle), clock=clock)


async def ids(keys, kid):
    key = await keys.key(kid)
    return [key["kid"]] if key else []


async def test_keys_are_fetched_once_for_many_calls(line, clock):
    keys = keys_of(line, clock)

    found = await asyncio.gather(*(ids(keys, "first") for _ in range(20)))

    assert found == [["first"]] * 20
    assert line.issuer.fetches == 1


async def test_a_new_key_is_fetched_when_a_token_names_it(line, clock):
    keys = keys_of(line, clock)
    await ids(keys, "first")
    line.issuer.rotate("second")
    clock.now += PAUSE_SECONDS

    assert await ids(keys, "second") == ["second"]
    assert await ids(keys, "first") == []


async def test_made_up_key_ids_cause_one_fetch_per_pause(line, clock):
    keys = keys_of(line, clock)
    await ids(keys, "first")
    clock.now += PAUSE_SECONDS

    for number in range(50):
        assert await ids(keys, f"forged-{number}") == []

    assert line.issuer.fetches == 2


async def test_old_keys_are_fetched_again_by_one_call_while_the_others_go_on(line, clock):
    keys = keys_of(line, clock)
    await ids(keys, "first")
    line.issuer.rotate("second")
    clock.now += FRESH_SECONDS
    line.gate = asyncio.Event()

    waiting = asyncio.ensure_future(ids(keys, "first"))
    while len(line.asked) < 2:
        await asyncio.sleep(0)
    assert await ids(keys, "first") == ["first"]

    line.gate.set()
    assert await waiting == []
    assert await ids(keys, "second") == ["second"]


async def test_a_caller_that_goes_away_ends_no_fetch_for_the_others(line, clock):
    keys = keys_of(line, clock)
    line.gate = asyncio.Event()
    gone, waiting = (asyncio.ensure_future(ids(keys, "first")) for _ in range(2))
    while not line.asked:
        await asyncio.sleep(0)
    gone.cancel()
    line.gate.set()

    assert await waiting == ["first"]


@pytest.mark.parametrize("failure", [httpx.ConnectError("secret"), httpx.ReadTimeout("secret")])
async def test_keys_that_were_got_go_on_while_the_issuer_is_away(line, clock, caplog, failure):
    keys = keys_of(line, clock)
    await ids(keys, "first")
    line.failure = failure
    clock.now += 100 * FRESH_SECONDS

    assert await ids(keys, "first") == ["first"]
    assert await ids(keys, "first") == ["first"]

    assert len(line.asked) == 2
    assert len(caplog.messages) == 1
    assert "the old ones stay valid" in caplog.text
    assert "secret" not in caplog.text


async def test_without_any_key_nothing_can_be_checked_and_the_issuer_is_asked_in_pauses(
    line, clock, caplog
):
    keys = keys_of(line, clock)
    line.issuer.down = True
    for _ in range(5):
        with pytest.raises(VerifierUnavailable, match="try again in a few seconds"):
            await ids(keys, "first")
    assert len(line.asked) == 1
    assert "status 503" in caplog.text

    line.issuer.down = False
    clock.now += RETRY_SECONDS

    assert await ids(keys, "first") == ["first"]


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"\xff"),
        (200, {"keys": "none"}),
        (200, {"keys": []}),
        (200, {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}),
        (200, {"keys": [{"kty": "RSA", "use": "enc", "kid": "first"}]}),
        (200, b"[" * 100_000),
        (200, b'"' + b"x" * 1_000_001 + b'"'),
        (302, {}),
        (500, {}),
    ],
)
async def test_garbage_is_no_key(line, clock, answer):
    line.issuer.answers["/jwks"] = answer

    with pytest.raises(VerifierUnavailable):
        await ids(keys_of(line, clock), "first")


async def test_a_token_without_a_key_id_needs_the_only_key(line, clock):
    line.issuer.rotate("second")
    keys = keys_of(line, clock)

    assert await ids(keys, None) == ["second"]

    line.issuer.published += [{**line.issuer.published[0], "kid": "third"}]
    clock.now += FRESH_SECONDS
    await ids(keys, "second")
    assert await ids(keys, None) == []


async def test_the_keys_are_found_through_the_issuers_metadata(line, clock):
    assert await ids(keys_of(line, clock, None), "first") == ["first"]

    metadata = line.issuer.answer("/.well-known/openid-configuration")
    line.issuer.answers = {
        "/.well-known/openid-configuration": (404, {}),
        "/.well-known/oauth-authorization-server": metadata,
    }
    assert await ids(keys_of(line, clock, None), "first") == ["first"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"issuer": "https://evil.example"}, "another issuer than AUTH_ISSUER"),
        ({"issuer": "https://login.example.com/"}, "another issuer than AUTH_ISSUER"),
        ({"jwks_uri": "http://login.example.com/jwks"}, "no metadata with a jwks_uri"),
        ({"jwks_uri": "file:///etc/keys"}, "no metadata with a jwks_uri"),
        ({"jwks_uri": None}, "no metadata with a jwks_uri"),
    ],
)
async def test_metadata_that_lead_astray_are_not_followed(line, clock, caplog, changes, why):
    path = "/.well-known/openid-configuration"
    status, metadata = line.issuer.answer(path)
    line.issuer.answers[path] = status, metadata | changes

    with caplog.at_level(logging.WARNING), pytest.raises(VerifierUnavailable):
        await ids(keys_of(line, clock, None), "first")

    assert why in caplog.text
    assert line.issuer.fetches == 0


@pytest.mark.parametrize(
    ("kind", "discovered"),
    [*((kind, False) for kind in (*ENDLESS, *HEAVY, *LATE)), (next(iter(ENDLESS)), True)],
)
async def test_an_issuer_without_an_end_has_no_keys(kind, discovered, little, monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.http.auth.oauth.FETCH_SECONDS", 0.3)
    async with hostile(kind) as server, asyncio.timeout(60):
        with pytest.raises(VerifierUnavailable):
            await Keys(server.url, None if discovered else server.url).key("k")

    assert server.sent < little + IN_BUFFERS
