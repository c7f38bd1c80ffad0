"""The write path, on the local engine."""

import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import EncoderUnavailable, EngineFailure, RequestError
from mcp_server_qdrant.core.notation import NAMESPACE, point_id
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest import encoding
from mcp_server_qdrant.ingest.encoding import encoded_text
from mcp_server_qdrant.qdrant.payload import PENDING_KEY
from tests.made_secrets import KEYS
from tests.support import (
    COSINE,
    IDF,
    LONG,
    dense,
    find,
    foreign,
    memory_engine,
    memory_services,
    remember,
    states,
    texts,
)

SHORTER = LONG[: len(LONG) // 2]
OFFICIAL = {"fast-bag-of-words": COSINE}


@pytest.fixture
async def engine():
    async with memory_engine() as engine:
        yield engine


async def stored(engine, collection: str = "notes") -> list[models.Record]:
    records, _ = await engine.scroll(collection, limit=1000, with_payload=True, with_vectors=True)
    return records


def at(services, when: datetime) -> None:
    """Set the clock of the write path."""
    services.store.now = lambda: when


def test_a_points_id_is_a_uuid5_of_collection_document_and_chunk():
    expected = uuid.uuid5(NAMESPACE, "notes\x00d1\x003")

    assert point_id("notes", "d1", 3) == str(expected)
    assert str(NAMESPACE) == "6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7"  # never to be changed
    assert len({point_id(*place) for place in [("a", "b", 1), ("ab", "", 1), ("a", "b", 11)]}) == 3


async def test_a_text_is_written_in_the_official_format_with_both_vectors(engine, services):
    at(services, datetime(2026, 3, 1, 12, 30, 15, 999, tzinfo=UTC))
    (done,) = await remember(
        services,
        "notes",
        "roses need sun",
        metadata={"bed": 1},
        title="Roses",
        source="garden.md",
        tags=("plants",),
    )
    (record,) = await stored(engine)

    assert record.id == done.ids[0] == point_id("notes", done.document, 0)
    assert record.payload == {
        "document": "roses need sun",
        "metadata": {"bed": 1},
        "title": "Roses",
        "source": "garden.md",
        "tags": ["plants"],
        "created_at": "2026-03-01T12:30:15Z",
        "updated_at": "2026-03-01T12:30:15.000999Z",
        "doc": {
            "id": done.document,
            "chunk": 0,
            "chunks": 1,
            "start": 0,
            "end": 14,
            "date": "2026-03-01T12:30:15.000999Z",
        },
    }
    assert set(record.vector) == {"fast-bag-of-words", "bm25"}
    assert (done.created_collection, done.updated, done.pending) == (True, False, False)


@pytest.mark.parametrize("factor", [1, 3])
async def test_words_of_a_title_count_as_often_as_is_set_in_bm25_alone(
    engine, encoder, services, factor, monkeypatch
):
    """tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / 256)), of which idf makes the score."""
    monkeypatch.setattr(encoding, "TITLE_FACTOR", factor)
    await remember(services, "notes", "need sun", title="Roses")
    (point,) = await stored(engine)

    length = factor + 2
    norm = 1.2 * (0.25 + 0.75 * length / 256)
    expected = {word: tf * 2.2 / (tf + norm) for word, tf in (("roses", factor), ("sun", 1))}
    ids = {word: Bm25Encoder().tokens(word)[0] for word in expected}
    weights = dict(zip(point.vector["bm25"].indices, point.vector["bm25"].values, strict=True))
    assert {word: weights[ids[word]] for word in ids} == pytest.approx(expected)
    assert max(weights.values()) < 2.2
    assert encoder.documents == ["Roses\nneed sun"]


def test_a_text_without_title_is_encoded_as_it_is():
    assert encoded_text(Document(id=1, collection="c", text="t")) == "t"
    assert encoded_text(Document(id=1, collection="c", text="Title\n-----\nt")) == "Title\n\nt"
    assert encoded_text(Document(id=1, collection="c", text="t"), 3) == "t"


def test_of_a_long_title_the_start_is_encoded():
    long = Document(id=1, collection="c", text="t", title="Roses " * 40)
    start = ("Roses " * 40)[:120]

    assert encoded_text(long) == f"{start}\nt"
    assert encoded_text(long, 2) == f"{start}\n{start}\nt"


async def test_secrets_are_masked_in_text_title_tags_and_metadata_unless_that_is_off(
    engine, services
):
    given = {
        "title": "token=abc123def",
        "metadata": {"how": "--password hunter22x", "n": 1},
        "tags": ("red", "password=hunter22x"),
    }
    (done,) = await remember(services, "notes", "PASSWORD=correcthorse is it", **given)
    (again,) = await remember(services, "notes", "PASSWORD=correcthorse is it", **given)
    services.store.mask = False
    await remember(services, "other", "PASSWORD=correcthorse is it", **given)
    (record,), (other,) = await stored(engine), await stored(engine, "other")

    assert record.payload["document"] == "PASSWORD=[masked] is it"
    assert record.payload["title"] == "token=[masked]"
    assert record.payload["metadata"] == {"how": "--password [masked]", "n": 1}
    assert record.payload["tags"] == ["red", "password=[masked]"]
    assert (done.masked, again.ids) == (4, done.ids)
    assert other.payload["document"] == "PASSWORD=correcthorse is it"


@pytest.mark.parametrize("name", [KEYS["GitHub"], f"old-{KEYS['Stripe']}"])
async def test_a_new_name_that_holds_a_secret_is_refused_without_it(services, name):
    with pytest.raises(RequestError, match="The id contains a secret") as of_id:
        await remember(services, "notes", "roses", id=name)
    with pytest.raises(RequestError, match="name of the collection contains a secret") as of_place:
        await remember(services, name, "roses")

    assert name not in f"{of_id.value}{of_place.value}"
    assert not await services.catalog.exists(name)


async def test_the_same_text_twice_is_one_memory(engine, services):
    first, again = await remember(services, "notes", "roses", "roses")

    assert first.ids == again.ids
    assert (first.updated, again.updated) == (False, True)
    assert len(await stored(engine)) == 1


async def test_an_id_updates_what_it_names_keeps_what_is_left_out_and_removes_what_is_given_empty(
    engine, services
):
    given = {"metadata": {"v": 1}, "title": "Plan", "tags": ("bed",), "source": "a.md"}
    empty = {"metadata": {}, "title": "", "tags": (), "source": ""}
    await remember(services, "notes", "roses", id="plan", **given)
    (done,) = await remember(services, "notes", "moss", id="plan")
    (record,) = await stored(engine)
    (emptied,) = await remember(services, "notes", "roses", id="plan", **empty)
    (bare,) = await stored(engine)

    assert (done.updated, done.kept) == (True, ("metadata", "title", "source", "tags"))
    payload = {name: record.payload[name] for name in ("document", *given)}
    assert payload == {"document": "moss", **given, "tags": ["bed"]}
    assert (emptied.kept, bare.payload["metadata"]) == ((), {})
    assert not {"title", "tags", "source"} & set(bare.payload)


@pytest.mark.parametrize("point", [17, "6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7"])
async def test_the_id_of_another_tools_point_updates_that_point(engine, services, point):
    payload = {"document": "old", "metadata": {"v": 1}}
    await foreign(
        engine,
        "notes",
        {point: payload, 18: payload},
        vectors=OFFICIAL,
        values=lambda _: {"fast-bag-of-words": dense("old")},
    )
    (done,) = await remember(services, "notes", "roses", id=str(point))
    (again,) = await remember(services, "notes", "moss", id=str(point))
    ids = {record.id for record in await stored(engine)}
    ((found,), *_) = await services.lookup.get([str(point)])

    assert (done.updated, done.kept, again.updated) == (True, ("metadata",), True)
    assert ids == {18, *done.ids}
    assert (found.text, found.metadata) == ("moss", {"v": 1})


async def test_a_long_text_becomes_chunks_that_name_their_document(engine, services):
    (done,) = await remember(services, "notes", LONG, id="d")
    records = sorted(await stored(engine), key=lambda r: r.payload["doc"]["chunk"])

    docs = [record.payload["doc"] for record in records]
    assert [record.id for record in records] == list(done.ids)
    assert len(docs) > 5
    assert [doc["chunk"] for doc in docs] == list(range(len(docs)))
    assert {(doc["id"], doc["chunks"]) for doc in docs} == {("d", len(docs))}
    assert all(
        record.payload["document"] == LONG[doc["start"] : doc["end"]]
        for record, doc in zip(records, docs, strict=True)
    )


async def test_a_shorter_text_drops_the_chunks_that_it_lacks(engine, services):
    (before,) = await remember(services, "notes", LONG, id="d")
    await remember(services, "notes", "another", id="other")
    (after,) = await remember(services, "notes", SHORTER, id="d")
    ids = {record.id for record in await stored(engine)}

    assert len(after.ids) < len(before.ids)
    assert after.ids[0] == before.ids[0]
    assert not set(after.ids[1:]) & set(before.ids)
    assert ids == {*after.ids, point_id("notes", "other", 0)}


async def test_of_a_changed_text_only_the_changed_parts_are_encoded(engine, encoder, services):
    await remember(services, "notes", LONG, id="d")
    first = {one.payload["document"]: one.vector for one in await stored(engine)}
    encoder.documents.clear()
    (after,) = await remember(services, "notes", f"{LONG}\n\nThe end.", id="d")
    now = {one.payload["document"]: one.vector for one in await stored(engine)}

    assert 0 < len(encoder.documents) < len(after.ids)
    assert all(now[text] == first[text] for text in now.keys() & first.keys())
    assert now.keys() & first.keys()


# How many calls of the engine a store takes.
CALLS = {
    "new short": 6,
    "same short": 6,
    "changed short": 7,
    "new long": 9,
    "same long": 9,
    "changed long": 13,
}


async def test_a_store_asks_the_engine_no_more_often_than_it_must(engine, services):
    await remember(services, "notes", "warm", "warmer", id="warm")
    asked = dict[str, int]()
    for size, text in ("short", "a lamp"), ("long", LONG):
        for what, given in ("new", text), ("same", text), ("changed", f"{text} Again."):
            await services.catalog.target("notes")
            engine.calls.clear()
            await remember(services, "notes", given, id=size)
            calls = [name for name, _ in engine.calls if name != "query_batch_points"]
            asked[f"{what} {size}"] = len(calls)

    assert asked == CALLS


SAID = datetime(2020, 5, 1, 2, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("said", "created", "words"), [(None, "2026-01-01", []), (SAID, "2020-05-01", ["May"])]
)
async def test_an_update_keeps_when_it_was_created_which_a_caller_may_say(
    engine, services, said, created, words
):
    at(services, datetime(2026, 1, 1, tzinfo=UTC))
    await remember(services, "notes", "roses", id="d", created_at=said)
    (first,) = await stored(engine)
    at(services, datetime(2026, 2, 1, tzinfo=UTC))
    await remember(services, "notes", "moss", id="d")
    (second,) = await stored(engine)

    times = [
        [one.payload[f"{key}_at"][:10] for key in ("created", "updated")] for one in (first, second)
    ]
    assert times == [[created] * 2, [created, "2026-02-01"]]
    tokens = {*Bm25Encoder().tokens(" ".join(["moss", *words]))}
    assert tokens <= {*second.vector["bm25"].indices}
    assert said or tokens == {*second.vector["bm25"].indices}, "no date's words"


async def test_a_collection_of_another_tool_is_not_given_indexes(engine, services):
    await foreign(engine, "notes", {}, vectors=OFFICIAL)
    await remember(services, "notes", "roses")

    assert "create_payload_indexes" not in [name for name, _ in engine.calls]


async def test_a_name_near_an_existing_one_is_refused_and_that_one_named(engine, services):
    await remember(services, "notes", "roses")
    with pytest.raises(RequestError) as caught:
        await services.store.store(NewDocument("moss"), "noets")

    assert not await engine.collection_exists("noets")

    assert str(caught.value) == (
        "There is no collection 'noets': make it with create=true (command: --create), or store "
        "into 'notes', if that is what was meant."
    )


async def test_names_that_share_a_beginning_or_differ_by_a_number_or_a_last_letter_are_no_slips(
    services,
):
    names = {"about-taxes", "about-maps", "about-trains", "n-2023", "n-2024", "proj-a", "proj-b"}
    names |= {"notes", "notes-2"}
    for name in sorted(names):
        await services.store.store(NewDocument(name), name)

    for slip, meant in {"about_maps": "about-maps", "n2023": "n-2023"}.items():
        with pytest.raises(RequestError, match=f"into '{meant}', if that"):
            await services.store.store(NewDocument("moss"), slip)

    assert {*await services.catalog.names()} == names


async def test_the_officials_collection_is_written_with_its_own_vector_only(engine, services):
    await foreign(engine, "notes", {}, vectors=OFFICIAL)
    await remember(services, "notes", "roses need sun")
    (record,) = await stored(engine)
    page = await find(services, "roses need sun", "notes")

    assert set(record.vector) == {"fast-bag-of-words"}
    assert texts(page) == ["roses need sun"]


async def test_a_collection_of_keywords_alone_is_written_without_the_model(
    engine, encoder, services
):
    encoder.be("failed")
    await foreign(engine, "notes", {}, sparse={"bm25": IDF})
    (done,) = await remember(services, "notes", "roses need sun")
    page = await find(services, "roses", "notes")

    assert not done.pending
    assert states(page) == {"notes": "ok"}
    assert len(page.results) == 1


async def test_a_collection_of_another_size_is_not_written_to(engine, services):
    await foreign(engine, "notes", {}, vectors=COSINE.model_copy(update={"size": 3}))
    with pytest.raises(RequestError, match=r"'notes' cannot be written to: its dense vectors"):
        await remember(services, "notes", "roses")


async def test_a_collection_that_cannot_be_read_is_the_engines_failure(engine, services):
    await foreign(engine, "notes", {}, vectors=OFFICIAL)
    engine.broken_methods["get_collection"] = EngineFailure("Its files are damaged.")
    with pytest.raises(EngineFailure, match=r"^'notes' cannot be read: Its files are damaged\.$"):
        await remember(services, "notes", "roses")


async def test_without_a_model_the_text_is_found_by_keywords_and_marked(engine, encoder, services):
    encoder.be("downloading")
    (done,) = await remember(services, "notes", "roses need sun")
    (record,) = await stored(engine)
    page = await find(services, "roses", "notes")

    assert done.pending
    assert set(record.vector) == {"bm25"}
    assert record.payload["doc"]["pending"][0] == "dense"
    assert texts(page) == ["roses need sun"]
    assert states(page) == {"notes": "degraded"}


async def test_an_update_without_a_model_leaves_no_stale_vector(engine, encoder, services):
    """The old vector would find the new text by the old one's meaning."""
    await remember(services, "notes", "roses need sun", id="d")
    encoder.be("failed")
    await remember(services, "notes", "moss needs shade", id="d")
    (record,) = await stored(engine)

    assert set(record.vector) == {"bm25"}
    assert record.payload["doc"]["pending"][0] == "dense"


async def test_an_unnamed_vector_cannot_wait_for_the_model(engine, encoder, services):
    await foreign(engine, "notes", {}, vectors=COSINE)
    encoder.be("failed")
    with pytest.raises(EncoderUnavailable, match="is failed"):
        await remember(services, "notes", "roses")

    assert await stored(engine) == []


async def test_the_mark_is_indexed_where_another_tool_made_the_collection(
    engine, encoder, services
):
    await foreign(engine, "notes", {}, vectors=OFFICIAL)
    encoder.be("failed")
    await remember(services, "notes", "roses")
    indexed = [call for call in engine.calls if call[0] == "create_payload_indexes"]

    assert indexed == [("create_payload_indexes", "notes")]
    assert PENDING_KEY == "doc.pending"


async def test_texts_without_any_word_are_stored_too(engine, services):
    await remember(services, "notes", "!!! ??? ...", "🦄🦄")

    assert len(await stored(engine)) == 2


async def test_the_configured_default_collection_is_made_however_it_is_named():
    async with memory_services(collection_name="noets") as services:
        await remember(services, "notes", "roses")

        assert (await services.store.store(NewDocument("moss"), "noets")).created_collection


CODE = "  leading\n\n    def indented():\n        return 1\n\n\n"
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
MARKDOWN = "# Title\n\nA paragraph with   three spaces.\n\n- one\n- two\n\n```py\nx = 1\n```\n"
TEXTS = ((CODE + TABLE) * 30, MARKDOWN * 40, "\t\ttabs\n" * 300 + "end without newline")


@pytest.mark.parametrize("text", TEXTS)
async def test_a_long_text_comes_back_to_the_last_character(services, text):
    await services.store.store(NewDocument(text, id="x"), "notes")
    (found,), *_ = await services.lookup.get(["x"])

    assert found.text == text
