"""The caller inside of tools and resources, over real connections."""

import asyncio
import json

import httpx2
import pytest
from mcp import MCPError

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.core.context import caller
from mcp_server_qdrant.http.auth.tokens import digest
from mcp_server_qdrant.http.monitor import Monitor
from mcp_server_qdrant.http.serving import build_app
from tests.listening import client_of, listening
from tests.support import HELLO, make_settings, memory_engine, memory_services, said

TOKENS = {name: f"mqd_{name}".ljust(47, "x") for name in ("ana", "ben", "wim", "ada")}
SCOPES = {"ana": "read", "ben": "read", "wim": "write", "ada": "admin"}
ACCEPT = "application/json, text/event-stream"
WAYS = [
    ("/mcp", "legacy", False),
    ("/mcp", "legacy", True),
    ("/mcp", "2026-07-28", False),
    ("/sse", "auto", False),
]


class Recording:
    """Services that note who called them."""

    def __init__(self, services):
        self._services = services
        self.callers = []

    def __getattr__(self, name):
        who = caller()
        if name not in ("close", "record", "background"):
            self.callers.append((name, who and who.name))
        return getattr(self._services, name)

    def services_of_caller(self):
        return self


@pytest.fixture
def tokens_file(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(
        json.dumps(
            [
                {"name": name, "sha256": digest(TOKENS[name]), "scopes": [scope]}
                for name, scope in SCOPES.items()
            ]
        )
    )
    return path


@pytest.fixture
async def served(tokens_file, request):
    """(address, notes of who called) of a server that asks for tokens."""
    path, _, stateless = request.param
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        notes = Recording(services)
        openers = []

        async def opened():
            openers.append(caller())
            return notes

        settings = make_settings(
            auth_mode="token", auth_tokens_file=tokens_file, fastmcp_stateless_http=stateless
        )
        monitor = Monitor(settings)
        mcp = make_server(settings, opened, monitor=monitor)
        served = build_app(mcp, "sse" if path == "/sse" else "streamable-http", settings, monitor)
        async with listening(served) as address:
            yield address, notes
        assert set(openers) <= {None}


each_way = pytest.mark.parametrize(("served", "way"), [(w, w) for w in WAYS], indirect=["served"])


@each_way
async def test_every_call_is_handled_for_its_own_caller(served, way):
    address, notes = served
    path, mode, _ = way

    async def use(name):
        async with client_of(address, TOKENS[name], path=path, mode=mode) as client:
            await client.call_tool("qdrant-collections", {})

    await asyncio.gather(use("ana"), use("ben"))
    await use("ada")

    names = [name for _, name in notes.callers]
    assert {one: names.count(one) for one in set(names)} == {"ana": 3, "ben": 3, "ada": 3}


@pytest.mark.parametrize(("served", "way"), [(WAYS[0], WAYS[0])], indirect=["served"])
async def test_scopes_decide_which_tools_are_listed_and_callable(served, way):
    address, notes = served
    path, mode, _ = way
    listed, stored, deleted = {}, {}, {}
    for name in ("ana", "wim", "ada"):
        async with client_of(address, TOKENS[name], path=path, mode=mode) as client:
            listed[name] = {tool.name for tool in (await client.list_tools()).tools}
            arguments = {"information": f"Key of {name}", "collection_name": "house"}
            stored[name] = await client.call_tool("qdrant-store", arguments)
            unwanted = {"ids": ["nobody-has-it"], "collection_name": "house"}
            deleted[name] = await client.call_tool("qdrant-delete", unwanted)
            assert not (await client.call_tool("qdrant-collections", {})).is_error

    reading = {"qdrant-find", "qdrant-get", "qdrant-collections", "qdrant-project"}
    assert listed["ana"] == reading
    assert listed["wim"] == listed["ana"] | {"qdrant-store"}
    assert listed["ada"] == listed["wim"] | {"qdrant-delete"}
    assert said(deleted["wim"]) == "qdrant-delete needs the scope admin, which your token lacks."
    assert said(deleted["ada"]).startswith("Nothing was deleted: not found")
    assert stored["ana"].is_error
    assert said(stored["ana"]) == "qdrant-store needs the scope write, which your token lacks."
    assert ("store", "ana") not in notes.callers
    assert ("store", "wim") in notes.callers


@pytest.mark.parametrize("served", [WAYS[0], WAYS[3]], indirect=True)
async def test_a_session_belongs_to_the_token_that_opened_it(served, request):
    address, _ = served
    path = request.node.callspec.params["served"][0]

    def headers(name, **more):
        return {"Authorization": f"Bearer {TOKENS[name]}", "Accept": ACCEPT} | more

    async with httpx2.AsyncClient(timeout=10) as http:
        if path == "/mcp":
            opened = await http.post(f"{address}/mcp", json=HELLO, headers=headers("ana"))
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            target = f"{address}/mcp"
            stolen = await http.post(target, json=HELLO, headers=headers("ben", **session))
        else:
            async with http.stream("GET", f"{address}/sse", headers=headers("ana")) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data:"):
                        target = address + line.removeprefix("data:").strip()
                        break
                stolen = await http.post(target, json=HELLO, headers=headers("ben"))

    assert stolen.status_code == 404


@pytest.mark.parametrize("served", [WAYS[0]], indirect=True)
async def test_a_session_goes_on_with_the_callers_next_token(served, tokens_file):
    address, _ = served
    next_one = "mqd_".ljust(47, "n")
    entries = json.loads(tokens_file.read_text())
    ana = next(entry for entry in entries if entry["name"] == "ana")
    async with httpx2.AsyncClient(timeout=10, headers={"Accept": ACCEPT}) as http:

        async def hello(token: str, **session: str) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}", **session}
            return await http.post(f"{address}/mcp", json=HELLO, headers=headers)

        opened = await hello(TOKENS["ana"])
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        old = {**ana, "expires": "2100-01-31"}
        tokens_file.write_text(json.dumps([old, {**ana, "sha256": digest(next_one)}]))
        answers = [await hello(token, **session) for token in (next_one, TOKENS["ana"])]

    assert [one.status_code for one in answers] == [200, 200]


@pytest.mark.parametrize("served", [WAYS[0], WAYS[3]], indirect=True)
async def test_a_token_that_is_taken_away_ends_its_session(served, tokens_file, request):
    address, notes = served
    path = request.node.callspec.params["served"][0]
    async with client_of(address, TOKENS["wim"], path=path, mode="legacy") as client:
        entries = json.loads(tokens_file.read_text())
        tokens_file.write_text(json.dumps([e | {"scopes": ["read"]} for e in entries]))
        refused = await client.call_tool("qdrant-store", {"information": "x"})
        tokens_file.write_text(json.dumps([e for e in entries if e["name"] != "wim"]))
        with pytest.raises(MCPError):
            await client.call_tool("qdrant-collections", {}, read_timeout_seconds=2)

    assert refused.is_error
    assert ("catalog", "wim") not in notes.callers


async def test_a_message_without_a_caller_is_not_handled():
    from mcp import Client

    async def opened():
        raise AssertionError("nobody called")

    settings = make_settings(auth_mode="token", auth_token="a-token-that-nobody-has")
    server = make_server(settings, opened, monitor=Monitor(settings))
    with pytest.raises(BaseException) as caught:
        async with Client(server) as client:
            await client.call_tool("qdrant-collections", {})

    assert "without a caller" in repr(caught.value)
