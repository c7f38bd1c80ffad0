"""Five stdio clients of one service: memory, and how fast all answer again when it is killed.

    python benchmarks/load/five_clients.py [--model-cache PATH] [--kills 30] [--clients 5]

Each client is a process as an assistant starts it. They store and find without a pause while the
service is killed with SIGKILL at random moments; an answer counts once it came from all legs. At
the end every text whose storing was acknowledged is asked for by its id.
"""

import argparse
import itertools
import os
import random
import shutil
import signal
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import processes
import servers
from jsonrpc import ServerFailed, StdioServer

MOST = 450.0  # MB (PSS) of five clients and their service
AGAIN = 2.0  # seconds in which every client answers again
PATIENCE = 30.0


@dataclass
class Client:
    """One assistant: stores a text, finds it, and so on until told to stop."""

    number: int
    server: StdioServer
    acknowledged: list[str] = field(default_factory=list)
    refused: int = 0
    answers: list[tuple[float, float]] = field(default_factory=list)  # asked at, complete at
    degraded: int = 0

    def run(self, stop: threading.Event) -> None:
        """Store and find in turn."""
        texts = itertools.cycle(corpus.texts(2_000, seed=self.number))
        queries = itertools.cycle(corpus.queries(2_000, seed=self.number))
        for turn in itertools.count():
            if stop.is_set():
                return
            key = f"client{self.number}-{turn}"
            try:
                new = {"information": f"{next(texts)} {key}.", "id": key}
                self.server.call("qdrant-store", new)
                self.acknowledged.append(key)
            except ServerFailed:
                self.refused += 1
            asked = time.perf_counter()
            try:
                found = self.server.call("qdrant-find", {"query": next(queries)})
            except ServerFailed:
                self.refused += 1
                continue
            if servers.complete(found):
                self.answers.append((asked, time.perf_counter()))
            else:
                self.degraded += 1

    def missing(self) -> list[str]:
        """What was acknowledged and is not there."""
        gone: list[str] = []
        for first in range(0, len(self.acknowledged), 50):
            ids = self.acknowledged[first : first + 50]
            got = self.server.call("qdrant-get", {"ids": ids})
            gone += got["structuredContent"]["missing"]
        return gone


def main() -> None:
    """Measure, print, and end with status 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model-cache", type=Path)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--clients", type=int, default=5)
    options = parser.parse_args()
    folder = servers.BUILD / "bench" / "five"
    shutil.rmtree(folder, ignore_errors=True)
    contestant = servers.ours(folder / "engine", servers.model_cache(options.model_cache))
    contestant.env["QDRANT_CACHE_PATH"] = str(folder / "cache")
    clients = [Client(number, contestant.start()) for number in range(options.clients)]
    met = True
    try:
        met &= starts(clients)
        met &= memory(clients, contestant)
        met &= kills(clients, folder, options.kills)
    finally:
        for client in clients:
            client.server.stop()
    began = time.monotonic()
    while processes.marked(contestant.mark) and time.monotonic() - began < PATIENCE:
        time.sleep(0.1)
    left = processes.marked(contestant.mark)
    took = time.monotonic() - began
    print(f"\nservice gone {took:.1f} s after the last client: {verdict(not left)}")
    processes.await_end(contestant.mark)
    sys.exit(0 if met and not left else 1)


def starts(clients: list[Client]) -> bool:
    """Shake hands, and have each client store and find once."""
    hello, first = [], []
    for client in clients:
        client.server.handshake()
        hello.append(client.server.age)
    for client in clients:
        new = {
            "information": f"The first text of client {client.number}.",
            "id": f"first{client.number}",
        }
        client.server.call("qdrant-store", new)
        client.acknowledged.append(f"first{client.number}")
        while not servers.complete(client.server.call("qdrant-find", {"query": "first text"})):
            pass
        first.append(client.server.age)
    print(f"started together: hello after {worst(hello)} s, first find after {worst(first)} s")
    return True


def memory(clients: list[Client], contestant: servers.Contestant) -> bool:
    """What the pipes and the service hold, under load."""
    loaded(clients, 3.0)
    rows = [held(pid) for pid in processes.marked(contestant.mark)]
    print("\n| process | RSS MB | PSS MB |\n|---|---|---|")
    for title, rss, pss in rows:
        print(f"| {title} | {rss:.0f} | {pss:.0f} |")
    together = sum(pss for _, _, pss in rows)
    met = together <= MOST
    print(f"\nall together {together:.0f} MB (PSS); at most {MOST:.0f}: {verdict(met)}")
    return met


def held(pid: int) -> tuple[str, float, float]:
    """Title, RSS and PSS in MB."""
    fields = processes._rollup(pid)  # noqa: SLF001
    return processes._title(pid), fields["Rss"] / 1024, fields["Pss"] / 1024  # noqa: SLF001


def loaded(clients: list[Client], seconds: float) -> None:
    """All store and find for a while."""
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()


def kills(clients: list[Client], folder: Path, times: int) -> bool:
    """Kill under load, again and again; how long each client was without a complete answer."""
    stop, dice = threading.Event(), random.Random(5)
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    waits: list[float] = []
    killed = 0
    for round_ in range(times):
        time.sleep(dice.uniform(0.3, 1.2))
        at = time.perf_counter()
        killed += kill(folder / "engine")
        waits.append(max(answered(client, at) - at for client in clients))
        print(f"kill {round_ + 1:2}: all again after {waits[-1]:.2f} s", flush=True)
    stop.set()
    for thread in threads:
        thread.join()
    acknowledged = sum(len(client.acknowledged) for client in clients)
    lost = sum(len(client.missing()) for client in clients)
    print(
        f"\n{killed} kills of the service; {acknowledged} stores acknowledged, {lost} lost;"
        f" {sum(c.refused for c in clients)} calls refused,"
        f" {sum(c.degraded for c in clients)} finds by keyword only"
    )
    print(
        f"a complete answer for every client again after: median {statistics.median(waits):.2f} s,"
        f" worst {max(waits):.2f} s; target {AGAIN:.0f} s: {verdict(max(waits) <= AGAIN)}"
    )
    return lost == 0 and max(waits) <= AGAIN


def answered(client: Client, since: float) -> float:
    """When the client first had a complete answer to what it asked after `since`."""
    until = time.perf_counter() + PATIENCE
    while time.perf_counter() < until:
        if client.answers and client.answers[-1][0] >= since:
            return next(at for asked, at in client.answers if asked >= since)
        time.sleep(0.005)
    raise SystemExit(f"client {client.number} did not answer again within {PATIENCE:.0f} s")


def kill(folder: Path) -> bool:
    """SIGKILL the service of a folder; whether there was one."""
    pid = servers.service_pid(folder)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def worst(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} (slowest {max(seconds):.2f})"


def verdict(met: bool) -> str:  # noqa: FBT001
    return "met" if met else "NOT met"


if __name__ == "__main__":
    main()
