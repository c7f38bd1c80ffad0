"""What a request without a valid token gets."""

import logging

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from mcp_server_qdrant.core.context import Caller, caller
from mcp_server_qdrant.core.errors import Unauthorized, VerifierUnavailable
from mcp_server_qdrant.http.auth.bearer import Authenticated, resource_routes

_, CHALLENGE = resource_routes("https://mcp.example.com/mcp", "https://login.example.com")
SECRET = "a-token-that-nobody-may-read"


class Known:
    """Lets in the tokens ana and writer; the issuer of others may be away."""

    async def caller(self, token):
        if token == "away":
            raise VerifierUnavailable("No keys.")
        if token not in ("ana", "scopeless"):
            raise Unauthorized("The token is not known here.")
        return Caller(token, frozenset({"read"} if token == "ana" else ()), {"team": "blue"})


async def who(request):
    return JSONResponse(
        {"name": caller().name, "user": request.user.access_token.model_dump(exclude_none=True)}
    )


async def ask(*authorization, challenge=None):
    app = Authenticated(Starlette(routes=[Route("/mcp", who)]), Known(), challenge)
    headers = [("Authorization", one) for one in authorization]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
        return await client.get("http://127.0.0.1/mcp", headers=headers)


@pytest.mark.parametrize("header", ["Bearer ana", "bearer ana", "BEARER   ana"])
async def test_a_valid_token_lets_in_and_goes_no_further(header):
    response = await ask(header)

    assert response.json() == {
        "name": "ana",
        "user": {
            "token": "",
            "client_id": "ana",
            "subject": "ana",
            "scopes": ["read"],
            "claims": {"iss": None},
        },
    }
    assert caller() is None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["Bearer"],
        ["Bearer "],
        ["ana"],
        ["Basic ana"],
        ["Bearer ana x"],
        ["Bearer an,a"],
        [b"Bearer an\xe4"],
        ["Bearer ana", "Bearer ana"],
        [f"Bearer {SECRET}"],
    ],
)
async def test_without_one_valid_token_the_answer_is_401_and_names_no_token(headers, caplog):
    with caplog.at_level(logging.DEBUG):
        response = await ask(*headers)

    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
    assert response.json()["error"] == "invalid_token"
    for told in (response.text, str(response.headers), caplog.text):
        assert SECRET not in told
        assert "ana" not in told
    assert "A request was refused" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/viz", 200),
        ("GET", "/viz/app.js", 200),
        ("POST", "/viz/api/search", 401),
        ("GET", "/vizier", 401),
        ("GET", "/mcp/viz", 401),
        ("GET", "/", 200),
        ("POST", "/", 401),
    ],
)
async def test_pages_are_got_without_a_token_and_nothing_else(method, path, status):
    async def anything(scope, receive, send):
        await JSONResponse(caller())(scope, receive, send)

    app = Authenticated(anything, Known(), pages=["/viz"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
        response = await client.request(method, f"http://127.0.0.1{path}")

    assert response.status_code == status


async def test_the_challenge_of_oauth_says_where_the_metadata_are():
    response = await ask(challenge=CHALLENGE)

    assert response.headers["www-authenticate"] == (
        'Bearer error="invalid_token", '
        'error_description="A token is needed: send it as Authorization: Bearer.", '
        'scope="read", resource_metadata='
        '"https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
    )


async def test_a_token_that_may_not_read_gets_403_and_the_scope_it_lacks():
    response = await ask("Bearer scopeless")

    assert response.status_code == 403
    assert 'error="insufficient_scope"' in response.headers["www-authenticate"]
    assert response.json()["error_description"] == "The token lacks the scope read."


async def test_tokens_that_cannot_be_checked_now_get_503_and_when_to_come_back():
    response = await ask("Bearer away")

    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert response.json() == {"error": "No keys."}


@pytest.mark.parametrize(
    ("url", "metadata"),
    [
        ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
        ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
        ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
        ("http://a:8/x/mcp/", "http://a:8/.well-known/oauth-protected-resource/x/mcp"),
    ],
)
def test_metadata_stand_where_rfc_9728_has_them(url, metadata):
    routes, challenge = resource_routes(url, "https://login.example.com")

    assert challenge["resource_metadata"] == metadata
    assert metadata.endswith(routes[0].path)


async def test_metadata_have_the_urls_letter_by_letter_for_pages_of_any_origin():
    url, issuer = "https://MCP.Example.com/mcp", "https://login.example.com:443/realm"
    routes, _ = resource_routes(url, issuer)
    transport = httpx.ASGITransport(Starlette(routes=routes))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answers = [
            await client.get(route.path, headers={"Origin": "https://page.example"})
            for route in routes
        ]

    assert [one.headers["access-control-allow-origin"] for one in answers] == ["*", "*"]
    for one in answers:
        assert (one.json()["resource"], one.json()["authorization_servers"]) == (url, [issuer])
