import json

import pytest

from tests.support import memory_services, remember

GERMAN = [
    "Der Kahn liegt am Steg, und wir haben ihn nicht mehr gestrichen, weil eine Farbe fehlt.",
    "Wenn der Kahn über den Winter draußen liegt, wird eine Plane gebraucht, oder einer hebt ihn.",
    "Wir können den Kahn auch in die Halle legen, dass eine Plane nicht gebraucht wird.",
]
ENGLISH = ["The ledger has been closed, which would have been done before with that account."] * 3


@pytest.mark.parametrize("reads", [True, False])
async def test_a_server_that_only_reads_keeps_no_folder_in_sync(reads, tmp_path):
    sources = json.dumps({str(tmp_path): "things"})
    async with memory_services(sync_sources=sources, qdrant_read_only=reads) as services:
        assert services.background.status().keys() == (set() if reads else {"things"})


async def test_a_collection_is_described_without_stop_words_of_its_own_language():
    async with memory_services() as services:
        await remember(services, "boote", *GERMAN)
        await remember(services, "books", *ENGLISH)
        unknown, _ = await services.describe_collections(["boote", "books"])
        assert unknown.description is None  # its words are counted in the background
        await services.lexicon.settled()
        boats, books = await services.describe_collections(["boote", "books"])

    assert (boats.description or "").startswith("kahn, ")
    told = {*(boats.description or "").split(", ")} | {*(books.description or "").split(", ")}
    assert told.isdisjoint({"eine", "dass", "wenn", "oder", "haben", "nicht", "which", "with"})
