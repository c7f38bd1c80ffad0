"""Documents by id, with their neighbours."""

import pytest

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import BackendError, EngineFailure
from mcp_server_qdrant.core.notation import as_point_id
from mcp_server_qdrant.qdrant.read.lookup import join_chunks
from tests.support import LONG, memory_engine, memory_services, remember

UUID = "6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7"


@pytest.fixture
async def services():
    async with memory_services() as services:
        yield services


def part(text: str, start: int, end: int, number: int = 0) -> Document:
    return Document(
        id=number, collection="c", text=text, document="d", chunk=number, start=start, end=end
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", 42),
        ("0", 0),
        (str(2**64 - 1), 2**64 - 1),
        (str(2**64), None),
        ("9" * 5000, None),
        ("-1", None),
        ("٤٢", None),
        (UUID, UUID),
        (UUID.upper(), UUID),
        (UUID.replace("-", ""), UUID),
        ("homelab/ups", None),
        ("", None),
    ],
)
def test_an_id_is_an_integer_or_a_uuid_or_a_callers_own(text, expected):
    assert as_point_id(text) == expected


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([("abcdef", 0, 6)], "abcdef"),
        ([("abcdef", 0, 6), ("efgh", 4, 8)], "abcdefgh"),  # what they share once
        ([("abcdef", 0, 6), ("ghi", 6, 9)], "abcdefghi"),
        ([("abc", 0, 3), ("def", 4, 7)], "abc def"),  # a space lay between
        ([("abc", 0, 3), ("def", 5, 8)], "abc\n\ndef"),  # more than one
        ([("abcdef", 0, 6), ("bcd", 1, 4), ("efgh", 4, 8)], "abcdefgh"),  # one inside another
    ],
)
def test_chunks_are_joined_without_what_they_share(chunks, expected):
    parts = [part(text, start, end, n) for n, (text, start, end) in enumerate(chunks)]
    whole = join_chunks(parts, parts[0])

    assert whole.text == expected
    assert (whole.start, whole.end) == (parts[0].start, max(p.end for p in parts))


@pytest.mark.parametrize("neighbours", [1, 2, 20])
async def test_neighbours_widen_it_to_one_text_without_repetition(neighbours, services):
    (stored,) = await remember(services, "notes", LONG)
    middle = len(stored.ids) // 2
    ((alone,), *_) = await services.lookup.get([stored.ids[middle]])
    ((found,), *_) = await services.lookup.get([stored.ids[middle]], neighbours=neighbours)

    assert len(stored.ids) > 4
    assert found.id == stored.ids[middle]
    assert alone.text in found.text
    assert found.text in LONG
    assert found.text == LONG[found.start : found.end]
    assert len(found.text) > len(alone.text)
    if neighbours == 20:
        assert found.text == LONG


async def test_of_a_long_document_as_many_chunks_are_joined_as_have_room(services):
    (stored,) = await remember(services, "notes", LONG, id="harbours")
    ((found,), *_) = await services.lookup.get(["harbours"], room=900)
    ((least,), *_) = await services.lookup.get(["harbours"], room=1)
    (first,), _ = await services.lookup.locate(["harbours"])
    size = sum(len(part.text) for part in await services.lookup.parts(first))
    ((whole,), *_) = await services.lookup.get(["harbours"], room=size)

    assert whole.text == LONG
    assert found.text == LONG[: found.end]
    assert len(found.text) <= 900
    assert (found.chunk, found.chunks) == (0, len(stored.ids))
    assert 0 < found.last < found.chunks - 1
    assert (least.last, LONG.startswith(least.text)) == (0, True)


async def test_what_is_asked_for_twice_comes_once(services):
    (stored,) = await remember(services, "notes", "a short text", id="a")
    ids = ["a", "a", stored.ids[0], stored.ids[0].upper()]
    found, missing, _ = await services.lookup.get(ids)

    assert [document.text for document in found] == ["a short text"]
    assert missing == []


async def test_the_hash_that_stands_for_an_id_is_one_too(services):
    (stored,) = await remember(services, "notes", "a short text")
    ((found,), *_) = await services.lookup.get([stored.document])

    assert found.text == "a short text"


async def test_several_ids_come_in_the_order_asked_and_missing_ones_are_left_out(services):
    await remember(services, "a", "one", id="first")
    await remember(services, "b", "two", id="second")
    (stored,) = await remember(services, "a", "three")
    found, *_ = await services.lookup.get(["second", stored.ids[0], "nowhere", UUID, "first"])

    assert [d.text for d in found] == ["two", "three", "one"]


async def test_the_same_document_id_in_two_collections_is_two_documents(services):
    await remember(services, "a", "one", id="same")
    await remember(services, "b", "two", id="same")

    assert {d.text for d in (await services.lookup.get(["same"]))[0]} == {"one", "two"}
    assert [d.text for d in (await services.lookup.get(["same"], collection="b"))[0]] == ["two"]


async def test_a_collection_that_cannot_be_read_hides_no_others():
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        await remember(services, "a", "one", id="x")
        await remember(services, "b", "two", id="y")
        engine.broken["a"] = EngineFailure("damaged")

        found, _, failures = await services.lookup.get(["y"])

    assert [d.text for d in found] == ["two"]
    assert failures == ["a: damaged"]


async def test_where_no_collection_answers_nothing_is_said_to_be_missing():
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        await remember(services, "a", "one", id="x")
        engine.broken["a"] = EngineFailure("damaged")

        with pytest.raises(BackendError, match="No collection could be read: a: damaged"):
            await services.lookup.get(["x"])


async def test_an_id_names_a_point_or_the_first_part_of_a_document(services):
    (stored,) = await remember(services, "notes", LONG, id="harbours")
    named = await services.lookup.find_in("notes", ["harbours", stored.ids[1], "nowhere", "7"])

    assert {wanted: document.chunk for wanted, document in named.items()} == {
        "harbours": 0,
        stored.ids[1]: 1,
    }
    assert {document.document for document in named.values()} == {"harbours"}
