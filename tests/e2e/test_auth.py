"""The real server and real tokens over real HTTP."""

import json
import urllib.error
import urllib.request

import pytest

from mcp_server_qdrant.http.auth.tokens import new_token
from tests.e2e.raw import RawServer
from tests.e2e.test_http import serving
from tests.listening import client_of, make_tokens
from tests.support import said

pytestmark = pytest.mark.model(False)

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


@pytest.fixture
def env(env):
    """Everything is logged, so that what must not be would be seen."""
    return env | {"FASTMCP_LOG_LEVEL": "DEBUG"}


@pytest.mark.model(True)
async def test_named_tokens_do_what_their_scopes_say(env, tmp_path):
    file = tmp_path / "tokens.yaml"
    tokens = make_tokens(file, reader="read", writer="write")
    settings = {"AUTH_MODE": "token", "AUTH_TOKENS_FILE": str(file), "FASTMCP_HOST": "0.0.0.0"}
    text = {"information": "The cellar floods in March.", "collection_name": "house"}

    with serving(env | settings, "streamable-http", tmp_path) as (address, process):
        async with client_of(address, tokens["writer"]) as client:
            assert not (await client.call_tool("qdrant-store", text)).is_error
        async with client_of(address, tokens["reader"]) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            found = await client.call_tool("qdrant-find", {"query": "water in the basement"})
            refused = await client.call_tool("qdrant-store", text)
        status, headers, _ = post(f"{address}/mcp", "not-a-token-of-anyone")
        process.terminate()
        log = process.stderr.read().decode()

    assert "qdrant-store" not in names
    assert "floods in March" in said(found)
    assert said(refused) == "qdrant-store needs the scope write, which your token lacks."
    assert status == 401
    assert "resource_metadata" not in headers["www-authenticate"]
    for secret in (*tokens.values(), "not-a-token-of-anyone", "bearer "):
        assert secret.lower() not in log.lower()


def test_stdio_asks_nobody(env, tmp_path):
    server = RawServer(env | {"AUTH_MODE": "token", "AUTH_TOKEN": new_token()}, tmp_path)
    tools = server.request("tools/list", {})["result"]["tools"]
    server.close()

    assert "qdrant-store" in {tool["name"] for tool in tools}
