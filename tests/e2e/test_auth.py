"""The real server and real tokens over real HTTP."""

import base64
import json
import urllib.error
import urllib.request

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from mcp_server_qdrant.http.auth.tokens import add, digest, new_token
from tests.e2e.raw import RawServer
from tests.e2e.test_http import serving
from tests.issuer import AUDIENCE, served
from tests.listening import client_of
from tests.support import said

pytestmark = pytest.mark.model(False)

WAYS = [
    ("streamable-http", "/mcp", ["legacy", "2026-07-28"]),
    ("sse", "/sse", ["auto"]),
]
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "qdrant-collections", "arguments": {}},
}


def post(url, token=None, headers=(), body=CALL):
    """Status, headers and text of one call; without a body, of a GET."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    } | dict(headers)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


@pytest.fixture
def env(env):
    """Everything is logged, so that what must not be would be seen."""
    return env | {"FASTMCP_LOG_LEVEL": "DEBUG"}


@pytest.fixture
def issuer():
    with served() as issuer:
        yield issuer


@pytest.fixture
def oauth(env, issuer):
    return env | {"AUTH_MODE": "oauth", "AUTH_ISSUER": issuer.url, "AUTH_AUDIENCE": AUDIENCE}


@pytest.mark.parametrize(("transport", "path", "modes"), WAYS)
@pytest.mark.model(True)
async def test_named_tokens_do_what_their_scopes_say(env, tmp_path, transport, path, modes):
    file, tokens = tmp_path / "tokens.yaml", {}
    for name, scope in (("reader", "read"), ("writer", "write")):
        tokens[name] = new_token()
        add(file, {"name": name, "sha256": digest(tokens[name]), "scopes": [scope]})
    settings = {"AUTH_MODE": "token", "AUTH_TOKENS_FILE": str(file), "FASTMCP_HOST": "0.0.0.0"}
    text = {"information": "The cellar floods in March.", "collection_name": "house"}

    with serving(env | settings, transport, tmp_path) as (address, process):
        for mode in modes:
            async with client_of(address, tokens["writer"], path=path, mode=mode) as client:
                assert not (await client.call_tool("qdrant-store", text)).is_error
            async with client_of(address, tokens["reader"], path=path, mode=mode) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                found = await client.call_tool("qdrant-find", {"query": "water in the basement"})
                refused = await client.call_tool("qdrant-store", text)
            assert "qdrant-store" not in names
            assert "floods in March" in said(found)
            assert said(refused) == "qdrant-store needs the scope write, which your token lacks."
        status, headers, _ = post(address + path, "not-a-token-of-anyone")
        process.terminate()
        log = process.stderr.read().decode()

    assert status == 401
    assert "resource_metadata" not in headers["www-authenticate"]
    for secret in (*tokens.values(), "not-a-token-of-anyone", "bearer "):
        assert secret.lower() not in log.lower()


async def test_one_token_in_the_environment_is_enough(env, tmp_path):
    token = new_token()
    settings = {"AUTH_MODE": "token", "AUTH_TOKEN": token}
    with serving(env | settings, "streamable-http", tmp_path) as (address, process):
        async with client_of(address, token) as client:
            assert len((await client.list_tools()).tools) >= 4
        assert post(f"{address}/mcp")[0] == 401
        assert get(f"{address}/healthz") == {"status": "ok"}
        process.terminate()
        assert token not in process.stderr.read().decode()


def attacks(issuer):
    """Some tokens that must not let anyone in; `tests/http/auth` has all kinds."""
    header, claims, signature = issuer.token(scope="admin").split(".")

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    unsigned = part({"alg": "none", "typ": "JWT"})
    return {
        "wrong key": issuer.token(key=rsa.generate_private_key(65537, 2048)),
        "forged claims": f"{header}.{part({'sub': 'root', 'scope': 'admin'})}.{signature}",
        "alg none": f"{unsigned}.{claims}.",
        "wrong audience": issuer.token(aud="https://other.example.com/mcp"),
        "wrong issuer": issuer.token(iss="https://evil.example"),
        "no jwt": "mqd_not-a-jwt",
    }


async def test_attacks_with_tokens_get_401_and_leave_nothing_in_the_log(
    oauth, issuer, tmp_path, capfd
):
    tokens = attacks(issuer)
    with serving(oauth, "streamable-http", tmp_path) as (address, process):
        good = post(f"{address}/mcp", issuer.token(), body=CALL | {"method": "ping", "params": {}})
        answers = {name: post(f"{address}/mcp", token) for name, token in tokens.items()}
        in_query = post(f"{address}/mcp?access_token={issuer.token()}")
        process.terminate()
        log = process.stderr.read().decode()
    log += capfd.readouterr().out  # the access log

    assert "method=POST path=/mcp status=401" in log
    assert good[0] not in (401, 403)
    assert {name: status for name, (status, _, _) in answers.items() if status != 401} == {}
    assert in_query[0] == 401
    assert "access_token" not in log
    for name, token in tokens.items():
        _, headers, text = answers[name]
        for piece in (token, *(piece for piece in token.split(".") if len(piece) > 8)):
            assert piece not in log
            assert piece not in text + str(headers)
    for secret in ("evil.example", "other.example.com", issuer.token().split(".")[0]):
        assert secret not in log


async def test_the_metadata_lead_from_a_401_to_the_issuer(oauth, issuer, tmp_path):
    with serving(oauth, "streamable-http", tmp_path) as (address, _):
        _, headers, _ = post(f"{address}/mcp")
        metadata = get(f"{address}/.well-known/oauth-protected-resource/mcp")
        public = {"Host": "mcp.example.com"}
        named = post(f"{address}/mcp", issuer.token(scope="mail"), public)

    assert (
        'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
        in headers["www-authenticate"]
    )
    assert metadata["resource"] == AUDIENCE
    assert metadata["authorization_servers"] == [issuer.url]
    assert metadata["scopes_supported"] == ["read", "write", "admin"]
    assert named[0] == 403


@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "/mcp"), ("sse", "/sse")])
async def test_foreign_hosts_and_pages_are_refused_on_all_addresses(env, tmp_path, transport, path):
    settings = {
        "AUTH_MODE": "none",
        "FASTMCP_HOST": "0.0.0.0",
        "FASTMCP_ALLOWED_HOSTS": "mcp.example.com",
        "FASTMCP_ALLOWED_ORIGINS": "https://app.example.com",
    }

    def ask(headers):
        request = urllib.request.Request(f"{address}{path}", headers=headers, method="OPTIONS")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers["access-control-allow-origin"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["access-control-allow-origin"]

    preflight = {"Access-Control-Request-Method": "POST"}
    app, evil = {"Origin": "https://app.example.com"}, {"Origin": "https://evil.example"}
    with serving(env | settings, transport, tmp_path) as (address, process):
        port = address.rpartition(":")[2]
        found = [
            ask(preflight | app | {"Host": "mcp.example.com"}),
            ask(preflight | app | {"Host": f"127.0.0.1:{port}"}),
            ask(preflight | evil),
            ask({"Host": "evil.example"}),
            ask({"Host": f"evil.example:{port}"} | app),
        ]
        process.terminate()
        log = process.stderr.read().decode()

    allowed = (200, "https://app.example.com")
    assert found == [allowed, allowed, (403, None), (421, None), (421, None)]
    assert "evil.example" not in log


def test_stdio_asks_nobody(env, tmp_path):
    server = RawServer(env | {"AUTH_MODE": "token", "AUTH_TOKEN": new_token()}, tmp_path)
    tools = server.request("tools/list", {})["result"]["tools"]
    server.close()

    assert "qdrant-store" in {tool["name"] for tool in tools}
