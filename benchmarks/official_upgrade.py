"""A collection of the official server 0.8.1 upgraded while it is searched, and read by it still.

    python benchmarks/official_upgrade.py [--official-python PATH] [--model-cache PATH] [--texts N]

The real 0.8.1 stores the texts, in its own environment. Then, each on a copy of its folder:

1. local mode: upgraded in place while this server's search goes on in it all the time; 0.8.1 finds
   in it what it found before, and stores into it.
2. embedded engine: this server starts on the folder and imports it; the old files stay as they are.
3. embedded engine, dense vectors only: `mcp-server-qdrant upgrade` in a process of its own, while a
   running server is searched over stdio; 0.8.1 finds what it found before in a copy of it.

Prints one line per check and ends with 1 when one failed.
"""

import argparse
import asyncio
import hashlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corpus
import servers
from jsonrpc import ServerFailed, StdioServer
from official_compat import Checks, Official
from qdrant_client import AsyncQdrantClient

from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.app.services import wire
from mcp_server_qdrant.app.upkeep import upgrades_of
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.environment import Settings

NAME = servers.COLLECTION
QUERIES = corpus.queries(20)
RARE = "The spare key of the boathouse hangs at hook ZX4711QB."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--official-python", type=Path, help="Python that has the official server")
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    parser.add_argument("--texts", type=int, default=600)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # what local mode leaves undone
    checks = Checks()
    cache = servers.model_cache(args.model_cache)
    python = servers.official_python(args.official_python)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        written = Path(place) / "written"
        official = Official(python, written, cache)
        entries = [{"content": text, "metadata": None} for text in corpus.texts(args.texts)]
        official.store(NAME, [*entries, {"content": RARE, "metadata": {"n": 1}}])
        for part in (in_local_mode, on_import, over_stdio):
            print(f"--- {part.__doc__}")
            folder = Path(place) / part.__name__
            shutil.copytree(written, folder)
            part(checks, Official(python, folder, cache))
    sys.exit(1 if checks.failed else 0)


def texts_found(official: Official, queries: Sequence[str]) -> list[list[str]]:
    return [[entry["content"] for entry in found] for found in official.find(NAME, queries)]


def in_local_mode(checks: Checks, official: Official) -> None:
    """In local mode, in one process."""
    before = texts_found(official, QUERIES)
    asyncio.run(upgrade_while_searching(checks, official))
    after = texts_found(official, QUERIES)
    checks.that(after == before, "0.8.1 finds what it found before")
    official.store(NAME, [{"content": "Stored by 0.8.1 afterwards.", "metadata": None}])
    (found,) = texts_found(official, ["stored afterwards"])
    checks.that(found[0] == "Stored by 0.8.1 afterwards.", "0.8.1 stores into it", found)


async def upgrade_while_searching(checks: Checks, official: Official) -> None:
    settings = Settings(
        qdrant_url=":memory:", fastembed_cache_path=official.cache, qdrant_read_only=True
    )
    client = AsyncQdrantClient(path=str(official.folder))
    services = wire(settings, client, open_encoders(settings))
    await services.encoders.default.ready(60)

    async def search(query: str) -> Any:
        return await services.pipeline.search(SearchRequest(query=query, collections=(NAME,)))

    ids = [one.document.id for one in (await search(QUERIES[0])).results]
    pages, stop = [], asyncio.Event()

    async def keep_searching() -> None:
        while not stop.is_set():
            services.catalog.forget(NAME)  # as late as it can notice: at once
            pages.append(await search(QUERIES[0]))

    searching = asyncio.ensure_future(keep_searching())
    began = time.perf_counter()
    bulk = Bulk(client, settings.qdrant_content_fields)
    done = await upgrades_of(settings, bulk, lambda *_: None).keywords(NAME)
    took = time.perf_counter() - began
    stop.set()
    await searching
    states = {status.state for page in pages for status in page.statuses}
    print(f"       {done.points} points in {took:.1f} s, {len(pages)} searches meanwhile")
    checks.that(states == {"ok"}, "no search failed", states)
    same = [[one.document.id for one in page.results] == ids for page in pages[:-1]]
    checks.that(all(same), "each found what it found before", same.count(False))
    services.catalog.forget(NAME)
    best = (await search("ZX4711QB")).results[0]
    checks.that(best.document.text == RARE, "found by a word afterwards", best)
    checks.that((await services.catalog.target(NAME)).sparse is not None, "hybrid afterwards")
    await services.close()


def on_import(checks: Checks, official: Official) -> None:
    """On start of this server."""
    before = hashes(official.folder)
    began = time.perf_counter()
    with serving(official) as server:
        listed = collections(server)
        print(f"       listed after {time.perf_counter() - began:.1f} s: {listed[0].get('note')}")
        checks.that(listed[0]["legs"] == ["dense", "bm25"], "hybrid at once", listed)
        found = servers.our_texts(server.call("qdrant-find", {"query": "ZX4711QB"}))
        checks.that(found[0] == RARE, "found by a word", found)
    checks.that(hashes(official.folder) == before, "the old files are untouched")
    checks.that(bool(texts_found(official, QUERIES)[0]), "0.8.1 goes on with them")


def over_stdio(checks: Checks, official: Official) -> None:
    """Over stdio, upgraded by another process."""
    old, before = official.folder, texts_found(official, QUERIES)
    official = Official(official.python, old.with_name("engine"), official.cache)
    print("      ", command(official, "copy", NAME, "--from", str(old)).strip())
    with serving(official) as server:
        checks.that(collections(server)[0]["legs"] == ["dense"], "dense only at first")
        failures, counted, done = [], [0], threading.Event()

        def keep_searching() -> None:
            while not done.is_set():
                counted[0] += 1
                try:
                    result = server.call("qdrant-find", {"query": QUERIES[counted[0] % 20]})
                except ServerFailed as error:
                    failures.append(error)
                else:
                    failures.extend([] if servers.complete(result) else [result])

        searching = threading.Thread(target=keep_searching)
        searching.start()
        print("      ", command(official, "upgrade", NAME).strip())
        done.set()
        searching.join()
        checks.that(not failures, f"none of {counted[0]} searches failed", failures[:1])
    with serving(official) as server:
        checks.that(collections(server)[0]["legs"] == ["dense", "bm25"], "hybrid afterwards")
        found = servers.our_texts(server.call("qdrant-find", {"query": "ZX4711QB"}))
        checks.that(found[0] == RARE, "found by a word afterwards", found)
    back = Official(official.python, old.with_name("back"), official.cache)
    back.store("other", [{"content": "This makes the folder.", "metadata": None}])
    print("      ", command(official, "copy", NAME, "--to", str(back.folder)).strip())
    checks.that(texts_found(back, QUERIES) == before, "0.8.1 finds what it found before")


class serving:  # noqa: N801
    """A server of ours on the official one's folder."""

    def __init__(self, official: Official) -> None:
        self._contestant = servers.ours(official.folder, official.cache, {})

    def __enter__(self) -> StdioServer:
        self._server = self._contestant.start()
        self._server.handshake()
        return self._server

    def __exit__(self, *_: object) -> None:
        self._server.stop()


def collections(server: StdioServer) -> list[dict[str, Any]]:
    return server.call("qdrant-collections", {})["structuredContent"]["collections"]


def command(official: Official, *arguments: str) -> str:
    ours = servers.ours(official.folder, official.cache)
    done = subprocess.run(
        [*ours.command, *arguments], env=ours.environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{arguments[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def hashes(folder: Path) -> dict[str, str]:
    kept = [folder / "meta.json", *(folder / "collection").rglob("*.sqlite")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


if __name__ == "__main__":
    main()
