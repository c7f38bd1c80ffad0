"""The service over real connections: whose settings count, who hears what, and when it ends."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_server_qdrant import __version__
from mcp_server_qdrant.app import service as serving
from mcp_server_qdrant.app.opening import Opening
from mcp_server_qdrant.app.place import hold, rendezvous_file, take_over, take_when_free
from mcp_server_qdrant.app.service import Service, run, serving_pipes
from mcp_server_qdrant.core.context import serving_connection, within_request
from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.hosting.pipe import ask_recall
from mcp_server_qdrant.hosting.rendezvous import PROTOCOL, Rendezvous
from mcp_server_qdrant.settings import environment
from mcp_server_qdrant.settings.environment import Settings
from tests.support import HELLO

PUMP = "The heat pump in the cellar is serviced by Olle every May."
HOOK = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "s",
    "cwd": "/",
    "prompt": "who is it that serviced our heat pump in the cellar",
}


class Client:
    """The pipe's end of a connection, spoken to line by line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.told: list[dict[str, Any]] = []  # control
        self.number = 0

    @property
    def said(self) -> str:
        """What is written to the client's stderr."""
        return "".join(one.get("say", "") for one in self.told)

    def send(self, **message: Any) -> None:
        self.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def hear(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        while line := await self.reader.readline():
            if not line.startswith(b"!"):
                return json.loads(line)
            self.told.append(json.loads(line[1:]))
        return None

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        answer = await self.hear()
        assert answer is not None
        return answer["result"]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.request("tools/call", name=tool, arguments=arguments)

    async def end(self) -> list[dict[str, Any]]:
        """Say no more; all that was told."""
        self.writer.write_eof()
        assert await self.hear() is None
        self.writer.close()
        return self.told


class Store:
    """The service of a store, and those who come to it."""

    def __init__(self, variables: dict[str, str], folder: Path) -> None:
        self.variables, self.folder = variables, folder
        with environment.use_variables(variables):
            self.settings: Settings = environment.load()

    @property
    def place(self) -> Path:
        return rendezvous_file(self.settings)

    async def visit(
        self, *, kind: str = "stdio", version: str = __version__, **more: Any
    ) -> Client:
        """A connection past the hello; `more` are variables, `folder`, or what a hello has."""
        found = Rendezvous.read(self.place)
        assert found is not None
        line = await asyncio.to_thread(found.dial, 20.0)
        assert line is not None
        client = Client(*await asyncio.open_connection(sock=line))
        folder = str(more.pop("folder", self.folder))
        hello = {"kind": kind, "version": version, "folder": folder, "env_file": None}
        hello |= {name: more.pop(name) for name in ("argv", "hook") if name in more}
        client.writer.write(
            json.dumps(hello | {"variables": self.variables | more}).encode() + b"\n"
        )
        return client

    async def client(self, **more: Any) -> Client:
        """A client past its handshake."""
        client = await self.visit(**more)
        await client.request("initialize", **HELLO["params"])
        client.send(method="notifications/initialized")
        return client

    @asynccontextmanager
    async def serving(self, opening: Opening | None = None) -> AsyncIterator[Service]:
        async with serving_pipes(self.settings, hold(self.settings), None, opening) as service:
            yield service


@pytest.fixture
def store(tmp_path, no_settings) -> Store:
    """An embedded store, searched by keywords."""
    folders = {"QDRANT_LOCAL_PATH": str(tmp_path / "engine"), "QDRANT_CACHE_PATH": str(tmp_path)}
    return Store(folders | {"EMBEDDING_PROVIDER": "none"}, tmp_path)


def found(result: dict[str, Any]) -> set[str]:
    assert not result.get("isError"), result
    return {one["collection"] for one in result["structuredContent"]["results"]}


async def test_clients_of_different_settings_see_only_what_is_theirs(store, tmp_path):
    file = tmp_path / "config" / "mcp-server-qdrant" / ".env"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text("QDRANT_COLLECTIONS=notes\n")
    file.chmod(0o600)
    async with store.serving():
        owner = await store.client()
        for name in ("notes", "secrets"):
            await owner.call("qdrant-store", information=f"Of {name}: blue", collection_name=name)
        narrow = await store.client(QDRANT_COLLECTIONS="notes")
        by_file = await store.client(XDG_CONFIG_HOME=str(tmp_path / "config"))
        reader = await store.client(QDRANT_READ_ONLY="true")
        clients = (owner, narrow, by_file, reader)
        tools = [
            {tool["name"] for tool in (await one.request("tools/list"))["tools"]} for one in clients
        ]
        asked = {"query": "blue", "collections": ["*"]}
        seen = [found(await one.call("qdrant-find", **asked)) for one in clients]
        refused = await narrow.call("qdrant-delete", ids=["x"], collection_name="secrets")
        ends = [await one.end() for one in clients]

    assert ["qdrant-store" in names for names in tools] == [True, True, True, False]
    assert seen == [{"notes", "secrets"}, {"notes"}, {"notes"}, {"notes", "secrets"}]
    assert refused["isError"]
    assert ends == [[{"exit": 0}]] * 4


async def test_days_are_those_of_each_clients_time_zone(store):
    async with store.serving():
        clients = [await store.client(TZ=zone) for zone in ("Europe/Berlin", "America/Toronto")]
        moment = {"metadata": {"created_at": "2026-11-27T23:30:00Z"}, "collection_name": "notes"}
        await clients[0].call("qdrant-store", information="The crane is mended.", **moment)
        found = [
            await one.call("qdrant-find", query="crane", since="2026-11-28") for one in clients
        ]
        refused = await clients[0].call("qdrant-find", query="crane", since="03/04/2026")
        for one in clients:
            await one.end()

    dates = [[hit["date"] for hit in page["structuredContent"]["results"]] for page in found]
    assert dates == [["2026-11-28"], []]
    assert "may be 2026-04-03 or 2026-03-04" in refused["content"][0]["text"]


async def test_clients_of_the_same_settings_share_their_services(store):
    async with store.serving() as service:
        clients = [await store.client() for _ in range(3)]
        for client in clients:
            await client.call("qdrant-collections")
        assert len(service._served) == 1
        assert service._served[0][1].opening.users == 3
        for client in clients:
            await client.end()
        assert service._served[0][1].opening.users == 0


async def test_who_wants_another_store_is_sent_elsewhere(store, tmp_path):
    async with store.serving():
        folder = await (await store.visit(QDRANT_LOCAL_PATH=str(tmp_path / "other"))).end()
        server = {"QDRANT_LOCAL_PATH": "", "QDRANT_URL": "http://127.0.0.1:1"}
        url = await (await store.visit(**server)).end()

    assert folder[0] == url[0] == {"elsewhere": True}


async def test_what_a_person_may_not_expect_is_said_once_before_all_else(store, tmp_path):
    (tmp_path / ".env").write_text("QDRANT_URL=http://127.0.0.1:1\n")
    async with store.serving():
        client = await store.client()
        await client.end()

    assert client.said.count(f"{tmp_path / '.env'} is not read") == 1


async def test_log_lines_go_to_the_client_whose_call_it_is_and_others_to_all(store):
    logger = logging.getLogger("tests.service")
    async with store.serving() as service:
        logger.warning("of the start")
        one, other = [await store.client() for _ in range(2)]
        quiet = await store.client(FASTMCP_LOG_LEVEL="ERROR")
        first = next(iter(service._clients))
        with serving_connection(first):
            logger.warning("of one")
        with within_request("r-1"):
            logger.warning("of a caller over HTTP")
        logger.warning("of the background")
        with serving_connection("who has left"):
            logger.warning("of nobody")
        for client in (one, other, quiet):
            await client.end()

    shown = [[line.split(": ")[-1] for line in x.said.splitlines()] for x in (one, other, quiet)]
    assert shown == [["of the start", "of one", "of the background"], ["of the background"], []]


async def test_a_hook_is_told_what_fits_by_the_server_of_its_folder_alone(store, tmp_path):
    asked, quiet = tmp_path / "recall", tmp_path / "quiet"
    own = {"QDRANT_RECALL_PATH": str(asked)}
    async with store.serving():
        client = await store.client(**own)
        await client.call("qdrant-store", information=PUMP)
        other = await store.client(QDRANT_RECALL_PATH=str(quiet), QDRANT_COLLECTIONS="none")
        await other.call("qdrant-collections")
        (at,), (beside,) = asked.iterdir(), quiet.iterdir()
        told = await asyncio.to_thread(ask_recall, str(at), HOOK, 20.0)
        nothing = await asyncio.to_thread(ask_recall, str(beside), HOOK, 20.0)
        assert asked.stat().st_mode & at.stat().st_mode & 0o077 == 0
        await client.end(), await other.end()
        gone = await asyncio.to_thread(ask_recall, str(at), HOOK, 20.0)

    assert f"> {PUMP}" in told
    assert (nothing, gone) == ("", "")
    assert [*asked.iterdir(), *quiet.iterdir()] == []


async def test_what_a_killed_service_left_for_hooks_is_removed(tmp_path):
    left = tmp_path / "recall-1.json"
    Rendezvous(str(tmp_path / "gone"), b"key", 1, PROTOCOL).write(left)

    assert await asyncio.to_thread(ask_recall, str(left), HOOK, 20.0) == ""
    assert not left.exists()


async def test_a_recall_folder_that_cannot_be_used_is_no_reason_not_to_serve(store, tmp_path):
    (tmp_path / "file").touch()
    async with store.serving():
        client = await store.client(QDRANT_RECALL_PATH=str(tmp_path / "file" / "in"))
        await client.call("qdrant-collections")
        await client.end()

    assert "QDRANT_RECALL_PATH cannot be used: Not a directory." in client.said


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(serving, "PAUSE", 0.01)
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.05)


async def started(store: Store) -> "asyncio.Task[None]":
    """The service as a process of its own runs it."""
    ready = asyncio.Event()
    lock = hold(store.settings)
    task = asyncio.create_task(run(store.settings, lock, None, lambda _: ready.set()))
    await ready.wait()
    return task


async def test_it_ends_after_its_last_client_and_leaves_nothing_behind(store, quick):
    task = await started(store)
    client = await store.client()
    await client.call("qdrant-collections")
    busy = task.done()
    await client.end()
    async with asyncio.timeout(60):
        await task

    assert not busy
    assert not store.place.exists()
    hold(store.settings).release()


@pytest.mark.parametrize("kind", ["stdio", "leave"])
async def test_a_newer_one_takes_over_once_the_calls_under_way_are_answered(
    store, server, quick, kind
):
    store = Store(
        {"QDRANT_URL": server.url, "QDRANT_TIMEOUT": "75"}
        | {name: store.variables[name] for name in ("QDRANT_CACHE_PATH", "EMBEDDING_PROVIDER")},
        store.folder,
    )
    task = await started(store)
    client, idle = await store.client(), await store.client()
    await client.call("qdrant-store", information="Blue.", collection_name="notes")
    server.held.add("/collections/notes/points/query/batch")
    client.send(id="find", method="tools/call", params={
        "name": "qdrant-find", "arguments": {"query": "blue", "collections": ["notes"]},
    })  # fmt: skip
    await asyncio.to_thread(server.reached.acquire)
    newer = await store.visit(kind=kind, version="999.0")
    assert await newer.hear() is None
    assert await idle.hear() is None
    late = None
    if store.place.exists():
        late = await store.visit()
        assert await late.hear() is None
    server.release.set()
    answer = await client.hear()
    assert await client.hear() is None
    async with asyncio.timeout(60):
        await task

    assert newer.told == [{"yielding": True}]
    assert late is None or late.told == [{"yielding": True}]
    assert "Blue." in answer["result"]["content"][0]["text"]
    assert client.told == idle.told == [{"yielding": True}]
    for one in (client, idle, newer):
        one.writer.close()


async def test_a_server_in_the_foreground_yields_to_nobody(store):
    async with store.serving(Opening(asyncio.Event().wait)):
        newer = await store.client(version="999.0")
        leave = await store.visit(kind="leave")

        assert (await newer.call("qdrant-collections"))["isError"] is False
        assert await newer.end() == [{"exit": 0}]
        assert {"yielding": True} not in await leave.end()
        with pytest.raises(EngineUnavailable, match="Another process serves these collections"):
            await asyncio.to_thread(take_over, store.settings)


async def test_a_server_in_the_foreground_takes_the_store_from_one_in_the_background(store, quick):
    task = await started(store)
    client = await store.client()
    lock = await asyncio.to_thread(take_over, store.settings)
    assert await client.hear() is None
    await task

    assert lock.is_locked
    assert client.told == [{"yielding": True}]
    lock.release()
    client.writer.close()


async def test_who_comes_second_finds_the_first_or_waits_until_it_has_gone(store, monkeypatch):
    async with store.serving():
        assert await asyncio.to_thread(take_when_free, store.settings) is None
    lock = hold(store.settings)
    second = asyncio.create_task(asyncio.to_thread(take_when_free, store.settings))
    await asyncio.sleep(0)
    lock.release()
    (await second).release()
    monkeypatch.setattr("mcp_server_qdrant.app.place.TURN_SECONDS", 0.0)
    lock = hold(store.settings)
    with pytest.raises(EngineUnavailable, match="in use by another process"):
        await asyncio.to_thread(take_when_free, store.settings)
    lock.release()
