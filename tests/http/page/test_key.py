"""A page that needs the key in its address."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcp_server_qdrant.http.page.key import Keyed

KEY = "k3y"


async def answer(request):
    return PlainTextResponse(request.url.path)


@pytest.fixture
async def browser():
    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    app = Keyed(Starlette(routes=routes), KEY)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:81") as client:
        yield client


WRONG = [
    {},
    {"params": {"key": "other"}},
    {"params": {"key": ""}},
    {"params": {"key": "\u00e9"}},
    {"headers": {"cookie": "viz-key-81=other"}},
    {"headers": {"cookie": f"viz-key-82={KEY}"}},
    {"headers": {"cookie": b"viz-key-81=\xe9"}},
    {"headers": {"authorization": "Bearer other"}},
]


@pytest.mark.parametrize("sent", WRONG)
@pytest.mark.parametrize(
    "path", ["/", "/viz", "/viz/api.js", "/viz/api/search", "/mcp", "/metrics"]
)
async def test_without_the_key_nothing_is_answered(browser, path, sent):
    for method in ("GET", "POST"):
        refused = await browser.request(method, path, **sent)

        assert refused.status_code == 403
        assert "open the address that `mcp-server-qdrant viz` printed" in refused.text
        assert "set-cookie" not in refused.headers


async def test_a_browser_has_the_key_from_the_address_and_then_shows_it_nowhere(browser):
    first = await browser.get(f"/viz?key={KEY}")
    assert (first.status_code, first.headers["location"]) == (303, "http://127.0.0.1:81/viz")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {*first.headers["set-cookie"].split("; ")}

    assert (await browser.get(first.headers["location"])).text == "/viz"
    assert (await browser.post("/viz/api/search")).text == "/viz/api/search"


async def test_a_program_sends_the_key_as_a_token(browser):
    sent = {"authorization": f"Bearer {KEY}"}

    assert (await browser.post("/mcp", headers=sent)).text == "/mcp"


async def test_the_key_in_the_address_of_a_call_is_not_enough(browser):
    assert (await browser.post(f"/mcp?key={KEY}")).status_code == 403
