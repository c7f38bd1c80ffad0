"""`upgrade --model` on 10,000 points of the embedded engine, beside the model alone, under search.

    python benchmarks/upgrade.py [--points 10000] [--model-cache PATH]

The second model has the files of the default one under another name, so that its time is known.
Before and after, the model alone reads texts like those that are stored; meanwhile a server is
asked once a second. Seconds of the processor tell more than those of the clock where the machine
has other work too. Linux only.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import corpus
import numpy as np
import servers
from fill_ours import Notes, fill
from processes import marked

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.settings.environment import Settings

HERE = servers.BUILD / "bench" / "upgrade"
MODEL = "BAAI/bge-small-en-v1.5"
REPO, FILE = "models--Qdrant--bge-small-en-v1.5-onnx-Q", "model_optimized.onnx"
ALONE = 300  # texts that the model reads by itself, before and after
FINDS = 50  # before and after
PAUSE = 1.0


def with_second_model(cache: Path) -> Path:
    """A fastembed cache with both models."""
    made = HERE / "models"
    shutil.copytree(cache, made, symlinks=False)
    (files,) = made.glob("models--Qdrant--all-MiniLM-L6-v2-onnx/snapshots/*")
    second = made / REPO / "snapshots" / files.name
    shutil.copytree(files, second)
    (second / "model.onnx").rename(second / FILE)
    shutil.copytree(files.parents[1] / "refs", made / REPO / "refs")
    return made


def processor(mark: str) -> float:
    """Seconds of the processor that the processes of this benchmark took until now."""
    ticks = 0
    for pid in {*marked(mark), os.getpid()}:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # its own and those of its children that ended
    return ticks / os.sysconf("SC_CLK_TCK")


async def alone(texts: list[str], mark: str) -> tuple[float, float]:
    """Seconds for a text by the clock and of the processor."""
    services = await open_lazily(Settings())
    try:
        encoder = services.encoders.of(MODEL)
        assert await encoder.ready(120)
        started, worked = time.perf_counter(), processor(mark)
        await encoder.encode_documents(texts)
        seconds = time.perf_counter() - started
        return seconds / len(texts), (processor(mark) - worked) / len(texts)
    finally:
        await services.close()


def asked(contestant: servers.Contestant, server, queries: list[str], until) -> list[float]:
    """Milliseconds of finds, one after the other with pauses, until it says so."""
    times = []
    while not until(len(times)):
        started = time.perf_counter()
        answer = contestant.find(server, queries[len(times) % len(queries)])
        times.append(1000 * (time.perf_counter() - started))
        assert answer["structuredContent"]["results"]
        assert servers.complete(answer)
        time.sleep(PAUSE)
    return times


def size(folder: Path) -> float:
    return sum(f.stat().st_blocks * 512 for f in folder.rglob("*") if f.is_file()) / 1e6


def told(name: str, times: list[float]) -> None:
    p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(f"{name}: {len(times)} finds, p50 {p50:.1f} ms, p95 {p95:.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    arguments = parser.parse_args()
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir(parents=True)
    contestant = servers.ours(
        HERE / "engine", with_second_model(servers.model_cache(arguments.model_cache))
    )
    env = contestant.environment() | {"QDRANT_CACHE_PATH": str(HERE / "cache")}
    os.environ.update({k: env[k] for k in env.keys() - {"PATH", "HOME"}})
    rows = np.random.default_rng(1).standard_normal((arguments.points, corpus.DIMENSIONS))
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    notes = Notes(
        corpus.texts(arguments.points),
        [corpus.metadata(number) for number in range(arguments.points)],
        vectors,
    )
    asyncio.run(fill(HERE / "engine", {servers.COLLECTION: notes}))
    queries = corpus.queries(50)
    rates = [asyncio.run(alone(corpus.texts(ALONE, 2), contestant.mark))]
    server = contestant.start()
    try:
        server.handshake()
        asked(contestant, server, queries, lambda done: done >= 5)  # to get warm
        told("before", asked(contestant, server, queries, lambda done: done >= FINDS))
        before = size(HERE / "engine")
        started, worked = time.perf_counter(), processor(contestant.mark)
        command = [sys.executable, "-m", "mcp_server_qdrant", "upgrade", servers.COLLECTION]
        upgrade = subprocess.Popen(
            [*command, "--model", MODEL], env=env, stdout=subprocess.PIPE, text=True
        )
        during = asked(contestant, server, queries, lambda _: upgrade.poll() is not None)
        seconds = time.perf_counter() - started
        worked = processor(contestant.mark) - worked
        told("meanwhile", during)
        print(upgrade.stdout.read().strip())
        assert upgrade.returncode == 0
        asked(contestant, server, queries, lambda done: done >= 5)
        told("after", asked(contestant, server, queries, lambda done: done >= FINDS))
    finally:
        server.stop()
    rates.append(asyncio.run(alone(corpus.texts(ALONE, 3), contestant.mark)))
    clock, work = (statistics.mean(each) * arguments.points for each in zip(*rates, strict=True))
    print(
        f"{arguments.points} points in {seconds:.0f} s, the model alone {clock:.0f} s; processor "
        f"{worked:.0f} s, the model alone {work:.0f} s; "
        f"disk {before:.0f} -> {size(HERE / 'engine'):.0f} MB"
    )


if __name__ == "__main__":
    main()
