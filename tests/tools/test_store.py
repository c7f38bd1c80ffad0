"""qdrant-store on what is stored already: points of other tools, ids that are no more, files."""

from itertools import product
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.notation import cite, short_id
from mcp_server_qdrant.ingest.files.state import SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from tests.support import (
    COSINE,
    IDF,
    dense,
    first_point,
    foreign,
    memory_server,
    memory_services,
    refusal,
    said,
)

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

UUID = "6f1ca6a5-6dd5-4d1b-9f0e-4b1f3cf0a2a7"
MANY = models.VectorParams(
    size=2,
    distance=models.Distance.COSINE,
    multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
)
VECTORS = {"fast-bag-of-words": COSINE, "colbert": MANY}
PAYLOADS = [
    {"doc_content": "wet.png", "source": "f1"},
    {"text": "the berth is wet", "lang": "en", "a.b": 1, "tags": "old"},
    {"page_content": "the berth is wet", "metadata": {"tags": ["old"], "k": 1, "a b": 2}, "_x": 3},
    {"text": "the berth is wet", "doc": {"id": "abc", "page": 3}, "lang": "en", "a.b": 1},
]


def vectors(_: int) -> dict[str, Any]:
    bm25 = models.SparseVector(indices=[3, 5], values=[1.0, 2.0])
    return {"fast-bag-of-words": dense("wet"), "colbert": [[1.0, 0.0], [0.0, 1.0]], "bm25": bm25}


async def made(engine: Any, payload: Any, point: Any = 2, **how: Any) -> models.Record:
    """The only point of the collection `old`, of another tool."""
    how = {"vectors": VECTORS, "sparse": {"bm25": IDF}, "values": vectors} | how
    await foreign(engine, "old", {point: payload}, **how)
    return await the_point(engine)


async def the_point(engine: Any) -> models.Record:
    (record,), _ = await engine.scroll("old", with_payload=True, with_vectors=True)
    return record


async def stored(client: Any, **arguments: Any) -> Any:
    result = await client.call_tool("qdrant-store", arguments)
    assert not result.is_error, said(result)
    return result


class TestPointsOfOtherTools:
    @pytest.mark.parametrize(
        ("payload", "point"), [*zip(PAYLOADS, (2, 123456789012345, UUID, UUID), strict=True)]
    )
    async def test_their_tags_title_and_metadata_change_in_place_and_nothing_else(
        self, engine, payload, point
    ):
        nested = "metadata" in payload
        before = await made(engine, payload, point)
        async with memory_server(engine=engine) as client:
            changes = {"tags": ["berth"], "title": "Berth", "metadata": {"year": 1, "a.b": None}}
            done = await stored(client, id=str(point), **changes)
            after = await the_point(engine)
            version = done.structured_content["before"]
            await stored(client, id=version)
            again = await the_point(engine)

        changed = dict(payload) | {"title": "Berth"} | ({} if nested else {"year": 1})
        changed.pop("a.b", None)
        if nested:
            changed["metadata"] = {"tags": ["berth"], "k": 1, "a b": 2, "year": 1}
        else:
            changed["tags"] = ["berth"]
        assert (after.id, after.vector) == (before.id, before.vector)
        assert after.payload == changed
        assert done.structured_content["id"] == short_id(point)
        old = dict(payload) | ({"tags": ["old"]} if "tags" in payload else {})
        assert (again.payload, again.vector) == (old, before.vector)

    async def test_what_was_given_and_is_taken_back_leaves_no_key(self, engine):
        payload = {"text": "wet", "metadata": {"say \u00fc": 1, "k": 2}, "title": "Wet", "name": 7}
        await made(engine, payload)
        async with memory_server(engine=engine) as client:
            await stored(client, id="2", tags=["a"])
            await stored(client, id="2", tags=[], title="", metadata={"say \u00fc": None})
            after = await the_point(engine)

        assert after.payload == {"text": "wet", "metadata": {"k": 2}, "name": 7}

    @pytest.mark.parametrize(
        ("payload", "arguments", "sentence"),
        [
            (PAYLOADS[0], {"information": "dry"}, "with no text that is known"),
            (PAYLOADS[1], {"information": "dry"}, "with the vector colbert"),
            (PAYLOADS[0], {"collection_name": "archive"}, "with no text that is known"),
            (PAYLOADS[1], {"collection_name": "archive"}, "with the vector colbert"),
            (PAYLOADS[0], {"metadata": {"text": "dry"}}, "The key text of another tool's point"),
            (PAYLOADS[1], {"metadata": {"doc": {"id": "x"}}}, "The key doc of another tool's"),
            ({"text": "wet", "name": "Wet"}, {"title": ""}, "The title is the point's own name"),
        ],
    )
    async def test_what_would_rewrite_them_is_refused(self, engine, payload, arguments, sentence):
        before = await made(engine, payload)
        async with memory_server(engine=engine) as client:
            asked = {"id": "2", "collection_name": "old", "create": True} | arguments
            result = await client.call_tool("qdrant-store", asked)
            if "collection_name" not in arguments:
                result = await client.call_tool("qdrant-store", asked)

        assert sentence in refusal(result)
        assert await the_point(engine) == before

    @pytest.mark.parametrize(
        "more",
        [
            {"title": 7},
            {"created_at": 1700000000},
            {"source": ["x"]},
            {"stored_by": "me"},
            {"doc": {"id": "abc", "page": 3}},
            {"lang": "en", "metadata": {"k": 1}},
        ],
    )
    async def test_a_move_that_would_lose_a_value_is_refused(self, engine, more):
        only, values = {"fast-bag-of-words": COSINE}, {"fast-bag-of-words": dense("wet")}
        payload = {"text": "the berth is wet"} | more
        before = await made(engine, payload, vectors=only, values=lambda _: values)
        async with memory_server(engine=engine) as client:
            asked = {"id": "2", "collection_name": "archive", "create": True}
            result = await client.call_tool("qdrant-store", asked)

        assert f"with the key {next(iter(more))}: the text stays" in refusal(result)
        assert await the_point(engine) == before

    async def test_a_point_without_a_text_is_retired_and_none_is_made_for_it(self, engine):
        before = await made(engine, PAYLOADS[0])
        async with memory_server(engine=engine) as client:
            done = await stored(
                client, information="the berth is dry", collection_name="notes", supersedes="2"
            )
            after = await the_point(engine)
            told = refusal(await client.call_tool("qdrant-store", {"id": "2@2020-01-01"}))

        assert "Superseded: id 2." in said(done)
        assert after.vector == before.vector
        assert after.payload == PAYLOADS[0] | {
            "superseded_by": after.payload["superseded_by"],
            "superseded_in": "notes",
        }
        assert told.startswith("There is no text 2@2020-01-01")

    async def test_a_text_whose_vectors_are_ours_is_corrected_in_place(self, engine):
        values = {"fast-bag-of-words": dense("wet"), "bm25": vectors(2)["bm25"]}
        payload = PAYLOADS[2] | {"title": "Berth"}
        only = {"fast-bag-of-words": COSINE}
        before = await made(engine, payload, UUID, vectors=only, values=lambda _: values)
        async with memory_server(engine=engine) as client:
            asked = {"information": "the berth is dry", "id": UUID, "metadata": {"k": 5}}
            done = await stored(client, collection_name="old", **asked)
            after = await the_point(engine)
            await stored(client, id=done.structured_content["before"])
            again = await the_point(engine)
            long = " ".join(f"word{n}" for n in range(2000))
            refused = await client.call_tool(
                "qdrant-store", asked | {"information": long, "collection_name": "old"}
            )

        inside = {"tags": ["old"], "k": 5, "a b": 2}
        assert after.id == before.id
        assert after.payload == payload | {"page_content": "the berth is dry", "metadata": inside}
        expected = dense("Berth\nthe berth is dry")
        assert after.vector["fast-bag-of-words"] == pytest.approx(expected, abs=1e-6)
        assert after.vector["bm25"] != before.vector["bm25"]
        assert again.payload == payload
        assert "is too long for" in refusal(refused)

    @pytest.mark.parametrize("change", [{"text": "white"}, {"lang": "de"}])
    async def test_a_point_that_is_changed_meanwhile_is_not_overwritten(self, engine, change):
        payload = {"text": "wet", "lang": "en"}
        only = {"fast-bag-of-words": COSINE}
        await made(engine, payload, vectors=only, values=lambda _: {})
        async with memory_server(engine=engine) as client:
            upsert = engine.client.upsert

            async def late(*given: Any, **how: Any) -> Any:
                engine.client.upsert = upsert
                await engine.set_payload("old", change, [2])
                return await upsert(*given, **how)

            await stored(client, information="seed", collection_name="notes", id="seed")
            engine.client.upsert = late
            done = await stored(client, information="dry", id="2", collection_name="old")
            after = await the_point(engine)
            asked = {"ids": [done.structured_content["before"]]}
            (kept,) = (await client.call_tool("qdrant-get", asked)).structured_content["documents"]

        assert after.payload == payload | change | {"text": "dry"}
        assert kept["text"] == (payload | change)["text"]


OLD, NEW = "berth 12 belongs to Tom", "berth 12 belongs to Ann"


async def refused(client: Any, **arguments: Any) -> str:
    return refusal(await client.call_tool("qdrant-store", arguments))


async def told(client: Any, own: str) -> str:
    """The note that qdrant-get gives of an id."""
    return refusal(await client.call_tool("qdrant-get", {"ids": [own]})).partition("Note: ")[2]


async def count(engine: Any) -> int:
    names = [one.name for one in (await engine.get_collections()).collections]
    return sum([(await engine.count(name)).count for name in names if name in ("notes", "harbor")])


class TestIdsOfTextsThatAreNoMore:
    @pytest.mark.parametrize(
        ("changed", "where"), [({}, {"collection_name": "notes"}), ({"tags": ["berth"]}, {})]
    )
    async def test_of_a_moved_text_they_are_refused(self, engine, changed, where):
        async with memory_server(engine=engine, collection_name="notes") as client:
            old = (await stored(client, information=OLD)).structured_content["id"]
            point = await first_point(client, await stored(client, information=OLD))
            moved = await stored(client, id=old, collection_name="harbor", create=True, **changed)
            now, note = moved.structured_content["id"], await told(client, old)
            answers = [
                await refused(client, id=own, information=NEW, **where)
                for own in ([old, point] if changed else [old])
            ]
            answers += [
                await refused(client, information=NEW, supersedes=old),
                await refused(client, id=old, tags=["a"]),
                await refused(client, id=old, collection_name="notes"),
            ]
            texts = await count(engine)
            await stored(client, id=now, information=NEW, collection_name="harbor")

        assert texts == 1
        assert note == (f"That text is id {now} of harbor now." if changed else "")
        assert [one for one in answers if note not in one] == []

    async def test_of_a_deleted_text_they_are_refused_as_get_does(self, engine):
        async with memory_server(engine=engine, collection_name="notes") as client:
            done = await stored(client, information=OLD)
            old, point = done.structured_content["id"], await first_point(client, done)
            await client.call_tool("qdrant-delete", {"ids": [old]})
            for own in (old, point):
                note = await told(client, own)
                answers = [
                    await refused(client, id=own, information=NEW),
                    await refused(client, information=NEW, supersedes=own),
                    await refused(client, id=own, tags=["a"]),
                    await refused(client, id=own, collection_name="harbor"),
                ]
                assert f"{own} was deleted by" in note
                assert [one for one in answers if note not in one] == []
            assert await count(engine) == 0

    async def test_of_a_deleted_point_of_another_tool_they_are_refused(self, engine):
        await foreign(engine, "notes", {7: {"text": "wet"}}, vectors=COSINE)
        async with memory_server(engine=engine) as client:
            await client.call_tool("qdrant-delete", {"ids": ["7"]})
            answer = await refused(client, id="7", information=NEW, collection_name="notes")

        assert "7 was deleted by" in answer

    async def test_of_a_superseded_text_they_lead_to_its_successor(self, engine):
        async with memory_server(engine=engine, collection_name="notes") as client:
            old = (await stored(client, information=OLD)).structured_content["id"]
            new = (await stored(client, information=NEW, supersedes=old)).structured_content["id"]
            again = await stored(client, information=NEW, supersedes=old)
            answers = [
                await refused(client, id=old, information="it is Zoe's"),
                await refused(client, information="it is Zoe's", supersedes=old),
            ]
            texts = await count(engine)
            tagged = await stored(client, id=old, tags=["berth"])
            await stored(client, id=tagged.structured_content["before"])
            got = await client.call_tool("qdrant-get", {"ids": [old]})
            await client.call_tool("qdrant-delete", {"ids": [new]})
            revived = await stored(client, id=old, information="it is Zoe's")

        sentence = f"{old} was superseded by id {new} in notes: "
        assert [one for one in answers if sentence not in one] == []
        assert texts == 2
        assert "Superseded" in said(again)
        assert got.structured_content["documents"][0]["superseded_by"] == new
        assert said(revived).startswith("Updated")

    async def test_ids_of_our_form_that_never_were_or_are_of_another_collection_are_refused(
        self, engine
    ):
        own = ("deadbeef-12", "deadbeef-12:2/9", "deadbeef-12@2026-01-01", "deadbeef-12:1/1@2026")
        async with memory_server(engine=engine, collection_name="notes") as client:
            old = (await stored(client, information=OLD)).structured_content["id"]
            for one in (*own[:3], f"{own[3]}-01-01"):
                answer = await refused(client, id=one, information=NEW)
                assert answer.startswith(f"There is no text {cite(one)} in notes: store a new")
            where = {"collection_name": "harbor", "create": True}
            answer = await refused(client, id=old, information=NEW, **where)
            texts = await count(engine)

        assert answer.endswith(" It is in collection notes.")
        assert texts == 1

    async def test_versions_and_parts_of_texts_are_not_names_of_new_ones(self, engine):
        async with memory_server(engine=engine, collection_name="notes") as client:
            await stored(client, information=OLD, id="x")
            done = await stored(client, information=NEW, id="x")
            version = done.structured_content["before"]
            answers = [
                await refused(client, information="it is Zoe's", id=version),
                await refused(client, information="it is Zoe's", id="x:2/9"),
            ]
            texts = await count(engine)

        assert answers[0].endswith("It is an earlier version: give only its id to restore it.")
        assert answers[1].endswith("The text x has 1 part now.")
        assert texts == 1

    async def test_names_of_a_callers_own_go_on_making_texts(self, engine):
        names = ("plan", "deadbeef", "17", UUID, "a:2/9", "x@2026-01-01")
        async with memory_server(engine=engine, collection_name="notes") as client:
            for own, text in product(names, (OLD, NEW)):
                done = await stored(client, information=text, id=own)
                assert said(done).startswith("Remembered"), own
                await client.call_tool("qdrant-delete", {"ids": [own]})


class TestTextsOfFiles:
    @pytest.mark.parametrize("days", [0, 30])
    async def test_what_the_next_sync_will_do_is_said(self, engine, tmp_path, days):
        (tmp_path / "a.md").write_text("the berth is wet")
        own, back = f"{tmp_path.name}/a.md", "the next sync of its folder "
        where = {"ids": [own]}
        async with memory_services(engine=engine, history_days=days) as services:

            async def synced() -> None:
                await services.sync(SyncRequest(tuple(sources([tmp_path])), "notes", create=True))

            await synced()
            async with memory_server(
                engine=engine, history_days=days, collection_name="notes"
            ) as client:
                corrected = await stored(client, id=own, information="the berth is dry")
                other = await stored(client, id=own, information="the berth is damp")
                await synced()
                (text,) = (await client.call_tool("qdrant-get", where)).structured_content[
                    "documents"
                ]
                tagged = await stored(client, id=own, tags=["berth"])
                gone = await client.call_tool("qdrant-delete", where)
                await synced()
                match = {"must": [{"key": "doc.id", "match": {"value": own}}]}
                asked = {"query_filter": match, "collection_name": "notes", "confirm_count": 1}
                filtered = await client.call_tool("qdrant-delete", asked)
                own_text = await stored(client, id="x", information="the berth is wet")
                theirs = await client.call_tool("qdrant-delete", {"ids": ["x"]})

        assert text["text"] == "the berth is wet"
        assert f"It is from a file: {back}brings the file's text back." in said(corrected)
        assert f"from a file: {back}stores it again if that is there." in said(gone)
        assert f"from a file: {back}stores it again if that is there." in said(filtered)
        for answer in (other, tagged, own_text, theirs):
            assert "from a file" not in said(answer)
