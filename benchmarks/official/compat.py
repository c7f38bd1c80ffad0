"""The official server 0.8.1 and this one on the same collections, each with its own code.

    python benchmarks/official/compat.py [--official-python PATH] [--model-cache PATH]

Both work on one folder of qdrant-client's local mode, in turns: the official package with its
QdrantConnector in a process of its own, this one with its services over the same folder. Prints
one line per check and ends with 1 when one failed.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import servers

from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.app.process import local_models
from mcp_server_qdrant.app.services import Services, assemble
from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.qdrant.client import open_local_mode
from mcp_server_qdrant.settings.environment import Settings

SCRIPT = Path(__file__).with_name("official_side.py")

THEIRS: list[dict[str, Any]] = [
    {
        "content": "The wifi of the summer house is called Seagull and starts at seven.",
        "metadata": {"topic": "house", "tags": ["wifi", "summer"], "nested": {"room": [1, 2]}},
    },
    {"content": "Knead the rye dough for nine minutes.", "metadata": None},
    {"content": "Grüße aus Köln 🎉, die Brücke war gesperrt.", "metadata": {"größe": "5 €"}},
    {"content": "Invoice 4711 was paid on the third of March.", "metadata": {"paid": True, "n": 3}},
]
OURS = [
    NewDocument("The ladder is behind the greenhouse.", metadata={"place": "garden", "n": 7}),
    NewDocument("Oil the hinge of the cellar door each autumn.", tags=("house",), title="Hinge"),
]
THEIR_QUERIES = ["name of the wireless network", "how long to knead", "bridge in Köln", "4711"]
OUR_QUERIES = ["where is the ladder", "what about the cellar door"]


class Checks:
    """Counts and prints what holds and what does not."""

    def __init__(self) -> None:
        self.failed = 0

    def that(self, holds: bool, what: str, seen: Any = "") -> None:  # noqa: FBT001
        """Print the outcome of one check, and what was seen when it failed."""
        self.failed += not holds
        print(f"{'ok    ' if holds else 'not ok'} {what}{'' if holds else f': {seen!r}'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--official-python", type=Path, help="Python that has the official server")
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # what local mode leaves undone
    checks = Checks()
    cache = servers.model_cache(args.model_cache)
    with tempfile.TemporaryDirectory() as folder:
        official = Official(servers.official_python(args.official_python), Path(folder), cache)
        asyncio.run(theirs_here(checks, official))
        asyncio.run(ours_there(checks, official))
    sys.exit(1 if checks.failed else 0)


class Official:
    """The official package's connector on the folder, one process per action."""

    def __init__(self, python: Path, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.cache = cache
        self.python = python
        self._env = servers.official(python, folder, cache).environment()

    def store(self, collection: str, entries: Sequence[dict[str, Any]]) -> None:
        """Store as its tool does."""
        self._run("store", collection, entries)

    def find(self, collection: str, queries: Sequence[str]) -> list[list[dict[str, Any]]]:
        """The entries it finds for each query, best first."""
        return json.loads(self._run("find", collection, queries))

    def _run(self, action: str, collection: str, said: Any) -> str:
        command = [str(self.python), str(SCRIPT), action, str(self.folder), collection]
        done = subprocess.run(
            command, env=self._env, input=json.dumps(said), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"the official package failed:\n{done.stderr[-2000:]}")
        return done.stdout


@asynccontextmanager
async def ours(official: Official) -> AsyncIterator[Services]:
    """Our services over the same local-mode folder."""
    settings = Settings(qdrant_url=":memory:", fastembed_cache_path=official.cache)
    client = open_local_mode(official.folder)
    services = assemble(settings, client, open_encoders(settings, local_models()))
    try:
        yield services
    finally:
        await services.close()


async def theirs_here(checks: Checks, official: Official) -> None:
    """A collection that the official server wrote is found, read and written by ours."""
    official.store("theirs", THEIRS)
    async with ours(official) as services:
        infos = {info.name: info for info in await services.catalog.describe()}
        checks.that(infos["theirs"].points == len(THEIRS), "its collection is seen", infos)
        for entry, query in zip(THEIRS, THEIR_QUERIES, strict=True):
            best = await found_here(checks, services, "theirs", entry, query)
            got, *_ = await services.lookup.get([str(best.id)])
            checks.that(got[0].text == entry["content"], "read by its id", got)
        for new in OURS:
            done = await services.store.store(new, "theirs")
            checks.that(not done.created_collection, "written into its collection", done)
        for new, query in zip(OURS, OUR_QUERIES, strict=True):
            page = await services.pipeline.search(
                SearchRequest(query=query, collections=("theirs",))
            )
            checks.that(page.results[0].document.text == new.text, f"found: {query}", page.results)
    read_there(checks, official, "theirs")
    again = official.find("theirs", THEIR_QUERIES)
    texts = [found[0]["content"] for found in again]
    checks.that(texts == [e["content"] for e in THEIRS], "it still finds its own", texts)


async def ours_there(checks: Checks, official: Official) -> None:
    """A collection made by ours is found and written by the official server."""
    async with ours(official) as services:
        for new in OURS:
            await services.store.store(new, "ours")
    read_there(checks, official, "ours")
    official.store("ours", THEIRS)
    async with ours(official) as services:
        for entry, query in zip(THEIRS, THEIR_QUERIES, strict=True):
            await found_here(checks, services, "ours", entry, query)


async def found_here(
    checks: Checks, services: Services, collection: str, entry: Mapping[str, Any], query: str
) -> Document:
    """The best result of ours: what the official server stored, metadata included."""
    request = SearchRequest(query=query, collections=(collection,), mode="full")
    best = (await services.pipeline.search(request)).results[0].document
    checks.that(best.text == entry["content"], f"found in {collection}: {query}", best)
    checks.that((best.metadata or None) == entry["metadata"], "metadata intact", best)
    return best


def read_there(checks: Checks, official: Official, collection: str) -> None:
    """What ours wrote into the collection is found by the official server, metadata included."""
    for new, found in zip(OURS, official.find(collection, OUR_QUERIES), strict=True):
        checks.that(found[0]["content"] == new.text, f"it finds ours in {collection!r}", found[0])
        checks.that(found[0]["metadata"] == new.metadata, "with its metadata", found[0])


if __name__ == "__main__":
    main()
