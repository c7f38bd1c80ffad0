"""What one tenant's hostile calls do to the finds of another, over HTTP on the embedded engine.

    python benchmarks/load/hostile_neighbour.py [--seconds 10] [--model-cache PATH] [--only NAME]

Two tenants share a collection. One of them has a point with 3 MB of metadata, planted beneath all
limits as an earlier version would have stored it, and makes each attack from a process of its own,
many calls at once. Meanwhile the other asks one find after the other: its 95th percentile is told
in milliseconds and as a multiple of the quiet one. A find that fails, or is answered without a
collection or a leg, counts as failed.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import servers
from corpus import Writer
from http_caller import Caller
from qdrant_client import models

from mcp_server_qdrant.qdrant.edge.client import EdgeClient

NOTES = 200  # of each tenant
HEAVY = {f"{number:x}": 0 for number in range(300_000)}  # 3 MB of JSON
AT_ONCE = 8
GIVE_UP = 60.0
MOST = 250.0  # ms, p95 of each row


class Place(NamedTuple):
    """A running server: its port, its folder, and the tenants' tokens."""

    port: int
    folder: Path
    tokens: dict[str, str]


def conditions(count: int) -> dict[str, Any]:
    """A filter that no index answers and that nothing meets: each condition reads every payload."""
    return {"should": [{"key": f"metadata.z{n}", "match": {"value": "q"}} for n in range(count)]}


def find(**arguments: Any) -> tuple[str, dict[str, Any]]:
    return "qdrant-find", {"query": "lentil soup", "collection_name": "notes", **arguments}


WHERE = {"collection_name": "notes"}
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "64 conditions": find(query_filter=conditions(64)),
    "1,000 ids and values": find(
        query_filter={
            "must_not": [{"has_id": list(range(500))}],
            "must": [{"key": "metadata.x", "match": {"except": list(range(490))}}],
        }
    ),
    "256 conditions": find(query_filter=conditions(256)),
    "1,000 conditions": find(query_filter=conditions(1_000)),
    "40,000 conditions": find(query_filter=conditions(40_000)),
    "10,000 ids and values": find(
        query_filter={
            "must_not": [{"has_id": list(range(5_000))}],
            "must": [{"key": "metadata.x", "match": {"except": list(range(4_900))}}],
        }
    ),
    "whole payloads": find(mode="full", limit=100, tuning={"explain": True}),
    "counts by filter": ("qdrant-delete", {**WHERE, "query_filter": conditions(64)}),
    "maps": ("qdrant-project", {"collections": ["notes"], "query": "lentil soup"}),
    "stores of 60 KB metadata": (
        "qdrant-store",
        {
            **WHERE,
            "information": "lentil soup " * 2_000,
            "metadata": {f"{number:x}": 0 for number in range(6_000)},
            "id": "flood",
        },
    ),
    "4 MB of arguments": find(query_filter={"must": [1] * 2_000_000}),
}


async def attack(port: int, token: str, name: str, seconds: float) -> None:
    """Make the same call again and again, some at the same time."""
    tool, arguments = ATTACKS[name]
    until = time.monotonic() + seconds

    async def one() -> None:
        caller = Caller(port, token=token)
        while time.monotonic() < until:
            try:
                await asyncio.wait_for(caller.call(tool, arguments), GIVE_UP)
            except (OSError, EOFError, TimeoutError):
                await caller.close()

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*(one() for _ in range(AT_ONCE))), seconds)


async def victim(place: Place, seconds: float) -> tuple[list[float], int]:
    """Milliseconds of each find in so many seconds, and how many of them failed."""
    writer = Writer(time.monotonic_ns())
    caller = Caller(place.port, token=place.tokens["blue"])
    until = time.monotonic() + seconds
    took, failed = [], 0
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            arguments = {"query": writer.query(), **WHERE}
            status, result = await asyncio.wait_for(caller.call("qdrant-find", arguments), GIVE_UP)
            well = status == 200 and result is not None and not result.get("isError")
            failed += not (well and servers.complete(result or {}))
        except (OSError, EOFError, TimeoutError):
            failed += 1
            await caller.close()
        took.append((time.perf_counter() - began) * 1000)
    await caller.close()
    return took, failed


async def filled(place: Place) -> None:
    """Notes of both tenants."""
    writer = Writer(0)
    for token in place.tokens.values():
        caller = Caller(place.port, token=token)
        for number in range(NOTES):
            arguments = {**WHERE, "information": writer.text(), "metadata": {"number": number}}
            status, result = await caller.call("qdrant-store", arguments)
            assert status == 200, status
            assert result is not None, "no result"
            assert not result.get("isError"), result
        await caller.close()


async def plant(folder: Path) -> None:
    """The heavy point, past everything that would refuse it."""
    client = await EdgeClient.open(folder)
    (info,) = (await client.scroll("notes", limit=1, with_vectors=True))[0]
    payload = {"document": "lentil soup", "metadata": HEAVY, "tenant": "red", "tags": ["heavy"]}
    point = models.PointStruct(id=7, vector=info.vector, payload=payload)
    await client.upsert("notes", [point])
    await client.close()


@contextlib.contextmanager
def serving(folder: Path, cache: Path, tokens: dict[str, str]) -> Iterator[Place]:
    """A server of two tenants."""
    file = folder / "tokens.yaml"
    entries = [
        {
            "name": name,
            "sha256": hashlib.sha256(token.encode()).hexdigest(),
            "scopes": ["read", "write", "admin"],
            "claims": {"tenant": name},
        }
        for name, token in tokens.items()
    ]
    file.write_text(json.dumps(entries))
    file.chmod(0o600)
    own = {"AUTH_MODE": "token", "AUTH_TOKENS_FILE": str(file), "TENANT_FIELD": "tenant"}
    with servers.over_http(folder, cache, **own) as (port, _):
        yield Place(port, folder / "engine", tokens)


def row(name: str, took: list[float], failed: int, quiet: float | None) -> float:
    """Print one line; the 95th percentile."""
    p95 = statistics.quantiles(took, n=20)[-1] if len(took) > 1 else took[0]
    times = f"{p95 / quiet:6.1f} x" if quiet else " " * 8
    print(
        f"{name:26} {len(took):5} finds {failed:4} failed   p50 {statistics.median(took):8.1f}   "
        f"p95 {p95:8.1f} ms {times}   worst {max(took):8.1f}",
        flush=True,
    )
    return p95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--only", choices=list(ATTACKS), action="append")
    parser.add_argument("--attack", nargs=3, metavar=("PORT", "TOKEN", "NAME"))
    args = parser.parse_args()
    if args.attack:
        port, token, name = args.attack
        asyncio.run(attack(int(port), token, name, args.seconds))
        return
    cache = servers.model_cache(args.model_cache)
    tokens = {name: secrets.token_urlsafe(24) for name in ("red", "blue")}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with serving(folder, cache, tokens) as place:
            asyncio.run(filled(place))
        asyncio.run(plant(place.folder))
        with serving(folder, cache, tokens) as place:
            asyncio.run(victim(place, 3.0))
            worst = quiet = row("quiet", *asyncio.run(victim(place, args.seconds)), None)
        for name in args.only or ATTACKS:
            with serving(folder, cache, tokens) as place:
                asyncio.run(victim(place, 2.0))
                arguments = [str(place.port), tokens["red"], name]
                command = [sys.executable, __file__, "--seconds", str(args.seconds), "--attack"]
                attacker = subprocess.Popen([*command, *arguments])
                time.sleep(0.5)
                worst = max(worst, row(name, *asyncio.run(victim(place, args.seconds)), quiet))
                attacker.terminate()
                attacker.wait(10)
    print(
        f"\nworst p95 {worst:.0f} ms; at most {MOST:.0f}: {'met' if worst <= MOST else 'NOT met'}"
    )


if __name__ == "__main__":
    main()
