"""The real server over stdio, as a client's configuration starts it."""

import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests import forked
from tests.e2e.raw import RawServer, clean_environment, text_of
from tests.rerank_stub import served

pytestmark = pytest.mark.model(False)


@pytest.mark.model(True)
async def test_an_agent_stores_in_two_collections_and_finds_across_them(env, tmp_path):
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_server_qdrant"],
        env=clean_environment(env),
        cwd=tmp_path,
    )
    async with Client(server) as client:
        tools = await client.list_tools()
        await client.call_tool(
            "qdrant-store",
            {
                "information": "The bread needs 72 % water and a night in the fridge.",
                "collection_name": "recipes",
                "title": "Sourdough",
            },
        )
        await client.call_tool(
            "qdrant-store",
            {
                "information": "The router forgets its port forwarding after a power cut.",
                "collection_name": "homelab",
                "metadata": {"device": "router"},
            },
        )
        found = await client.call_tool(
            "qdrant-find", {"query": "how wet should the dough be", "collections": ["*"]}
        )
        full = await client.call_tool(
            "qdrant-find", {"query": "port forwarding", "mode": "full", "limit": 1}
        )

    assert [tool.name for tool in tools.tools] == [
        "qdrant-find",
        "qdrant-store",
        "qdrant-get",
        "qdrant-collections",
        "qdrant-delete",
        "qdrant-project",
    ]
    assert found.structured_content["results"][0]["title"] == "Sourdough"
    assert "collections" not in found.structured_content
    assert "72 % water" in found.content[0].text
    assert full.structured_content["results"][0]["metadata"] == {"device": "router"}


def test_end_of_input_while_the_model_is_being_loaded_is_no_abort(env, tmp_path):
    unreachable = {k: v for k, v in env.items() if k != "QDRANT_LOCAL_PATH"}
    server = RawServer(unreachable | {"QDRANT_URL": "http://127.0.0.1:1"}, tmp_path)
    server.call("qdrant-collections")

    assert server.close() == (0, "")


def test_a_client_that_takes_no_answer_ends_the_server_with_status_0(env, tmp_path):
    server = RawServer(env, tmp_path)
    server.call("qdrant-collections")
    server.process.stdout.close()
    server.send("tools/call", {"name": "qdrant-collections", "arguments": {}})

    assert server.close() == (0, "")


CLIENT = """
import os, signal, subprocess, sys
reading, writing = os.pipe()
subprocess.Popen(["sleep", "600"], pass_fds=[writing], stdout=subprocess.DEVNULL)
command = [*sys.argv[1:], sys.executable, "-P", "-m", "mcp_server_qdrant"]
subprocess.Popen(command, stdin=reading)
with open(writing, "wb", buffering=0) as pipe:
    pipe.write(sys.stdin.buffer.read())
    while not os.path.exists("stored"):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a launcher hides the client")
@pytest.mark.parametrize("launcher", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["none", "sh"])
def test_a_server_whose_client_was_killed_ends_although_its_pipe_is_held(env, tmp_path, launcher):
    params = {"protocolVersion": "2025-06-18", "capabilities": {}}
    params["clientInfo"] = {"name": "raw", "version": "0"}
    messages = [
        {"id": 1, "method": "initialize", "params": params},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    sent = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, *launcher],
        env=clean_environment(env),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        client.stdin.write(sent.encode())
        client.stdin.close()
        while b'"id":2' not in client.stdout.readline().replace(b" ", b""):
            assert client.poll() is None
        (tmp_path / "stored").touch()
        client.wait(timeout=30)
        ended, _, _ = select.select([client.stdout], [], [], 30)
        assert ended
        assert client.stdout.read() == b""  # nobody writes there any more
    finally:
        os.killpg(client.pid, signal.SIGKILL)
        client.stdout.close()


def test_sigterm_and_sigint_end_the_server_with_status_0(env, tmp_path):
    for signum in (signal.SIGTERM, signal.SIGINT):
        server = RawServer(env, tmp_path)
        server.call("qdrant-collections")
        server.process.send_signal(signum)
        server.process.wait(timeout=20)
        status, log = server.close()

        assert (status, log) == (0, "")


def test_a_wrong_setting_is_one_sentence_on_stderr_and_status_2(env, tmp_path):
    done = forked.run(
        [sys.executable, "-P", "-m", "mcp_server_qdrant"],
        env=clean_environment(env | {"QDRANT_SEARCH_LIMIT": "many"}),
        cwd=tmp_path,
        timeout=60,
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "QDRANT_SEARCH_LIMIT" in done.stderr


def test_broken_unicode_and_garbage_lines_are_answered_and_leave_the_server_alive(env, tmp_path):
    server = RawServer(env, tmp_path)
    for line in ("not json", '{"jsonrpc": "2.0"}', "[]", "\x00"):
        server.process.stdin.write(line + "\n")
    server.process.stdin.flush()
    errors = [json.loads(server.process.stdout.readline())["error"]["code"] for _ in range(4)]

    lone = server.call("qdrant-find", query="a \ud800 b")
    alive = server.call("qdrant-collections")

    assert errors == [-32700, -32600, -32600, -32700]
    assert lone["isError"]
    assert "Unicode" in text_of(lone)
    assert not alive.get("isError")
    server.close()


@pytest.mark.model(True)
def test_a_model_that_does_not_exist_is_one_line_in_the_log_and_the_answers_sentence(env, tmp_path):
    server = RawServer(env | {"EMBEDDING_MODEL": "all-MiniLM-L6-v2"}, tmp_path)
    stored = server.call("qdrant-store", information="A text.", collection_name="notes")
    status, log = server.close()

    assert "fastembed has no model 'all-MiniLM-L6-v2'. Did you mean" in text_of(stored)
    assert (status, log.count("\n"), log.count("has no model")) == (0, 1, 1)


@pytest.mark.model(True)
def test_points_stored_without_a_model_get_their_vector_once_it_is_there(env, tmp_path):
    offline = {k: v for k, v in env.items() if k != "EMBEDDING_MODEL_PATH"}
    offline["FASTEMBED_CACHE_PATH"] = str(tmp_path / "empty")
    before = RawServer(offline, tmp_path)
    before.call("qdrant-store", information="A cat sleeps on the sofa.", collection_name="pets")
    before.close()

    after = RawServer(env, tmp_path)
    relevance = 0.0
    latest = time.monotonic() + 120
    while relevance <= 0.1 and time.monotonic() < latest:  # the fill's only sign is its effect
        found = after.call("qdrant-find", query="feline on furniture", collections=["pets"])
        results = found["structuredContent"]["results"]
        relevance = results[0]["relevance"] if results else 0.0

    assert relevance > 0.1
    after.close()


def test_what_was_asked_before_the_end_of_input_is_still_answered(env, tmp_path):
    server = RawServer(env, tmp_path)
    server.send("tools/call", {"name": "qdrant-collections", "arguments": {}})
    server.process.stdin.close()

    answer = server.answer()

    assert text_of(answer["result"]) == "There is no collection yet."
    assert server.close()[0] == 0


@pytest.mark.model(True)
def test_reranking_and_copies_are_told_and_a_key_is_not(env, tmp_path):
    with served() as stub:
        keys = {"RERANK_URL": stub.url, "RERANK_API_KEY": "s3cr3t", "FASTMCP_LOG_LEVEL": "DEBUG"}
        server = RawServer(env | keys, tmp_path)
        for name in ("notes", "wiki"):
            server.call("qdrant-store", information="Roses need sun.", collection_name=name)
        server.call("qdrant-store", information="Moss needs shade.", collection_name="notes")
        found = server.call("qdrant-find", query="roses", collections=["*"], rerank=True)
        stub.reply = lambda _: (500, {}, b"s3cr3t")
        again = server.call("qdrant-find", query="roses", collections=["*"], rerank=True)
        _, log = server.close()

    first = found["structuredContent"]["results"][0]
    (other,) = first["also_in"]
    assert {first["collection"], other["collection"]} == {"notes", "wiki"}
    assert f"\nalso in: {other['collection']} (id {other['id']})\n" in text_of(found)
    assert text_of(found).endswith("\nReranked: the best 2, by the reranker.")
    assert text_of(again).endswith("\nNot reranked: The reranker failed (HTTP 500).")
    assert stub.requests[0][1]["Authorization"] == "Bearer s3cr3t"
    assert "s3cr3t" not in log + text_of(found) + text_of(again)
