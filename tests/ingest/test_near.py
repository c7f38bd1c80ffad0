"""Memories that stay clean: what a new text repeats, and what it supersedes."""

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import BackendError, EngineFailure, RequestError
from mcp_server_qdrant.core.find import SearchRequest
from tests.support import either_engine, memory_engine, memory_server, memory_services, said

OLD = "The team meets every Tuesday at ten in the small room."
NEW = "The team meets every Wednesday at ten in the small room."
OTHER = "Roses are pruned in March."


async def remember(services, text: str, *, collection: str = "notes", **fields):
    return await services.store.store(NewDocument(text, **fields), collection)


@pytest.mark.parametrize("kind", ["memory", "edge"])
async def test_a_text_that_nearly_repeats_another_one_names_it(kind, tmp_path):
    async with either_engine(kind, tmp_path) as engine, memory_services(engine=engine) as services:
        first = await remember(services, OLD, id="meeting")
        other = await remember(services, OTHER)
        elsewhere = await remember(services, NEW, collection="diary")
        corrected = await remember(services, NEW, id="meeting")
        again = await remember(services, OLD)

    assert [done.near for done in (first, other)] == [()] * 2
    assert [near.document.document for near in elsewhere.near] == ["meeting"]
    assert [near.document.collection for near in corrected.near] == ["diary"]
    near = {one.document.collection: one for one in again.near}
    assert (near["notes"].document.document, near["notes"].document.text) == ("meeting", NEW)
    assert 0.8 < near["notes"].cosine < 1


async def test_a_failure_of_the_comparison_fails_no_store():
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        await remember(services, OLD)
        engine.broken_methods["query_batch_points"] = EngineFailure("damaged")
        done = await remember(services, NEW)

    assert done.near == ()


async def test_a_superseded_text_ranks_last_until_that_is_lifted():
    async with memory_services() as services:
        old = await remember(services, OLD, id="old")
        await remember(services, "The canteen opens at ten.")
        (known,) = (await services.deletion.lookup.find_in("notes", ["old"])).values()
        new = NewDocument(NEW, id="new")
        done = await services.store.store(new, "notes", supersedes=[known])
        request = SearchRequest(query="the team meets every Tuesday at ten", limit=5)
        retired = (await services.pipeline.search(request)).results
        again = await remember(services, OLD, id="old")
        still = (await services.pipeline.search(request)).results
        (successor,) = await services.store.points.by_id("notes", done.ids)
        lifted = await services.store.lift(successor)
        revived = (await services.pipeline.search(request)).results

    assert done.near == ()
    assert again.heir.document == "new"
    assert still[-1].document.id == old.ids[0]
    assert [one.document for one in lifted] == ["old"]
    assert retired[-1].document.id == old.ids[0]
    assert retired[-1].document.superseded_by == "new"
    assert retired[-1].relevance == max(one.relevance for one in retired)
    assert old.ids[0] in {one.document.id for one in revived[:2]}
    assert {one.document.superseded_by for one in revived} == {None}


async def test_all_parts_of_a_superseded_text_are_marked():
    long = " ".join(f"Sentence {number} of the plan." for number in range(200))
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        parts = (await remember(services, long, id="plan")).ids
        (known,) = (await services.deletion.lookup.find_in("notes", ["plan"])).values()
        await services.store.store(NewDocument(OTHER, id="new"), "notes", supersedes=[known])
        marks = [
            record.payload["superseded_by"] for record in await engine.retrieve("notes", parts)
        ]

    assert len(marks) > 1
    assert set(marks) == {"new"}


async def test_a_text_whose_mark_fails_is_stored_and_that_is_said():
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        await remember(services, OLD, id="old")
        (known,) = (await services.deletion.lookup.find_in("notes", ["old"])).values()
        engine.broken_methods["set_payload"] = EngineFailure("damaged")
        with pytest.raises(BackendError) as failure:
            await services.store.store(NewDocument(NEW, id="new"), "notes", supersedes=[known])
        with pytest.raises(RequestError, match="id of the text itself"):
            await services.store.store(NewDocument(NEW, id="old"), "notes", supersedes=[known])

    assert str(failure.value).startswith(
        "The text is stored (id new), but not everything that it supersedes"
    )


async def test_an_agent_is_offered_to_update_or_to_retire_what_it_repeats():
    async with memory_server(collection_name="notes") as client:
        call = client.call_tool
        await call("qdrant-store", {"information": OLD, "id": "old"})
        first = await call("qdrant-store", {"information": NEW, "id": "new"})
        then = await call("qdrant-store", {"information": NEW, "id": "new", "supersedes": "old"})
        found = await call("qdrant-find", {"query": OLD})
        got = await call("qdrant-get", {"ids": ["old"]})
        wrong = await call("qdrant-store", {"information": NEW, "supersedes": "nowhere"})

    (near,) = first.structured_content["near"]
    assert (near["id"], near["collection"]) == ("old", "notes")
    lines = said(first).splitlines()
    assert lines[0] == (
        "Remembered in collection notes: id new. On the same subject. If one is outdated, call "
        "again with id=new and the outdated id in supersedes; to keep only one, delete the other:"
    )
    assert lines[1].startswith(f"- [{near['relevance']:.2f}] id old, ")
    assert lines[2] == f"> {OLD}"
    assert said(then) == "Updated in collection notes: id new. Superseded: id old."
    assert "superseded by: id new" in said(found)
    assert found.structured_content["results"][-1]["superseded_by"] == "new"
    assert "superseded by: id new" in said(got)
    assert said(wrong) == "supersedes: there is no text nowhere: use the id of a found one."
