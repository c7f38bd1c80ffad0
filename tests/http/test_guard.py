"""Which names and web pages a server may be called by."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcp_server_qdrant.http.guard import Guard, allowed_host, same_site


async def hello(_):
    return PlainTextResponse("hello")


def guarded(**options):
    app = Starlette(routes=[Route("/mcp", hello, methods=["GET", "POST"]), Route("/open", hello)])
    return Guard(app, app, open_paths=["/open"], **options)


async def call(guard, method="POST", path="/mcp", **headers):
    transport = httpx.ASGITransport(app=guard)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        return await client.request(method, path, headers=headers)


OWN = [
    *("127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8000"),
    *("192.168.1.2:8000", "10.0.0.1", "[fe80::1]:80"),
    *("mcp.example.com", "MCP.example.com:443", "mcp.example.com.", "a.internal", "mcp:8000"),
]
FOREIGN = [
    *("", "evil.example", "evil.example:8000", "internal", "mcp", "mcp:8001", "mcp:", ":8000"),
    *("localhost.evil.example", "127.0.0.1.evil.example", "mcp.example.com.evil.example"),
    *("evil.example@127.0.0.1", "127.0.0.1/evil", "127.0.0.1,evil.example", "127.0.0.1 evil"),
    *("[::1", "localhost:x", "localhost:999999", "a.internal.evil.example", "//localhost"),
]


def test_addresses_localhost_and_listed_names_are_hosts_and_all_others_foreign():
    listed = ("mcp.example.com", "*.internal", "mcp:8000")

    assert [host for host in (*OWN, *FOREIGN) if allowed_host(host, listed)] == OWN


@given(st.text(alphabet="ab.:[]@/?#\\ -_%1", max_size=20))
def test_whatever_comes_before_it_a_name_that_is_not_listed_is_foreign(text):
    assert not allowed_host(f"{text}.evil.example", ("mcp.example.com",))
    assert not same_site(f"http://{text}.evil.example", "localhost:8000")


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", True),
        ("http://localhost:6274", "127.0.0.1:8000", True),
        ("http://[::1]:6274", "localhost:8000", True),
        ("https://mcp.example.com", "mcp.example.com", True),
        ("https://evil.example", "127.0.0.1:8000", False),
        ("http://localhost:6274", "mcp.example.com", False),
        ("http://192.168.1.2:9000", "192.168.1.2:8000", False),
        ("http://localhost.evil.example", "localhost:8000", False),
        ("null", "127.0.0.1:8000", False),
        ("", "127.0.0.1:8000", False),
        ("file://127.0.0.1:8000", "127.0.0.1:8000", False),
        ("chrome-extension://abc", "127.0.0.1:8000", False),
        ("http://[", "127.0.0.1:8000", False),
    ],
)
def test_a_page_of_the_server_or_of_the_same_machine_may_call(origin, host, same):
    assert same_site(origin, host) is same


async def test_a_foreign_host_is_told_which_setting_and_not_its_own_name():
    response = await call(guarded(), Host="evil.example")

    assert response.status_code == 421
    assert "FASTMCP_ALLOWED_HOSTS" in response.text
    assert "evil" not in response.text


async def test_two_hosts_are_refused():
    headers = [("Host", "127.0.0.1"), ("Host", "evil.example")]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=guarded())) as client:
        response = await client.get("http://127.0.0.1/mcp", headers=headers)

    assert response.status_code == 421


async def test_a_foreign_page_is_refused_and_gets_no_cors_headers():
    for method in ("POST", "OPTIONS"):
        response = await call(guarded(), method, Origin="https://evil.example")

        assert response.status_code == 403
        assert "access-control-allow-origin" not in response.headers


async def test_a_listed_page_may_call_and_read_the_headers_of_mcp():
    guard = guarded(origins=["https://App.example.com"])
    origin = "https://app.example.com"

    asked = await call(
        guard,
        "OPTIONS",
        Origin=origin,
        **{
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,mcp-protocol-version,mcp-param-x",
        },
    )
    answered = await call(guard, Origin=origin)

    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == origin
    assert "authorization" in asked.headers["access-control-allow-headers"]
    assert {"POST", "DELETE"} <= set(asked.headers["access-control-allow-methods"].split(", "))
    assert answered.text == "hello"
    assert answered.headers["access-control-allow-origin"] == origin
    assert "Mcp-Session-Id" in answered.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answered.headers
    assert (await call(guard, Origin="https://evil.example")).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        *("http://127.0.0.1:8000 ", "http://127.0.0.1 :8000", "http://evil.example 127.0.0.1:8000"),
        *("http://user @localhost", "http://evil.example@localhost", "http://localhost\t"),
        *("http://localhost http://evil.example", "http://localhost,http://evil.example"),
        *("http://localhost/", "http://localhost/path", "http://localhost?x", "http://localhost#x"),
        *("http://localhost\\evil.example", "http:localhost", "//localhost", "localhost", ""),
        *("http://localhost:", "http://localhost:x", "http://localhost:123456", "http://[::1"),
        *("http://lo\xadcalhost", "NULL null", "http://*"),
    ],
)
async def test_what_no_browser_sends_as_an_origin_is_refused(origin):
    async def reached(*_):
        raise AssertionError

    guard = Guard(reached, reached)
    sent = []

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8000"), (b"origin", origin.encode("latin-1"))]
    await guard({"type": "http", "path": "/mcp", "method": "POST", "headers": headers}, None, send)

    assert sent[0]["status"] == 403


@pytest.mark.parametrize(
    "origin", ["null", "chrome-extension://abc", "http://[::1]:6274", "tauri://x"]
)
async def test_what_browsers_send_is_let_in_where_every_page_may_call(origin):
    response = await call(guarded(origins=["*"]), Origin=origin)

    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "*"


async def test_probes_are_answered_whatever_they_call_the_server():
    assert (await call(guarded(), "GET", "/open", Host="10-0-0-1.pod")).text == "hello"
    assert (await call(guarded(), "GET", "/open/../mcp", Host="evil.example")).status_code == 421


async def test_a_web_socket_is_closed():
    sent = []

    async def send(message):
        sent.append(message)

    await guarded()({"type": "websocket", "path": "/mcp", "headers": []}, None, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]
