"""The line on which a server answers `recall`, and the one who asks there."""

import asyncio
import json
import os
import socket
from contextlib import asynccontextmanager

import pytest

from mcp_server_qdrant.app import ask
from mcp_server_qdrant.app.ask import NAME, recalled
from mcp_server_qdrant.app.recall import answering
from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.services import wire
from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.hosting.wire import Rendezvous
from mcp_server_qdrant.http.monitor import Monitor
from tests.fakes import FakeEncoder
from tests.support import make_settings, memory_engine, memory_services, registry, remember, served

PUMP = "The heat pump in the cellar is serviced by Olle every May."
HOOK = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "s",
    "cwd": "/",
    "prompt": "who is it that serviced our heat pump in the cellar",
}


async def asked(folder, hook=HOOK, seconds: float = 20.0) -> str:
    return await asyncio.to_thread(recalled, folder, hook, seconds)


@asynccontextmanager
async def listening(folder, failure: Exception | None = None):
    """A server's line over services that know the pump, or fail."""
    async with memory_services() as services:
        await remember(services, "house", PUMP)

        async def opened():
            if failure is not None:
                raise failure
            return services

        async with answering(folder, opened):
            yield


async def test_a_server_that_listens_answers_and_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "of" / "recall"
    async with listening(folder):
        (published,) = folder.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
        assert published.stat().st_mode & 0o077 == 0
        assert f"> {PUMP}" in await asked(folder)
        assert await asked(folder, HOOK | {"prompt": "go on"}) == ""
        nested = json.loads("[" * 500 + "]" * 500)
        assert PUMP in await asked(folder, HOOK | {"session_id": "t", "tool_input": nested})

    assert [*folder.iterdir()] == []
    assert await asked(folder) == ""


@pytest.mark.parametrize("failure", [EngineUnavailable("It is gone."), ZeroDivisionError()])
async def test_a_failure_is_told_nobody_and_the_next_call_is_answered(tmp_path, failure):
    async with listening(tmp_path, failure):
        assert await asked(tmp_path) == ""
        assert await asked(tmp_path) == ""


async def test_nobody_is_found_where_nobody_listens(tmp_path):
    assert await asked(tmp_path / "nowhere") == ""


async def test_what_a_killed_server_left_is_removed_and_the_next_one_asked(tmp_path):
    left = tmp_path / NAME.format(0)
    Rendezvous(str(tmp_path / "gone.sock"), b"key", 1, ask.WIRE).write(left)
    async with listening(tmp_path):
        assert PUMP in await asked(tmp_path)

    assert not left.exists()


async def test_servers_of_another_version_and_files_of_others_are_passed_over(tmp_path):
    stranger = tmp_path / NAME.format(2)
    stranger.write_text(json.dumps({"address": "x", "key": "00", "pid": 2, "wire": ask.WIRE}))
    stranger.chmod(0o666)  # anybody may have written it
    async with listening(tmp_path):
        own = tmp_path / NAME.format(os.getpid())
        fields = json.loads(own.read_text())
        other = Rendezvous(fields["address"], bytes.fromhex(fields["key"]), 3, ask.WIRE + 1)
        other.write(tmp_path / NAME.format(0))

        assert PUMP in await asked(tmp_path)
    assert stranger.exists()
    assert (tmp_path / NAME.format(0)).exists()


async def test_a_server_that_hangs_does_not_keep_the_next_from_being_asked(tmp_path):
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(tmp_path / "s"))
        hanging.listen()
        stopped = tmp_path / NAME.format(0)
        Rendezvous(str(tmp_path / "s"), b"key", 4, ask.WIRE).write(stopped)
        async with listening(tmp_path):
            assert PUMP in await asked(tmp_path)

    assert stopped.exists()


async def test_an_answer_that_does_not_come_in_time_is_none(tmp_path):
    async with memory_services() as services:

        async def never():
            await asyncio.Event().wait()
            return services

        async with answering(tmp_path, never):
            assert await asked(tmp_path, seconds=0.5) == ""


async def test_a_folder_that_cannot_be_used_is_no_reason_not_to_serve(tmp_path, caplog):
    (tmp_path / "file").touch()
    async with answering(tmp_path / "file" / "in", None):
        assert "QDRANT_RECALL_PATH cannot be used: Not a directory." in caplog.text


async def test_a_server_listens_once_its_services_are_open_and_until_it_ends(tmp_path):
    settings = make_settings(qdrant_recall_path=tmp_path)
    opening = asyncio.Event()
    async with memory_engine() as engine:

        async def opened():
            await opening.wait()
            return wire(settings, engine, registry(FakeEncoder())).shared

        async with served(settings, opened) as client:
            assert await asked(tmp_path) == ""
            opening.set()
            await client.call_tool("qdrant-store", {"information": PUMP})
            assert PUMP in await asked(tmp_path)
        assert [*tmp_path.iterdir()] == []


async def test_over_http_a_server_listens_before_any_client_comes(tmp_path):
    settings = make_settings(qdrant_recall_path=tmp_path / "recall")
    async with memory_services() as services:
        await remember(services, "house", PUMP)

        async def opened():
            return services.shared

        mcp = make_server(settings, opened, monitor=Monitor(settings))
        served = mcp.streamable_http_app()
        async with served.router.lifespan_context(served):
            while not [*tmp_path.glob("recall/*")]:
                await asyncio.sleep(0)
            assert PUMP in await asked(tmp_path / "recall")
