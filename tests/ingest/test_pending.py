"""Points that were stored without a model get their vector later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.app.services import VECTORLESS, Services, assemble
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import EncoderUnavailable, EngineUnavailable, Unforeseen
from mcp_server_qdrant.ingest.pending import BATCH, Backfill
from mcp_server_qdrant.qdrant.write.points import Points
from mcp_server_qdrant.tools.toolset import Options, make_tools
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    Engine,
    dense,
    find,
    foreign,
    make_settings,
    memory_engine,
    memory_services,
    registry,
    remember,
    said,
    states,
)


def backfill_of(services: Services) -> Backfill:
    return Backfill(
        services.catalog,
        Points(services.client, ("document",)),
        services.encoders,  # type: ignore[arg-type]
    )


@asynccontextmanager
async def with_pending(engine: Engine, encoder: FakeEncoder, count: int) -> AsyncIterator[Services]:
    """Services whose model came after so many texts."""
    encoder.be("failed")
    async with memory_services(encoder, engine=engine) as services:
        await remember(services, "notes", *(f"text {n}" for n in range(count)))
        encoder.be("ready")
        yield services


async def test_a_text_that_the_model_cannot_read_waits_for_no_vector(engine, encoder):
    encoder.unread = {"1"}
    async with with_pending(engine, encoder, 3) as services:
        await backfill_of(services).fill_all()
        points, _ = await engine.scroll("notes", limit=9, with_vectors=True)

    assert sorted(len(one.vector) for one in points) == [1, 2, 2]
    assert not any("pending" in one.payload["doc"] for one in points)


async def test_a_text_that_the_model_refuses_holds_up_no_other(engine):
    encoder, asked = FakeEncoder(), []
    async with with_pending(engine, encoder, BATCH + 3) as services:
        encode = encoder.vectors

        async def particular(texts):
            asked.append(texts)
            if "text 5" in texts:
                raise EncoderUnavailable("It is too long.")
            return await encode(texts)

        services.encoders.start_encoder("fake/Bag-of-Words").vectors = particular
        backfill = backfill_of(services)
        assert await backfill.fill_all() == BATCH + 2
        assert await backfill.fill_all() == 0
        left = await services.store.points.pending("notes", 10)

    assert [one.text for one in left] == ["text 5"]
    assert asked.count(["text 5"]) == 1  # of a text that is refused it is not asked again


async def test_while_vectors_are_made_an_answer_may_say_so(engine):
    encoder, told = FakeEncoder(), []
    async with with_pending(engine, encoder, BATCH + 1) as services:
        backfill = services.shared._backfill
        encode = encoder.vectors

        async def watched(texts):
            told.append(services.unfinished())
            return await encode(texts)

        services.encoders.start_encoder("fake/Bag-of-Words").vectors = watched
        assert await backfill.fill_all() == BATCH + 1
        assert services.unfinished() == {}
    assert told[0] == {}
    assert told[-1] == {"notes": f"notes: {VECTORLESS}"}


@pytest.mark.parametrize("model", ["ready", "failed"])
@pytest.mark.parametrize("again", [False, True])
async def test_a_text_that_is_stored_while_one_is_encoded_never_gets_its_vector(
    engine, model, again
):
    """Between the last look at the old text and the writing of its vector."""
    encoder, written = FakeEncoder(), engine.client.update_vectors
    encoder.be("failed")
    dated = {"id": "x", "created_at": datetime(2020, 1, 1, tzinfo=UTC)}
    async with memory_services(encoder, engine=engine) as services:
        await remember(services, "notes", "roses need sun", **dated)
        encoder.be("ready")

        async def late(*given, **how):
            engine.client.update_vectors = written
            encoder.be(model)
            if again:  # the new text is as old as the old one says to be
                await services.deletion.by_ids(await services.deletion.named(["x"]))
            await remember(services, "notes", "boats lie still", **dated)
            encoder.be("ready")
            await written(*given, **how)

        engine.client.update_vectors = late
        await backfill_of(services).fill_all()
        (record,), _ = await engine.scroll("notes", with_payload=True, with_vectors=True)

    assert record.payload["document"] == "boats lie still"
    assert "pending" not in record.payload["doc"]
    expected = dense("boats lie still")
    assert record.vector["fast-bag-of-words"] == pytest.approx(expected, abs=1e-6)


async def pending(engine: Engine, collection: str = "notes") -> int:
    records, _ = await engine.scroll(collection, limit=1000, with_payload=True, with_vectors=True)
    marked = [record for record in records if "pending" in (record.payload.get("doc") or {})]
    assert all("fast-bag-of-words" not in record.vector for record in marked)
    return len(marked)


async def test_they_wait_and_are_filled_once_the_model_is_there(engine, encoder, services):
    encoder.be("failed")
    await remember(services, "notes", "roses need sun", "moss needs shade", title="Garden")
    await remember(services, "recipes", "bread")
    with pytest.raises(EncoderUnavailable):
        await backfill_of(services).fill_all()
    assert await pending(engine) == 2
    encoder.be("ready")

    assert await backfill_of(services).fill_all() == 3
    assert await pending(engine) == 0

    page = await find(services, "Garden roses need sun", "*")

    assert states(page) == {"notes": "ok", "recipes": "ok"}
    assert page.results[0].relevance > 0.8
    assert set(encoder.documents) == {"Garden\nroses need sun", "Garden\nmoss needs shade", "bread"}


async def test_those_in_a_collection_of_another_tool_are_found_after_a_restart(
    engine, encoder, services
):
    await foreign(engine, "notes", {}, vectors={"fast-bag-of-words": COSINE})
    encoder.be("failed")
    await remember(services, "notes", "roses")
    # The local mode keeps no payload indexes, by which the mark is found on real engines.
    infos = services.catalog._infos
    services.catalog.forget("notes")
    await services.catalog.target("notes")
    infos["notes"].payload_schema["doc.pending"] = "keyword"
    encoder.be("ready")

    assert await backfill_of(services).fill_all() == 1
    assert await pending(engine) == 0


async def test_collections_without_the_mark_are_not_searched_for_it(engine, services):
    await foreign(engine, "old", {1: {"text": "t"}}, vectors={"fast-bag-of-words": COSINE})
    await services.catalog.resolve(["old"])  # it looks where the texts are
    engine.calls.clear()

    assert await backfill_of(services).fill_all() == 0
    assert ("scroll", "old") not in engine.calls


async def test_storing_without_a_model_wakes_the_background_fill():
    """The whole of it: the server's own background task, from a store to the filled vector."""
    encoder = FakeEncoder()
    async with memory_engine() as engine:
        services = assemble(make_settings(), engine, registry(encoder))  # type: ignore[arg-type]
        await settled(services)
        encode = encoder.vectors

        async def once_unavailable(texts):
            encoder.encode_documents = encode
            raise EncoderUnavailable("not yet")

        encoder.encode_documents = once_unavailable
        done = await services.store.store(NewDocument("roses"), "notes")
        await all_filled(engine)

        assert done.pending

        await services.close()


async def test_what_an_earlier_run_left_is_filled_after_the_start():
    encoder = FakeEncoder()
    encoder.be("failed")
    async with memory_engine() as engine:
        async with memory_services(encoder, engine=engine) as services:
            await remember(services, "notes", "roses")
        assert await pending(engine) == 1

        services = assemble(make_settings(), engine, registry(FakeEncoder()))  # type: ignore[arg-type]
        await all_filled(engine)

        await services.close()


async def all_filled(engine: Engine) -> None:
    """Until the background task has given every point its vector; fails after a minute."""
    async with asyncio.timeout(60):
        while await pending(engine):
            await asyncio.sleep(0)


async def settled(services: Services) -> None:
    """Until the background task waits for something to do."""
    for _ in range(200):
        await asyncio.sleep(0)
    assert services.shared.filling is not None
    assert not services.shared.filling.done()


async def test_the_background_fill_outlives_an_engine_that_fails():
    async with memory_engine() as engine:
        engine.broken[""] = EngineUnavailable("down")
        services = assemble(make_settings(), engine, registry(FakeEncoder()))  # type: ignore[arg-type]
        await settled(services)
        await services.close()

        assert services.shared.filling.cancelled()


async def test_a_read_only_server_fills_nothing():
    async with memory_engine() as engine:
        settings = make_settings(qdrant_read_only=True)
        services = assemble(settings, engine, registry(FakeEncoder()))  # type: ignore[arg-type]

        assert services.shared.filling is None

        await services.close()


async def test_what_nobody_foresaw_in_one_collection_does_not_stop_the_others(
    engine, encoder, services
):
    encoder.be("failed")
    await remember(services, "bad", "poison")
    await remember(services, "notes", "roses")
    encoder.be("ready")
    stumbling(encoder)
    with pytest.raises(Unforeseen, match="an unexpected OverflowError"):
        await backfill_of(services).fill_all()

    assert await pending(engine, "bad") == 1
    assert await pending(engine, "notes") == 0


def stumbling(encoder: FakeEncoder) -> None:
    """It stumbles over a poisonous text, in a way that nobody foresaw."""
    encode = encoder.encode_documents

    async def encode_documents(texts):
        if "poison" in texts:
            raise OverflowError("of nobody's making")
        return await encode(texts)

    encoder.encode_documents = encode_documents


async def test_a_filling_that_dies_is_told_by_qdrant_collections_and_begun_anew():
    encoder, pauses = FakeEncoder(), []
    encoder.be("failed")
    async with memory_engine() as engine:
        async with memory_services(encoder, engine=engine) as services:
            await remember(services, "notes", "poison")
        encoder = FakeEncoder()
        stumbling(encoder)
        services = assemble(make_settings(), engine, registry(encoder))  # type: ignore[arg-type]

        async def sleep(seconds: float) -> None:
            told = await listing.run({}, None)
            pauses.append((seconds, said(told), told.structured_content["notes"]))
            if len(pauses) == 2:
                del encoder.encode_documents
            await asyncio.sleep(0)

        async def opened() -> Services:
            return services

        (listing,) = (
            tool for tool in make_tools(opened, Options()) if tool.name == "qdrant-collections"
        )
        services.shared.tasks._sleep = sleep
        while await pending(engine):
            await asyncio.sleep(0)
        after = await listing.run({}, None)
        await services.close()

    died = "The adding of missing vectors stopped: an unexpected OverflowError; it starts again in"
    for (seconds, text, notes), expected in zip(pauses, (1, 2), strict=True):
        assert (seconds, notes) == (expected, [f"{died} {expected} s."])
        assert text.endswith(f"\nNote: {died} {expected} s.")
    assert "notes" not in after.structured_content
