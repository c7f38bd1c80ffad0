# ruff: noqa: T201
"""The real server, the real model, three small collections: what an agent's search gets.

    python demo/run.py MODEL_CACHE

Starts `python -m mcp_server_qdrant` over stdio on the embedded engine in a temporary folder,
stores the demo texts of the page, and asks. Exit code 1 if a first hit is not the expected one or
a collection took no part.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from mcp_server_qdrant.ingest.demo import TEXTS

HERE = Path(__file__).parent
COLLECTIONS = ("homelab", "recipes", "meetings")
LIMIT = 3

# Queries of queries.json, which also says where each is asked and what should come first.
SHOWN = (
    "what happens to the servers during a blackout",
    "dessert for someone with coeliac disease",
    "importing legacy member records without duplicates",
    "restoring a backup as a test every quarter",
    "the lentil dish we cooked for the team lunch",
    "KF-5031",
    "blocking social media for the kids in the evening",
    "certificate ran out and nobody noticed",
    "how long does the battery of the uninterruptible power supply last",
)

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
BOLD, DIM, GREEN, RED = ("1", "2", "32", "31")


class Failed(Exception):
    """A tool answered with an error."""


def paint(text: str, *codes: str) -> str:
    """The text in these ANSI styles, where a terminal shows it."""
    return f"\033[{';'.join(codes)}m{text}\033[0m" if COLOUR else text


def documents(collection: str) -> list[dict[str, Any]]:
    """The texts of one collection."""
    lines = (TEXTS / f"{collection}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def labelled() -> dict[str, dict[str, Any]]:
    """Query -> where it is asked and which documents answer it, best first."""
    queries = json.loads((HERE / "queries.json").read_text(encoding="utf-8"))
    return {query["query"]: query for query in queries}


def text_of(result: CallToolResult) -> str:
    """What an agent reads."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    """Call a tool; an error it answers with ends the demo."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise Failed(f"{tool} failed: {text_of(result)}")
    return result


async def store(client: Client) -> dict[str, str]:
    """Store every text; returns the titles by document id."""
    titles = {}
    for collection in COLLECTIONS:
        for document in documents(collection):
            titles[document["id"]] = document["title"]
            await call(
                client,
                "qdrant-store",
                information=document["text"],
                collection_name=collection,
                id=document["id"],
                title=document["title"],
                tags=document["tags"],
                metadata={**document["metadata"], "created_at": document["created_at"]},
            )
    return titles


def is_right(result: CallToolResult, title: str) -> bool:
    """Whether the document of this title came first and every collection took part."""
    content = result.structured_content or {}
    titles = [found.get("title") for found in content.get("results", [])]
    return titles[:1] == [title] and not content.get("collections")  # it names those that failed


async def ask(client: Client, label: dict[str, Any], titles: dict[str, str]) -> tuple[bool, float]:
    """Ask one query and print the answer; returns whether it is right and how long it took, ms."""
    query, where = label["query"], label["collections"]
    start = time.perf_counter()
    result = await call(client, "qdrant-find", query=query, collections=where, limit=LIMIT)
    took = (time.perf_counter() - start) * 1000
    expected = titles[label["expected"][0]]
    right = is_right(result, expected)
    mark = paint("✓", GREEN) if right else paint("✗", RED)
    print(f"\n{mark} {paint(query, BOLD)}  {paint(f'in {json.dumps(where)}, {took:.0f} ms', DIM)}")
    for line in text_of(result).splitlines():
        print(f"    {line}")
    if not right:
        print(paint(f"    expected first: {expected}; and an answer of every collection", RED))
    return right, took


async def demo(model_cache: str, folder: str) -> bool:
    """Run it all; returns whether every first hit was the expected one."""
    environment = {
        "QDRANT_LOCAL_PATH": folder,
        "FASTEMBED_CACHE_PATH": model_cache,
        "PYTHONUTF8": "1",
    }
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_server_qdrant"], env=environment, cwd=folder
    )
    labels = labelled()
    start = time.perf_counter()
    async with Client(server) as client:
        connected = time.perf_counter()
        titles = await store(client)
        stored = time.perf_counter()
        print(
            f"Server ready in {connected - start:.1f} s; {len(titles)} texts in "
            f"{len(COLLECTIONS)} collections stored in {stored - connected:.1f} s, "
            "the loading of the model included."
        )
        answers = [await ask(client, labels[query], titles) for query in SHOWN]
    right = sum(good for good, _ in answers)
    times = sorted(took for _, took in answers)
    print(
        f"\n{right} of {len(answers)} queries had the expected text first and every collection's "
        f"answer. A find took {times[len(times) // 2]:.0f} ms (median), {times[-1]:.0f} ms at most."
    )
    return right == len(answers)


def main() -> int:
    """The exit code."""
    if len(sys.argv) != 2:
        print("usage: python demo/run.py MODEL_CACHE (scripts/demo does everything)")
        return 2
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    cache, right = str(Path(sys.argv[1]).resolve()), False
    with tempfile.TemporaryDirectory(prefix="qdrant-demo-", ignore_cleanup_errors=True) as folder:
        try:
            right = asyncio.run(demo(cache, folder))
        except* (Failed, MCPError) as failures:
            print(*leaves(failures), sep="\n", file=sys.stderr)
    return 0 if right else 1


def leaves(error: BaseException) -> list[BaseException]:
    """The errors that a group of groups holds."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in leaves(part)]
    return [error]


if __name__ == "__main__":
    sys.exit(main())
