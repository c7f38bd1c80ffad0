"""What this server adds to a tool call: its calls per second beside those of a bare tool.

    python benchmarks/load/throughput.py [--rounds 6] [--seconds 4] [--callers 8]

Two servers of the same MCP SDK over streamable-http, asked in turns in the same run:
  bare    a tool of one parameter that gives a constant answer, and nothing else around it
  tool    qdrant-find, all of this server but the search: the same answer, from a pipeline that
          has it ready
CPU time is that of the server process, and more to be trusted than the clock on a busy machine.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from http_caller import Caller

KINDS = ("bare", "tool")
TEXT = "The lentil dish was cooked together in the kitchen of the boathouse, with rice and bread. "
TICKS = os.sysconf("SC_CLK_TCK")


def page(query: str) -> Any:
    """Five results, as a search of two collections gives them."""
    from mcp_server_qdrant.core.datatypes import Document, Passage, Result, SearchPage, Status

    found = [Document("notes", f"id-{n}", TEXT * 3, None) for n in range(5)]
    results = [Result(one, 0.5, 0.5, (Passage(TEXT * 3, one),)) for one in found]
    statuses = [Status("notes", "ok"), Status("meetings", "ok")]
    return SearchPage(query, results, statuses, [])


def bare() -> Any:
    """A server with one tool that has its answer ready."""
    from mcp.server import MCPServer
    from mcp.types import CallToolResult, TextContent

    from mcp_server_qdrant.tools.find import FindOutput, as_data, as_text

    mcp = MCPServer("bare", log_level="WARNING")
    made = page("x")
    text, structured = as_text(made, "minimal"), as_data(made, "minimal")

    @mcp.tool(name="qdrant-find")
    async def find(query: str) -> Annotated[CallToolResult, FindOutput]:  # noqa: ARG001
        """Search."""
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=structured
        )

    return mcp


def settings() -> Any:
    from mcp_server_qdrant.settings.environment import Settings

    return Settings(qdrant_url=":memory:", qdrant_read_only=True, embedding_provider="none")


async def ready() -> Any:
    """The real services, whose searches are done before they begin."""
    from mcp_server_qdrant.app.services import open_shared

    shared, made = await open_shared(settings()), page("x")

    async def search(_: Any) -> Any:
        return made

    shared.services_of_caller().pipeline.search = search
    return shared


def serve(kind: str, port: int) -> None:
    """Be one of the servers."""
    import uvicorn

    if kind == "bare":
        uvicorn.run(bare().streamable_http_app(), port=port, log_level="warning", access_log=False)
        return
    from mcp_server_qdrant.app.server import make_server
    from mcp_server_qdrant.http import serving as http
    from mcp_server_qdrant.http.monitor import Monitor

    chosen = settings()
    monitor = Monitor(chosen)
    mcp = make_server(chosen, ready, monitor=monitor)
    with http.open_listener("127.0.0.1", port) as listener:
        asyncio.run(http.serve(mcp, "streamable-http", chosen, monitor, listener))


async def asking(callers: list[Caller], seconds: float) -> int:
    """How many calls are answered in so many seconds."""
    until = time.monotonic() + seconds
    counts = [0] * len(callers)

    async def one(number: int, caller: Caller) -> None:
        while time.monotonic() < until:
            status, result = await caller.call("qdrant-find", {"query": "lentil dish"})
            assert status == 200, status
            assert result is not None, "no result"
            assert not result.get("isError"), result
            counts[number] += 1

    await asyncio.gather(*(one(number, caller) for number, caller in enumerate(callers)))
    return sum(counts)


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def measure(
    servers: dict[str, tuple[int, int]], rounds: int, seconds: float, count: int
) -> dict[str, list[tuple[float, float]]]:
    """Kind -> (calls per second, CPU milliseconds per call) of each round."""
    callers = {kind: [Caller(port) for _ in range(count)] for kind, (port, _) in servers.items()}
    for kind in servers:
        await reachable(callers[kind][0])
        await asking(callers[kind], 1.0)
    figures: dict[str, list[tuple[float, float]]] = {kind: [] for kind in servers}
    for number in range(rounds):
        for kind in KINDS[:: 1 if number % 2 else -1]:
            for caller in callers[kind]:
                await caller.close()  # it was idle for longer than a connection is kept
            pid = servers[kind][1]
            before, began = cpu(pid), time.perf_counter()
            done = await asking(callers[kind], seconds)
            took = time.perf_counter() - began
            figures[kind].append((done / took, (cpu(pid) - before) / done * 1000))
    return figures


async def reachable(caller: Caller) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, EOFError):
            await caller.get("/healthz")
            return
        await asyncio.sleep(0.1)
    sys.exit("a server did not answer")


@contextlib.contextmanager
def serving(kind: str) -> Iterator[tuple[int, int]]:
    """A server process: its port and id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, __file__, "--serve", kind, "--port", str(port)])
    try:
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.port)
        return
    with contextlib.ExitStack() as stack:
        servers = {kind: stack.enter_context(serving(kind)) for kind in KINDS}
        figures = asyncio.run(measure(servers, args.rounds, args.seconds, args.callers))
    middle = {
        kind: tuple(statistics.median(column) for column in zip(*rows, strict=True))
        for kind, rows in figures.items()
    }
    rate, used = middle["bare"]
    for kind, (calls, milliseconds) in middle.items():
        print(
            f"{kind:7} {calls:6.0f} calls/s ({calls / rate:.0%} of bare)   "
            f"{milliseconds:.2f} ms CPU a call ({used / milliseconds:.0%})"
        )


if __name__ == "__main__":
    main()
