"""Collections that other tools filled: their texts, distances, names and indexes."""

import json
from typing import Any

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import RequestError, UnknownCollection
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest.collections.upgrade import Upgrades
from mcp_server_qdrant.ingest.delete import Deletion
from mcp_server_qdrant.qdrant.texts import Texts
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.engine import CONTENT_FIELDS
from tests.support import (
    COSINE,
    SIZE,
    Engine,
    dense,
    find,
    foreign,
    memory_services,
    remember,
    texts,
)

VECTOR = "fast-bag-of-words"
SAID = (
    "The harbour bills every boat at night",
    "Two copper bridges cross the river",
    "A falcon nests under the delta bridge",
    "The ember of the forge is kept over winter",
)
ID = "8f14e45f-ceea-467f-a83c-9b1b1d7f5a00"


def node(text: str) -> str:
    meta = {"id_": ID, "embedding": None, "metadata": {"file_name": "a b.md"}, "mimetype": "text"}
    return json.dumps(meta | {"relationships": {"1": {"node_id": ID}}, "text": text})


SHAPES: dict[str, Any] = {
    "doc_content": lambda text: {"doc_content": text, "source": "https://example.org/a b"},
    "_node_content.text": lambda text: {
        "_node_content": node(text),
        "_node_type": "TextNode",
        "document_id": ID,
        "file_path": "/home/ana/my notes/a.md",
    },
    "data": lambda text: {"data": text, "hash": "0cc175b9c0f1b6a831c399e269772661", "user_id": "u"},
    "text_segment": lambda text: {"text_segment": text, "index": "0"},
    "codeChunk": lambda text: {"codeChunk": f"def f():\n    # {text}\n    pass", "startLine": 4},
    "Text": lambda text: {"Text": text, "Created At": "2026-01-01 10:00:00 UTC"},
    "metadata.text": lambda text: {"metadata": {"text": text, "page": 3}},
    "payload.content": lambda text: {"payload": {"content": text, "title": "Notes"}, "n": 1},
    "passages": lambda text: {
        "text": " ",
        "passages": [text, "and more of it"],
        "tags": ["a", "b"],
    },
    "payload.body": lambda text: {"payload": json.dumps({"body": text, "lang": "en"})},
}


async def filled(engine: Engine, name: str, payloads: list[dict], said=SAID, **how: Any) -> None:
    """A collection of another tool, with a dense vector of each text."""
    await foreign(
        engine,
        name,
        dict(enumerate(payloads, 1)),
        vectors=how.pop("vectors", {VECTOR: COSINE}),
        values=how.pop("values", lambda n: {VECTOR: dense(said[n - 1])}),
        **how,
    )


@pytest.mark.parametrize("path", SHAPES)
async def test_the_texts_of_another_tool_are_found_by_looking_and_it_is_said_where(engine, path):
    await filled(engine, "theirs", [SHAPES[path](text) for text in SAID])
    async with memory_services(engine=engine) as services:
        page = await find(services, SAID[1], "theirs")
        whole = await find(services, SAID[1], "theirs", mode="full")
        quoted = await find(services, f'"{SAID[2][2:15]}"', "theirs")
        (info,) = await services.describe_collections(["theirs"])

    assert SAID[1] in texts(page)[0]
    assert "{" not in texts(page)[0]
    assert [SAID[2] in text for text in texts(quoted)] == [True]
    assert SAID[1] not in json.dumps(dict(whole.results[0].document.metadata or {}))
    assert info.note == f"its texts are under {path}; QDRANT_CONTENT_FIELDS may name more"


async def test_a_setting_names_the_path_and_what_it_names_is_not_looked_for(engine):
    payloads = [
        {"summary": f"In short: {n}, and no more", "long": {"x": s}} for n, s in enumerate(SAID)
    ]
    await filled(engine, "theirs", payloads)
    async with memory_services(engine=engine, qdrant_content_fields="text,summary") as services:
        named = await find(services, SAID[1], "theirs")
        (info,) = await services.describe_collections(["theirs"])
    async with memory_services(engine=engine, qdrant_content_fields="text,long.x") as services:
        inside = await find(services, SAID[1], "theirs")

    assert texts(named)[0] == "In short: 1, and no more"
    assert info.note is None
    assert texts(inside)[0] == SAID[1]


async def test_points_without_a_text_never_fill_a_page(engine):
    payloads = [{"file": f"{n}.png", "width": n} for n in range(20)]
    payloads += [{"doc_content": text} for text in SAID]
    said = ["copper bridges"] * 20 + [*SAID]
    await filled(engine, "mixed", [*payloads, *payloads[20:] * 6], [*said, *SAID * 6])
    await filled(engine, "images", payloads[:20], said)
    async with memory_services(engine=engine) as services:
        page = await find(services, "copper bridges", "mixed", limit=5)
        listed = await find(services, "", "mixed")
        images = await find(services, "copper bridges", "images")

    assert all(text in SAID for text in texts(page))
    assert SAID[1] in texts(page)
    assert all(text in SAID for text in texts(listed)) or len(texts(listed)) <= 3
    assert 1 <= len(images.results) <= 3
    assert texts(images)[0].startswith("(no text; payload keys: file, width.")


async def test_of_two_vectors_that_fit_the_choice_is_said(engine):
    await filled(
        engine,
        "theirs",
        [{"text": text} for text in SAID],
        vectors={"title": COSINE, "body": COSINE},
        values=lambda n: {"title": dense(SAID[n - 1]), "body": dense("x")},
    )
    async with memory_services(engine=engine) as services:
        page = await find(services, SAID[1], "theirs")
        (info,) = await services.describe_collections(["theirs"])

    searched, other = ("title", "body") if "title is" in str(info.note) else ("body", "title")
    assert info.note == f"of the vectors that fit, {searched} is searched, not {other}"
    assert page.statuses[0].state == "ok"


@pytest.mark.parametrize("distance", ["Manhattan", "Euclid", "Dot"])
async def test_relevance_is_on_one_scale_whatever_the_distance(engine, distance):
    other = models.VectorParams(size=SIZE, distance=models.Distance(distance))
    await filled(engine, "cosine", [{"text": text} for text in SAID])
    await filled(engine, "other", [{"text": text} for text in SAID], vectors={VECTOR: other})
    async with memory_services(engine=engine) as services:
        for query in (SAID[1], "copper bridges over the river", "the falcon"):
            mine = {t.document.text: t for t in (await find(services, query, "cosine")).results}
            page = await find(services, query, "other")
            assert query != SAID[1] or texts(page)[0] == SAID[1]
            assert all(0 <= one.relevance <= 1 for one in page.results)
            assert texts(page)[0] in mine
            assert page.results[0].relevance == pytest.approx(
                mine[texts(page)[0]].relevance, abs=1e-3
            )


# The embedded engine has none.
with_aliases = pytest.mark.parametrize("engine", ["memory"], indirect=True)


async def alias(engine: Engine, name: str, collection: str) -> None:
    made = models.CreateAlias(collection_name=collection, alias_name=name)
    await engine.client.update_collection_aliases([models.CreateAliasOperation(create_alias=made)])


@with_aliases
async def test_an_alias_is_a_name_of_its_collection(engine):
    async with memory_services(engine=engine, qdrant_read_only=False) as services:
        await remember(services, "books_v1", *SAID[:2])
        await alias(engine, "books", "books_v1")
        both = await find(services, SAID[0], "books", "books_v1")
        stored = await services.catalog.check_exists("books")
        new = NewDocument("Pier seven is painted", id="pier")
        await services.store.store(new, "books")
        (got,), _, _ = await services.lookup.get(["pier"], collection="books")
        matching = await Deletion(services.store, services.lookup, lambda _: None).matching(
            {"must": [{"key": "doc.id", "match": {"value": "pier"}}]}, "books"
        )
        (info,) = await services.describe_collections(["books_v1"])
        with pytest.raises(UnknownCollection):
            await find(services, "x", "bookz")

    assert {one.document.collection for one in both.results} == {"books_v1"}
    assert len(both.results) == len({one.document.id for one in both.results})
    assert (stored, got.collection, got.text) == ("books_v1", "books_v1", new.text)
    assert (matching.collection, matching.count) == ("books_v1", 1)
    assert info.note == "also called books"


@with_aliases
async def test_an_alias_may_be_allowed_and_be_the_default(engine):
    async with memory_services(engine=engine, qdrant_read_only=False) as services:
        await remember(services, "books_v1", SAID[0])
        await remember(services, "private", SAID[1])
        await alias(engine, "books", "books_v1")
        await alias(engine, "open", "private")
    allowed = {"qdrant_collections": "books,o*", "collection_name": "books"}
    async with memory_services(engine=engine, **allowed) as services:
        assert await services.catalog.names() == ("books_v1",)
        assert texts(await find(services, SAID[0])) == [SAID[0]]
        assert texts(await find(services, SAID[0], "*")) == [SAID[0]]
        with pytest.raises(UnknownCollection):
            await find(services, SAID[1], "open")


async def test_upgrade_makes_the_indexes_that_strict_mode_asks_for(engine):
    """Only a server refuses; the others have the index all the same."""
    payloads = [{"text": text, "lang": "en", "year": 2020 + n} for n, text in enumerate(SAID)]
    await filled(engine, "strict", payloads)
    bulk = Bulk(engine, Texts(CONTENT_FIELDS))  # type: ignore[arg-type]
    strict = "remote" in type(engine.client).__module__ and hasattr(engine.client, "_rest")
    if strict:
        mode = models.StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False)
        await engine.client.update_collection("strict", strict_mode_config=mode)
    where = {"must": [{"key": "year", "range": {"gte": 2021}}]}
    settings = {"qdrant_url": "http://qdrant"} if strict else {}  # it is not the local mode
    async with memory_services(engine=engine, **settings) as services:
        if strict:
            with pytest.raises(Exception, match="upgrade strict --index year:"):
                await find(services, SAID[1], "strict", query_filter=where)
        made = await bulk.create_missing_indexes("strict", {"year": "integer"})
        with pytest.raises(RequestError, match="number is not an index type"):
            await bulk.create_missing_indexes("strict", {"year": "number"})
        again = await bulk.create_missing_indexes("strict", {"year": "integer"})
        found = await find(services, SAID[1], "strict", query_filter=where)
        done = await Upgrades(bulk, Bm25Encoder()).keywords("strict")
        dated = await find(services, SAID[1], "strict", since="2020")

    assert "year" in made
    if strict:
        assert again == []
    assert set(texts(found)) == set(SAID[1:])
    assert done.points == len(SAID)
    assert dated.results == []


async def test_a_text_within_an_object_stays_as_it_is(engine):
    await filled(engine, "theirs", [SHAPES["payload.content"](text) for text in SAID])
    async with memory_services(engine=engine, qdrant_read_only=False) as services:
        await find(services, SAID[1], "theirs")
        with pytest.raises(RequestError, match=r"its text in payload\.content"):
            await services.store.store(NewDocument("Another text", id="2"), "theirs")
