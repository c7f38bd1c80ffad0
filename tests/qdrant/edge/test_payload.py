"""What a search reads of heavy payloads."""

import pytest

from mcp_server_qdrant.core.notation import PARTIAL
from mcp_server_qdrant.hosting.wire import pack
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.payload import HEAVY, lightened
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions
from mcp_server_qdrant.qdrant.payload import paths, read
from tests.support import COSINE, dense, find, foreign, memory_services, texts

FIELDS = ("document", "text")
READ = paths(FIELDS, "created_at", "tenant.name")
DEEP = {"a": {"b": [{"c": 1}] * 9}}


@pytest.mark.parametrize("light", [None, {}, {"text": "x", "metadata": DEEP}])
def test_a_light_payload_is_left_alone(light):
    (alone,) = lightened([light], READ)
    beside_a_heavy_one, _ = lightened([light, {"text": "x" * HEAVY}], READ)

    assert alone is light
    assert beside_a_heavy_one is light


def test_where_all_is_wanted_a_heavy_one_is_too():
    heavy = {"text": "x" * HEAVY}

    assert lightened([heavy], None)[0] is heavy


def test_of_a_heavy_one_the_search_reads_what_it_would_read_of_the_whole():
    whole = {
        "document": "roses",
        "metadata": {"big": list(range(HEAVY)), "title": "Beds", "created_at": "2024-01-01"},
        "tags": ["a", "b", {"c": 1}],
        "source": "shed",
        "tenant": {"name": "red", "secret": "x" * 99},
        "doc": {"id": "d", "chunk": 1, "chunks": 3, "start": 5, "end": 9, "file": {"path": "p"}},
    }
    (part,) = lightened([whole], READ)

    assert part.pop(PARTIAL) is True
    assert part == {
        "document": "roses",
        "metadata": {"title": "Beds", "created_at": "2024-01-01"},
        "tags": ["a", "b"],
        "source": "shed",
        "tenant": {"name": "red"},
        "doc": {"id": "d", "chunk": 1, "chunks": 3, "start": 5, "end": 9},
    }
    seen, all_of_it = (read("c", 1, payload, FIELDS) for payload in (part, whole))
    for field in ("text", "title", "source", "document", "chunk", "chunks", "start", "end"):
        assert getattr(seen, field) == getattr(all_of_it, field)


def test_what_is_read_is_light_whatever_the_payload_holds():
    many = ["t" * 9_000] * 9_000
    heavy = {"document": "x" * 2_000_000, "tags": many, "title": many, "doc": dict.fromkeys("abc")}
    heavy["metadata"] = {"tags": many, "title": {"a": "x" * 2_000_000}, "name": [[[]]]}
    heavy["doc"] |= {f"k{n}" * 999: "v" * 9_999 for n in range(999)}

    assert len(pack(lightened([heavy], READ))) < 20_000 + 8 * 256 * 1_000


METADATA = {f"{n:x}": [n, {"deep": str(n)}] for n in range(20_000)}


async def test_a_find_shows_all_of_what_it_read_in_part(tmp_path):
    payloads = {
        1: {"document": "roses need sun", "metadata": METADATA, "title": "Beds"},
        2: {"document": "roses need water", "metadata": {"n": 2}},
        3: {"heavy": METADATA, "roses": "x"},
    }
    client = await EdgeClient.open(tmp_path, timeout=20, options=EdgeOptions(idle_seconds=1))
    vector = "fast-bag-of-words"
    await foreign(
        client,
        "notes",
        payloads,
        vectors={vector: COSINE},
        values=lambda n: {vector: dense("roses need sun" if n < 3 else "roses")},
    )
    read = spied(client)
    async with memory_services(engine=client, qdrant_url=None) as services:
        minimal = await find(services, "roses need sun", "notes")
        full = await find(services, "roses need sun", "notes", mode="full")

    assert set(texts(minimal)[:2]) == {"roses need sun", "roses need water"}
    shown = {one.document.id: one.document for one in full.results}
    assert shown[1].metadata == METADATA
    assert shown[1].title == "Beds"
    assert shown[2].metadata == {"n": 2}
    assert "payload keys: heavy, roses" in texts(minimal)[2], "one without text tells its keys"
    assert read == [[3], [1, 3]], "and nothing else is read in whole"


def spied(client: EdgeClient) -> list[list[int]]:
    """The points whose payloads are read in whole."""
    read, hybrid = [], client.hybrid

    async def spy(question, asked, *arguments, **rest):
        if question == "payloads" and arguments == (None,):
            read.append(sorted(point for _, ids in asked for point in ids))
        return await hybrid(question, asked, *arguments, **rest)

    client.hybrid = spy
    return read
