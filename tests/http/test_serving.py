"""What stands beside /mcp, and who may connect."""

import asyncio
import socket

import httpx
import pytest

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.http.limits import Load, caller_key
from mcp_server_qdrant.http.monitor import Monitor
from mcp_server_qdrant.http.serving import (
    address,
    build_app,
    check_exposure,
    open_listener,
    uvicorn_config,
)
from tests.asgi import Exchange
from tests.listening import listening as listening_on
from tests.listening import make_tokens
from tests.support import HELLO, make_settings

LOCAL = ["localhost", "127.0.0.1", "127.8.8.8", "::1"]
OPEN = ["0.0.0.0", "::", "192.168.1.2", "10.0.0.1", "example.org", "", "127.0.0.1.example.org"]


def test_beyond_loopback_somebody_must_say_that_all_may_connect():
    for host in LOCAL:
        check_exposure(host, None)
    for host in OPEN:
        check_exposure(host, "none")
        with pytest.raises(ConfigError, match=f"^FASTMCP_HOST is {host}, .*set AUTH_MODE=none to"):
            check_exposure(host, None)


@pytest.mark.parametrize("host", ["nosuch.invalid", "192.0.2.1", "127.0.0.1"])
def test_a_host_that_is_elsewhere_or_a_port_that_is_taken_is_named(host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"^Port {port} of {host} cannot be used .*FASTMCP_H"):
            open_listener(host, port)


@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
async def test_healthz_answers_without_engine_or_model(transport):
    async def opened():
        raise AssertionError("a health check must not open the engine")

    settings = make_settings()
    monitor = Monitor(settings)
    served = build_app(make_server(settings, opened, monitor=monitor), transport, settings, monitor)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=served), base_url="http://127.0.0.1:8000"
    ) as client:
        response = await client.get("/healthz")
        other = await client.post("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert other.status_code == 405


async def test_one_caller_cannot_open_all_sessions(tmp_path):
    file = tmp_path / "tokens.yaml"
    tokens = [*make_tokens(file, a="read", b="read").values()]
    settings = make_settings(auth_mode="token", auth_tokens_file=file)
    monitor = Monitor(settings)
    monitor.load = Load(sessions=6)

    async def opened():
        raise ConfigError("nothing is opened")

    mcp = make_server(settings, opened, monitor=monitor)
    accept = {"Accept": "application/json, text/event-stream"}
    async with (
        listening_on(build_app(mcp, "streamable-http", settings, monitor)) as address,
        httpx.AsyncClient(base_url=address, headers=accept, timeout=30) as http,
    ):

        async def hello(token: str) -> httpx.Response:
            auth = {"Authorization": f"Bearer {token}"}
            return await http.post("/mcp", json=HELLO, headers=auth)

        answers = [await hello(tokens[0]) for _ in range(5)]
        other = await hello(tokens[1])
        own = {"Mcp-Session-Id": answers[0].headers["mcp-session-id"]}
        gone = await http.delete("/mcp", headers=own | {"Authorization": f"Bearer {tokens[0]}"})
        again = await hello(tokens[0])

    assert [one.status_code for one in answers] == [200] * 3 + [429] * 2
    assert "as many sessions open as the server allows" in answers[-1].json()["error"]["message"]
    assert (other.status_code, gone.status_code, again.status_code) == (200, 200, 200)


@pytest.mark.parametrize(
    ("proxies", "known"),
    [
        (None, "192.0.2.1"),
        ("127.0.0.0/8,192.0.2.0/24", "198.51.100.9"),
        ("10.0.0.7", "127.0.0.1"),
    ],
)
async def test_a_client_has_the_address_that_a_named_proxy_tells(proxies, known, monkeypatch):
    if proxies:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    seen = []

    async def told(scope, receive, send):
        seen.append((caller_key(scope), scope["client"][0]))

    config = uvicorn_config(told, make_settings())
    config.load()
    chain = "198.51.100.9, 192.0.2.1"  # its beginning may be the client's own invention
    await Exchange(config.loaded_app, "GET", "/", x_forwarded_for=chain).done()

    assert seen == [(known, known)]


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", "http://127.0.0.1:{}/mcp"), ("::1", "http://[::1]:{}/mcp")]
)
def test_an_address_is_told_as_a_url(host, expected):
    try:
        listener = open_listener(host, 0)
    except ConfigError:
        pytest.skip(f"this machine has no {host}")
    with listener:
        assert address(listener, "/mcp") == expected.format(listener.getsockname()[1])


async def test_a_server_on_ipv6_says_where_its_metadata_are():
    issuer = {"auth_issuer": "https://login.example.com", "auth_audience": "here"}
    settings = make_settings(auth_mode="oauth", fastmcp_host="::1", **issuer)
    monitor = Monitor(settings)
    served = build_app(make_server(settings, monitor=monitor), "sse", settings, monitor)
    refused = await Exchange(served, "GET", "/sse", host="[::1]:8000").done()

    assert (
        "http://[::1]:8000/.well-known/oauth-protected-resource/sse"
        in (refused.headers["www-authenticate"])
    )


async def test_an_answer_is_sent_without_nagles_delay():
    accepted = asyncio.get_running_loop().create_future()

    class Server(asyncio.Protocol):
        def connection_made(self, transport):
            sock = transport.get_extra_info("socket")
            accepted.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    loop = asyncio.get_running_loop()
    listener = open_listener("127.0.0.1", 0)
    async with await loop.create_server(Server, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await accepted != 0
        writer.close()
