"""List and call the tools with the client of mcp 1.x; runs with the Python that has it.

    python mcp1_client.py URL | COMMAND [ARGUMENT ...]

Prints one JSON object: protocol version, tool names, and the first text of a store and of a find.
A command inherits this process's environment.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@asynccontextmanager
async def connected(target: list[str]):
    """The read and write streams to a URL or to a command."""
    if target[0].startswith("http"):
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(target[0]) as (read, write, _):
            yield read, write
    else:
        command = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
        async with stdio_client(command) as (read, write):
            yield read, write


async def converse(target: list[str]) -> dict[str, object]:
    async with connected(target) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        tools = await session.list_tools()
        text = "The spare key hangs behind the blue door."
        note = {"information": text, "metadata": {"place": "hall"}}
        stored = await session.call_tool("qdrant-store", note)
        found = await session.call_tool("qdrant-find", {"query": "where is the key"})
        return {
            "client": version("mcp"),
            "protocol": hello.protocolVersion,
            "tools": [tool.name for tool in tools.tools],
            "store": {"error": bool(stored.isError), "text": stored.content[0].text},
            "find": {
                "error": bool(found.isError),
                "text": found.content[0].text if found.content else "",
                "structured": found.structuredContent is not None,
            },
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(converse(sys.argv[1:]))))
