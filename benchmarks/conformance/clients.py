"""Can the clients that people use call this server: the tools listed, one store, one find?

    python benchmarks/conformance/clients.py FOLDER [--model-cache PATH]

The clients come from PyPI and npm, into FOLDER (Node.js 20 or newer). Each one lists the tools,
stores a text and finds it: over stdio, mcp-remote over HTTP. google-genai also makes its own
declarations of all tools, without a network. Then three checkers of servers look at this one, if
they can be installed. Ends with status 1 where a client fails.
"""

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYPI = ("mcp", "langchain-mcp-adapters", "openai-agents", "google-genai")
CHECKERS = ("mcp-conform", "audit-mcp", "mcp-fuzzer")
NPM = ("@modelcontextprotocol/sdk", "mcp-remote")
TOOLS = 6
STORE = {"information": "Berth twelve belongs to Tom.", "collection_name": "harbour"}
FIND = {"query": "whose is berth twelve", "collections": ["*"]}
ADDED = {"toolCallId": "call_1", "sessionId": "s1", "chatInput": "hi", "action": "sendMessage"}
TYPESCRIPT = """
import {Client} from "@modelcontextprotocol/sdk/client/index.js";
import {StdioClientTransport} from "@modelcontextprotocol/sdk/client/stdio.js";
const {command, args, env, store, find} = JSON.parse(process.argv[2]);
const client = new Client({name: "typescript", version: "1"});
await client.connect(new StdioClientTransport({command, args, env}));
const {tools} = await client.listTools();
const stored = await client.callTool({name: "qdrant-store", arguments: store});
const found = await client.callTool({name: "qdrant-find", arguments: find});
console.log(JSON.stringify([tools.length, stored.content[0].text, found.content[0].text]));
await client.close();
"""

Seen = Sequence[Any]  # the number of tools, and the texts of the answers to a store and a find


# What follows runs in the clients' own environment, each client in a process of its own.


@asynccontextmanager
async def session(server: Mapping[str, Any]) -> AsyncIterator[Any]:
    """A session of the official client."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async with (
        stdio_client(StdioServerParameters(**server)) as (reader, writer),
        ClientSession(reader, writer) as made,
    ):
        await made.initialize()
        yield made


async def official(server: Mapping[str, Any], **added: str) -> Seen:
    async with session(server) as client:
        listed = (await client.list_tools()).tools
        stored = await client.call_tool("qdrant-store", STORE | added)
        found = await client.call_tool("qdrant-find", FIND | added)
        return [len(listed), stored.content[0].text, found.content[0].text]


async def n8n(server: Mapping[str, Any]) -> Seen:
    return await official(server, **ADDED)


async def langchain(server: Mapping[str, Any]) -> Seen:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    listed = await MultiServerMCPClient({"own": {**server, "transport": "stdio"}}).get_tools()
    tools = {tool.name: tool for tool in listed}
    stored = await tools["qdrant-store"].ainvoke(STORE)
    return [len(listed), str(stored), str(await tools["qdrant-find"].ainvoke(FIND))]


async def agents(server: Mapping[str, Any]) -> Seen:
    from agents.mcp import MCPServerStdio, MCPUtil

    async with MCPServerStdio(params=dict(server), client_session_timeout_seconds=60) as client:
        listed = await client.list_tools()
        for tool in listed:
            MCPUtil.to_function_tool(tool, client, convert_schemas_to_strict=True)
        stored = await client.call_tool("qdrant-store", STORE)
        found = await client.call_tool("qdrant-find", FIND)
        return [len(listed), stored.content[0].text, found.content[0].text]


async def genai(server: Mapping[str, Any]) -> Seen:
    from google.genai._mcp_utils import mcp_to_gemini_tools

    async with session(server) as client:
        declared = mcp_to_gemini_tools((await client.list_tools()).tools)
        stored = await client.call_tool("qdrant-store", STORE)
        found = await client.call_tool("qdrant-find", FIND)
        return [len(declared), stored.content[0].text, found.content[0].text]


CLIENTS = {one.__name__: one for one in (official, n8n, langchain, agents, genai)}


# What follows runs in the project's environment.


def installed(folder: Path, name: str, packages: Sequence[str]) -> Path:
    """The programs of an environment with these packages."""
    place = folder / name / "bin"
    if not place.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
        subprocess.run([place / "pip", "install", "-q", *packages], check=True)
    return place


def modules(folder: Path) -> Path:
    """The folder of the packages from npm."""
    place = folder / "npm"
    if not (place / "node_modules").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--silent", *NPM], cwd=place, check=True)
    (place / "client.mjs").write_text(TYPESCRIPT)
    return place


def ask(command: Sequence[Any], place: Path) -> Seen:
    """What a client saw, by the last line that its process prints."""
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        return [0, done.stderr.strip()[-500:], ""]
    seen: Seen = json.loads(done.stdout.splitlines()[-1])
    return seen


def over_http(server: Mapping[str, Any], log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The server over HTTP, once it answers, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [server["command"], *server["args"], "--transport", "streamable-http"]
    env = server["env"] | {"FASTMCP_PORT": str(port)}
    process = subprocess.Popen(command, env=env, stderr=log.open("ab"), stdout=subprocess.DEVNULL)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    return process, f"http://127.0.0.1:{port}/mcp"


def check(folder: Path, server: Mapping[str, Any], url: str, log: Path) -> None:
    """What the checkers say, in their own words; the server's go to the log."""
    try:
        place = installed(folder, "checkers", CHECKERS)
    except subprocess.CalledProcessError:
        print("The checkers could not be installed.")
        return
    stdio = str(folder / "server.sh")
    command = shlex.join([server["command"], *server["args"]])
    Path(stdio).write_text(f"#!/bin/sh\nexec {command} 2>>{shlex.quote(str(log))}\n")
    Path(stdio).chmod(0o755)
    commands = {
        "mcp-conform": ["mcp-conform", "server", "--command", stdio],
        "audit-mcp": ["audit-mcp", url],
        "mcp-fuzzer": [
            *("mcp-fuzzer", "--mode", "all", "--phase", "both", "--runs", "20"),
            *("--protocol", "stdio", "--endpoint", stdio, "--output-dir", folder / "fuzzed"),
        ],
    }
    for name, (program, *arguments) in commands.items():
        done = subprocess.run(
            [place / program, *arguments],
            cwd=folder,
            env=server["env"],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        said = (done.stdout + done.stderr).strip()
        (folder / f"{program}.txt").write_text(said)
        told = re.search(r"\d+/\d+ checks passed|\d+ / 100|Recorded \d+ finding.*?\)", said)
        print(f"{name:12} status {done.returncode}, {told[0] if told else said[-200:]}")


def main() -> None:
    """Ask each client, print a line for it, and let the checkers look."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model-cache", type=Path, default=ROOT / "build" / "minilm")
    parser.add_argument("--as", dest="client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--server", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(json.dumps(asyncio.run(CLIENTS[options.client](options.server))))
        return
    folder = options.folder.resolve()
    for left in ("data", "fuzzed"):
        shutil.rmtree(folder / left, ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    server = {
        "command": sys.executable,
        "args": ["-m", "mcp_server_qdrant"],
        "env": {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "HOME": str(folder / "data"),
            "QDRANT_LOCAL_PATH": str(folder / "data" / "engine"),
            "FASTEMBED_CACHE_PATH": str(options.model_cache.resolve()),
            "HF_HUB_OFFLINE": "1",
        },
    }
    python, npm = installed(folder, "clients", PYPI) / "python", modules(folder)
    script = [python, Path(__file__).resolve(), folder, "--as"]
    log = folder / "server.log"
    log.unlink(missing_ok=True)
    process, url = over_http(server, log)
    proxy = npm / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
    remote = {"command": "node", "args": [str(proxy), url, "--allow-http"], "env": server["env"]}
    typescript = json.dumps({**server, "store": STORE, "find": FIND})
    commands = {name: [*script, name, "--server", json.dumps(server)] for name in CLIENTS}
    commands["mcp-remote"] = [*script, "official", "--server", json.dumps(remote)]
    commands["typescript"] = ["node", npm / "client.mjs", typescript]
    failed = False
    try:
        for name, command in commands.items():
            tools, stored, found = ask(command, npm)
            well = tools == TOOLS and " id " in stored and "belongs to Tom" in found
            failed |= not well
            print(f"{name:12} {tools} tools, {'met' if well else f'NOT met: {stored} {found}'}")
        check(folder, server, url, log)
    finally:
        process.terminate()
        process.wait(30)
    traces = log.read_text("utf-8", "replace").count("Traceback")
    print(f"tracebacks in the servers' log: {traces}")
    sys.exit(failed or bool(traces))


if __name__ == "__main__":
    main()
