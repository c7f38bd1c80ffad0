"""Store and find with the official server's own QdrantConnector. Runs with *its* Python.

    python official_side.py store FOLDER COLLECTION   < JSON list of {"content", "metadata"}
    python official_side.py find FOLDER COLLECTION    < JSON list of queries

`find` prints a JSON list: for each query the entries found. FOLDER is a local-mode folder.
"""

import asyncio
import json
import sys

from mcp_server_qdrant.embeddings.fastembed import FastEmbedProvider
from mcp_server_qdrant.qdrant import Entry, QdrantConnector

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


async def store(connector: QdrantConnector, entries: list[dict[str, object]]) -> None:
    for entry in entries:
        await connector.store(Entry(**entry))


async def find(connector: QdrantConnector, queries: list[str]) -> None:
    found = [await connector.search(query) for query in queries]
    print(json.dumps([[entry.model_dump() for entry in entries] for entries in found]))


async def main(action: str, folder: str, collection: str) -> None:
    provider = FastEmbedProvider(MODEL)
    connector = QdrantConnector(None, None, collection, provider, folder)
    try:
        await {"store": store, "find": find}[action](connector, json.load(sys.stdin))
    finally:
        await connector._client.close()  # noqa: SLF001


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
