"""How long a hook of a client waits for `recall`, and how often it tells something.

    python benchmarks/speed/recall.py [--model-cache PATH] [--texts 1000] [--runs 100]
    python benchmarks/speed/recall.py --told MODEL_FOLDER

Told: of the prompts of `recall_prompts.json` with an answer among its notes and the demo's texts,
and of instructions without one, the shares that are told something; of each other one by itself,
for the thresholds were chosen on the first half.

Each run is the command as a client starts it, a session of its own: from the start of the process
to its end. The prompt is most of a stored note, so that a warm server has something to tell.
Cold: no server is running.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import servers
from opened import opened

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.ingest.demo import NAMES, store_demo
from mcp_server_qdrant.tools.recall import Recall

AT_ONCE = 300.0  # ms
COLD = 1_000.0  # ms
PROMPTS = Path(__file__).parent / "recall_prompts.json"
QUERIES = Path(__file__).parents[2] / "demo" / "queries.json"
KINDS = ("paraphrase", "cross", "recency", "typo")
TOLD, IN_VAIN = 0.80, 0.03
BUSY = 2


def recall(command: list[str], folder: Path, session: str, prompt: str) -> tuple[float, str]:
    """Milliseconds of one prompt's hook in this folder, and what it prints."""
    hook = {"hook_event_name": "UserPromptSubmit", "cwd": str(folder), "session_id": session}
    told = json.dumps(hook | {"prompt": prompt})
    asked = [*command, "recall", str(folder / "recall")]
    began = time.perf_counter()
    done = subprocess.run(asked, input=told, capture_output=True, text=True, check=True)
    return (time.perf_counter() - began) * 1_000, done.stdout


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that each take a whole core."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def main() -> None:
    """Measure, print, and end with status 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model-cache", type=Path)
    parser.add_argument("--texts", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--told", type=Path, metavar="MODEL_FOLDER")
    options = parser.parse_args()
    if options.told:
        raise SystemExit(asyncio.run(tell(options.told.resolve())))
    cache = servers.model_cache(options.model_cache)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        missed = measure(Path(made), cache, options.texts, options.runs)
    raise SystemExit(missed)


async def tell(model: Path) -> bool:
    """Print how many of both kinds of prompts are told something; whether a target is missed."""
    sets = json.loads(PROMPTS.read_text("utf-8"))
    there = [one["prompt"] for one in sets["with_an_answer"]]
    demo = [one for one in json.loads(QUERIES.read_text("utf-8")) if one["category"] in KINDS]
    there += [one["query"] for one in demo][: 100 - len(there)]
    async with opened(model) as services:
        for name in NAMES:
            await store_demo(services.store, name)
        for note in sets["notes"]:
            await services.store.store(NewDocument(note), "memory", create=True)

        async def shared() -> Services:
            return services

        recall, missed = Recall(shared), False
        kinds = {"with an answer": there, "without one": sets["without"]}
        for kind, prompts in kinds.items():
            told = []
            for number, prompt in enumerate(prompts):
                hook = {"hook_event_name": "UserPromptSubmit", "cwd": "/", "prompt": prompt}
                told.append(bool(await recall.tell(hook | {"session_id": f"{kind} {number}"})))
            halves = [sum(told[n::2]) / len(told[n::2]) for n in (0, 1)]
            print(f"{kind:16} told {halves[0]:.0%} of the first half, {halves[1]:.0%} of the other")
            answered = kind == "with an answer"
            missed |= halves[1] < TOLD if answered else halves[1] > IN_VAIN
    return missed


def measure(folder: Path, cache: Path, number: int, runs: int) -> bool:
    """Print the figures; whether a target is missed."""
    texts = corpus.texts(number)
    ours = servers.ours(folder / "engine", cache, {})
    own = {**ours.environment(), "QDRANT_CACHE_PATH": str(folder / "cache")}
    own["QDRANT_RECALL_PATH"] = str(folder / "recall")
    (folder / "notes.jsonl").write_text("".join(f"{json.dumps({'text': t})}\n" for t in texts))
    command = [sys.executable, "-P", "-m", "mcp_server_qdrant"]
    fill = [*command, "ingest", str(folder / "notes.jsonl"), "--collection", servers.COLLECTION]
    subprocess.run(fill, env=own, check=True, capture_output=True)
    # Texts of files are recalled only in the folder that their collection belongs to.
    place = [*command, "describe", servers.COLLECTION, "--folder", str(folder)]
    subprocess.run(place, env=own, check=True, capture_output=True)
    prompts = [" ".join(text.split()[:-2]) for text in texts]

    def figures(name: str, target: float) -> bool:
        rows = [
            recall(command, folder, f"{name}-session-{n}", prompts[n % number]) for n in range(runs)
        ]
        times = sorted(one for one, _ in rows)
        p50, p95 = statistics.median(times), times[int(0.95 * (runs - 1))]
        told = sum(bool(text) for _, text in rows) / runs
        print(f"{name:12} p50 {p50:6.0f} ms  p95 {p95:6.0f} ms  answered {told:.0%}", flush=True)
        return p95 > target

    missed = figures("cold", COLD)
    server = servers.StdioServer(command, own, folder, folder / "log")
    server.handshake()
    while not servers.complete(server.call("qdrant-find", {"query": texts[0]})):
        time.sleep(0.1)
    missed |= figures("warm", AT_ONCE)
    with busy(BUSY):
        figures("warm, busy", AT_ONCE)
    server.stop()
    with busy(BUSY):
        missed |= figures("cold, busy", COLD)
    return missed


if __name__ == "__main__":
    main()
