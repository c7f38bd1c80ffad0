"""qdrant-delete as a client sees it, on both engines."""

import re
from typing import Any

from mcp import Client

from mcp_server_qdrant.app.services import assemble
from mcp_server_qdrant.core.errors import DiskFull, EngineFailure
from mcp_server_qdrant.core.notation import short_id
from mcp_server_qdrant.ingest import delete as deletion
from mcp_server_qdrant.qdrant.read import points
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    LONG,
    Engine,
    dense,
    first_point,
    foreign,
    make_settings,
    memory_server,
    parts_of,
    refusal,
    registry,
    remember,
    said,
)

ALL: dict[str, Any] = {}
RED = {"must": [{"key": "metadata.colour", "match": {"value": "red"}}]}


async def store(client: Client, text: str, collection: str = "notes", **arguments: Any) -> str:
    """Store a text; the id of its first point."""
    return await first_point(client, await put(client, text, collection, **arguments))


async def put(client: Client, text: str, collection: str = "notes", **arguments: Any) -> Any:
    arguments |= {"information": text, "collection_name": collection, "create": True}
    result = await client.call_tool("qdrant-store", arguments)
    assert not result.is_error, said(result)
    return result


async def colours(client: Client, red: int = 4, blue: int = 2) -> None:
    for colour, count in (("red", red), ("blue", blue)):
        for number in range(count):
            await store(client, f"a {colour} thing {number}", metadata={"colour": colour})


async def delete(client: Client, **arguments: Any) -> Any:
    return await client.call_tool("qdrant-delete", arguments)


async def deleted(client: Client, **arguments: Any) -> dict[str, Any]:
    result = await delete(client, **arguments)
    assert not result.is_error, said(result)
    return result.structured_content


async def count(engine: Engine, collection: str = "notes") -> int:
    return (await engine.count(collection)).count


class TestByIds:
    async def test_a_found_point_and_an_own_id_delete_their_documents(self, engine):
        async with memory_server(engine=engine) as client:
            point = await store(client, "roses are red")
            await store(client, "violets are blue", id="flower")
            await store(client, "grass is green")

            result = await delete(client, ids=[point, "flower"])
            found = await client.call_tool("qdrant-find", {"query": "roses violets grass"})

        *lines, kept = said(result).splitlines()
        assert lines == [
            f"Deleted: notes (id {short_id(point)}) · roses are red",
            "Deleted: notes (id flower) · violets are blue",
        ]
        versions = [one["version"] for one in result.structured_content["documents"]]
        assert kept == (
            f"Note: kept 30 days: id {', '.join(versions)}; "
            "qdrant-store with only that id restores it."
        )
        assert [one["text"] for one in found.structured_content["results"]] == ["grass is green"]
        assert await count(engine) == 1

    async def test_the_id_of_any_part_deletes_the_whole_document(self, engine):
        async with memory_server(engine=engine) as client:
            await store(client, LONG, id="long")
            *_, last = parts = await parts_of(engine, "long")
            await store(client, "roses are red")

            done = await delete(client, ids=[last])

        assert len(parts) > 2
        assert said(done).startswith(f"Deleted: notes (id long, {len(parts)} parts) · Sentence")
        (one,) = done.structured_content["documents"]
        assert one.pop("version").startswith("long@")
        assert one == {"collection": "notes", "id": "long", "points": len(parts)}
        assert await count(engine) == 1

    async def test_two_parts_of_a_document_are_one_document(self, engine):
        async with memory_server(engine=engine) as client:
            await store(client, LONG, id="long")
            _, second, *_ = await parts_of(engine, "long")

            done = await deleted(client, ids=["long", second])

        assert len(done["documents"]) == 1
        assert await count(engine) == 0

    async def test_a_text_in_another_revision_than_the_one_seen_stays(self, engine):
        async with memory_server(engine=engine) as client:
            await store(client, "roses are red", id="flower")

            result = await delete(client, ids=["flower"], seen="0" * 16)

        assert "somebody else has changed or deleted" in refusal(result)
        assert await count(engine) == 1

    async def test_ids_that_are_nowhere_are_named_and_the_others_deleted(self, engine):
        async with memory_server(engine=engine) as client:
            point = await store(client, "roses are red")

            result = await delete(client, ids=[point, "nobody", "7"])

        assert said(result).splitlines()[-1] == "Not found: 'nobody', '7'."
        assert result.structured_content["missing"] == ["nobody", "7"]

    async def test_an_id_in_several_collections_needs_the_collections_name(self, engine):
        for name in ("one", "two"):
            await foreign(
                engine,
                name,
                {7: {"text": "x"}},
                vectors=COSINE,
                values=lambda n: dense("x"),
            )
        async with memory_server(engine=engine) as client:
            text = refusal(await delete(client, ids=["7"]))
            assert "the id '7' is in one and in two" in text
            assert (await count(engine, "one"), await count(engine, "two")) == (1, 1)

            await deleted(client, ids=["7"], collection_name="two")

        assert (await count(engine, "one"), await count(engine, "two")) == (1, 0)

    async def test_nothing_is_deleted_where_a_collection_could_not_be_looked_in(self, engine):
        async with memory_server(engine=engine) as client:
            point = await store(client, "roses are red")
            await store(client, "violets", "other")
            engine.broken["other"] = EngineFailure("It broke.")

            text = refusal(await delete(client, ids=[point]))
            assert "Nothing was changed: other could not be read" in text
            assert await count(engine) == 1

            await deleted(client, ids=[point], collection_name="notes")

        assert await count(engine) == 0

    async def test_a_failure_after_some_were_deleted_says_how_many(self, engine, monkeypatch):
        async with memory_server(engine=engine) as client:
            points = [await store(client, f"rose {n}") for n in range(4)]
            original, asked = engine.client.delete, []
            allowed = 9

            async def full(*args: Any, **kwargs: Any) -> Any:
                asked.extend(args[:1] if args[0] == "notes" else [])
                if len(asked) > allowed:
                    raise DiskFull("Nothing was deleted: 0 MB are free.")
                return await original(*args, **kwargs)

            monkeypatch.setattr(engine.client, "delete", full)
            await deleted(client, ids=points.pop())
            each, allowed = len(asked), 0
            first = refusal(await delete(client, ids=points))
            allowed = len(asked) + each
            later = refusal(await delete(client, ids=points))

        assert first == "Nothing was deleted: 0 MB are free."
        assert later == ("1 of 3 documents were deleted, then: Nothing was deleted: 0 MB are free.")
        assert await count(engine) == 2

    async def test_what_is_deleted_is_counted_no_more_at_once(self, engine):
        async with memory_server(engine=engine) as client:
            points = [await store(client, f"rose {n}") for n in range(5)]
            listed = await client.call_tool("qdrant-collections", {})
            assert listed.structured_content["collections"][0]["points"] == 5

            await deleted(client, ids=points[:3])

            listed = await client.call_tool("qdrant-collections", {})
        assert listed.structured_content["collections"][0]["points"] == 2

    async def test_a_word_that_only_a_deleted_text_had_is_unknown_at_once(self, engine):
        settings = make_settings()
        services = assemble(settings, engine, registry(FakeEncoder()))
        (gone,) = await remember(services, "notes", "the quokka sleeps")
        await remember(services, "notes", "the harbour sleeps")
        targets = await services.catalog.resolve(["notes"])
        assert not (await services.pipeline.understanding.terms.weighed("quokka", targets)).unknown

        await services.deletion.by_ids(await services.deletion.named(gone.ids))
        targets = await services.catalog.resolve(["notes"])

        assert (await services.pipeline.understanding.terms.weighed("quokka", targets)).unknown
        await services.close()


class TestByFilter:
    async def test_first_the_exact_count_and_three_examples_then_with_it_the_deed(self, engine):
        async with memory_server(engine=engine) as client:
            await colours(client)

            first = await delete(client, query_filter=RED, collection_name="notes")
            assert await count(engine) == 6
            second = await delete(
                client, query_filter=RED, collection_name="notes", confirm_count=4
            )

        lines = said(first).splitlines()
        assert lines[0] == "Nothing is deleted yet. The filter matches 4 points of notes, such as:"
        assert len(lines) == 5
        assert all(re.fullmatch(r"- id \S{11} · a red thing \d", line) for line in lines[1:4])
        assert lines[4] == "Call again with confirm_count=4 to delete them, kept for 30 days."
        assert first.structured_content["count"] == 4
        assert len(first.structured_content["examples"]) == 3
        assert said(second).startswith("Deleted 4 points of notes.\nNote: kept 30 days: id ")
        assert await count(engine) == 2

    async def test_a_count_that_has_changed_deletes_nothing(self, engine):
        async with memory_server(engine=engine) as client:
            await colours(client)
            await delete(client, query_filter=RED, collection_name="notes")
            await store(client, "a red latecomer", metadata={"colour": "red"})

            text = refusal(
                await delete(client, query_filter=RED, collection_name="notes", confirm_count=4)
            )

        assert "the filter matches 5 points of notes, not 4" in text
        assert await count(engine) == 7

    async def test_an_empty_filter_is_the_whole_collection_and_needs_its_count_too(self, engine):
        async with memory_server(engine=engine) as client:
            await colours(client)

            first = await deleted(client, query_filter=ALL, collection_name="notes")
            assert (first["deleted"], first["count"], await count(engine)) == (0, 6, 6)
            second = await deleted(
                client, query_filter=ALL, collection_name="notes", confirm_count=6
            )

        assert (second["deleted"], len(second["versions"])) == (6, 6)
        assert await count(engine) == 0

    async def test_a_filter_that_matches_nothing_says_so(self, engine):
        async with memory_server(engine=engine) as client:
            await colours(client, red=0)

            result = await delete(client, query_filter=RED, collection_name="notes")
            again = await delete(client, query_filter=RED, collection_name="notes", confirm_count=3)

        assert said(result) == "No point of notes matches: nothing to delete."
        assert said(again) == said(result)

    async def test_it_takes_one_collection_the_default_where_there_is_one(self, engine):
        async with memory_server(engine=engine) as client:
            await colours(client)
            assert "collection_name is required" in refusal(await delete(client, query_filter=RED))
        async with memory_server(engine=engine, collection_name="notes") as client:
            assert (await deleted(client, query_filter=RED))["count"] == 4

    async def test_ids_and_a_filter_at_once_or_neither_are_refused(self, engine):
        async with memory_server(engine=engine, collection_name="notes") as client:
            await colours(client)
            for arguments in ({}, {"ids": ["7"], "query_filter": RED}, {"confirm_count": 4}):
                assert "Give either ids" in refusal(await delete(client, **arguments))
        assert await count(engine) == 6

    async def test_more_points_than_a_page_are_deleted(self, engine, monkeypatch):
        monkeypatch.setattr(points, "PAGE", 30)
        monkeypatch.setattr(deletion, "BATCH", 40)
        await foreign(
            engine,
            "many",
            {n: {"text": f"n{n}"} for n in range(100)},
            vectors=COSINE,
            values=lambda n: dense("x"),
        )
        async with memory_server(engine=engine) as client:
            done = await deleted(
                client, query_filter=ALL, collection_name="many", confirm_count=100
            )

        assert (done["deleted"], len(done["versions"])) == (100, 50)
        assert await count(engine, "many") == 0


async def test_hidden_collections_are_not_deleted_from_nor_named(engine):
    async with memory_server(engine=engine) as client:
        point = await store(client, "roses", "secret")
        await store(client, "violets", "open")
    async with memory_server(engine=engine, qdrant_collections=("open",)) as client:
        for arguments in (
            {"ids": [point]},
            {"ids": [point], "collection_name": "secret"},
            {"query_filter": ALL, "collection_name": "secret", "confirm_count": 1},
        ):
            text = refusal(await delete(client, **arguments))
            unknown = refusal(await delete(client, **{**arguments, "collection_name": "nowhere"}))
            if "collection_name" in arguments:
                assert text.replace("secret", "nowhere") == unknown
            else:
                assert "secret" not in text
    assert await count(engine, "secret") == 1


async def test_without_arbitrary_filters_it_takes_ids_only(engine):
    given = {"query_filter": ALL, "collection_name": "notes"}
    async with memory_server(engine=engine, qdrant_allow_arbitrary_filter=False) as client:
        point = await store(client, "roses")
        tools = {one.name: one for one in (await client.list_tools()).tools}
        schema = tools["qdrant-delete"].input_schema
        assert "There is no argument" in refusal(await delete(client, **given))
        await deleted(client, ids=[point])

    assert (set(schema["properties"]), schema["required"]) == ({"ids", "collection_name"}, ["ids"])
    assert await count(engine) == 0
