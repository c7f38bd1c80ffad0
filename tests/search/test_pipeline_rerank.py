"""Reranking and copies from the tool call to the answer."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.notation import short_id
from tests.cross_encoder import MODEL, build_cross_encoder
from tests.rerank_stub import Stub, as_json, served
from tests.support import (
    find,
    first_point,
    memory_engine,
    memory_server,
    memory_services,
    remember,
    said,
    texts,
)

KEY = "s3cr3t-key"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served() as one:
        yield one


def favour(word: str):
    """A service for which texts with this word are right, and no others."""

    def reply(body):
        rows = [
            {"index": n, "relevance_score": 0.9 if word in text else 0.1 / (n + 1)}
            for n, text in enumerate(body["documents"])
        ]
        return as_json({"results": rows})

    return reply


def graded(count: int) -> list[str]:
    """Texts that match "alpha number" the less the longer they are."""
    return ["alpha number" + "".join(f" part{k}" for k in range(n)) for n in range(count)]


async def fill(services) -> None:
    await remember(services, "garden", "roses need sun", "moss needs shade", title="Plants")
    await remember(services, "kitchen", "bread needs time", "roses on a cake")
    await remember(services, "office", "the printer needs toner")


async def test_the_best_of_all_collections_are_reranked_in_one_call(stub):
    stub.reply = favour("cake")
    async with memory_services(rerank_url=stub.url, rerank_api_key=KEY) as services:
        await fill(services)
        plain = await find(services, "roses sun", "*", limit=9)
        page = await find(services, "roses sun", "*", limit=9, rerank=True, explain=True)

    assert texts(plain)[0] == "roses need sun"
    assert plain.rerank is None
    assert texts(page)[0] == "roses on a cake"
    assert sorted(texts(page)) == sorted(texts(plain))
    assert (page.rerank.state, page.rerank.pool) == ("applied", 5)
    relevance = {r.document.text: r.relevance for r in plain.results}
    assert all(r.relevance == relevance[r.document.text] for r in page.results)
    first = page.results[0]
    assert first.why["reranked"] == 0.9
    assert first.score == pytest.approx(0.9 * first.why["factors"].get("recency", 1.0))
    ((_, headers, body),) = stub.requests
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body["query"] == "roses sun"
    assert "Plants\nroses need sun" in body["documents"]


async def test_the_outcome_is_in_the_text_and_in_the_data(stub):
    settings = {"rerank_url": stub.url, "rerank_model": "some/model", "rerank_api_key": KEY}
    async with memory_server(**settings) as client:
        for text in ("roses need sun", "moss needs shade"):
            stored = {"information": text, "collection_name": "garden"}
            await client.call_tool("qdrant-store", stored)
        arguments = {"query": "moss", "rerank": True, "explain": True}
        good = await client.call_tool("qdrant-find", arguments)
        stub.reply = lambda _: (500, {}, b"no")
        bad = await client.call_tool("qdrant-find", arguments)
        rest = await client.call_tool("qdrant-find", arguments)
        plain = await client.call_tool("qdrant-find", {"query": "moss"})

    assert said(good).endswith("\nReranked: the best 2, by some/model.")
    assert "; reranked 1.000 x recency 1.000 -> 1.000; rrf" in said(good)
    assert good.structured_content["rerank"] == {
        "state": "applied",
        "model": "some/model",
        "pool": 2,
    }
    assert said(bad).endswith("\nNot reranked: The reranker failed (HTTP 500).")
    assert bad.structured_content["rerank"] == {
        "state": "degraded",
        "model": "some/model",
        "pool": 0,
        "reason": "The reranker failed (HTTP 500).",
    }
    assert rest.structured_content["rerank"]["state"] == "skipped"
    assert "It is tried again in 30 s." in said(rest)
    assert "rerank" not in plain.structured_content
    assert len(stub.requests) == 2
    for result in (good, bad, rest):
        assert KEY not in said(result)
        assert stub.url not in said(result)


async def test_a_reranker_that_fails_leaves_the_answer_as_it_was(stub):
    replies = [
        lambda _: (500, {}, b""),
        lambda _: (429, {"Retry-After": "9"}, b""),
        lambda _: (307, {"Location": "http://127.0.0.1:9/"}, b""),
        lambda _: (200, {}, b"garbage"),
        lambda body: as_json({"results": [{"index": 0, "relevance_score": 1}]}),
        lambda _: None,
    ]
    async with memory_engine() as engine:
        for reply in replies:
            stub.reply = reply
            async with memory_services(engine=engine, rerank_url=stub.url) as services:
                services.pipeline.rerank.seconds = 0.3
                if reply is replies[0]:
                    await fill(services)
                plain = await find(services, "roses sun", "*", limit=9, explain=True)
                page = await find(services, "roses sun", "*", limit=9, explain=True, rerank=True)

            assert page.results == plain.results
            assert page.results
            assert page.rerank.state == "degraded"
            assert page.rerank.reason


async def test_a_setting_makes_it_the_rule_and_a_call_the_exception(stub):
    async with memory_services(rerank_url=stub.url, rerank=True) as services:
        await fill(services)
        assert (await find(services, "roses sun")).rerank.state == "applied"
        assert (await find(services, "roses sun", rerank=False)).rerank is None


@pytest.mark.process
async def test_a_local_cross_encoder_reranks(tmp_path: Path):
    """Its logit is 2 * shared words - 3: 1 for both words, -1 for one."""
    build_cross_encoder(tmp_path / "models--Xenova--ms-marco-MiniLM-L-6-v2" / "snapshots" / "1")
    (tmp_path / "models--Xenova--ms-marco-MiniLM-L-6-v2" / "refs").mkdir()
    (tmp_path / "models--Xenova--ms-marco-MiniLM-L-6-v2" / "refs" / "main").write_text("1")
    async with memory_services(fastembed_cache_path=tmp_path) as services:
        await fill(services)
        reranker = services.pipeline.rerank.reranker
        reranker.start()
        assert await reranker.ready(60)
        page = await find(services, "roses sun", "*", limit=9, rerank=True, explain=True)

    assert (page.rerank.state, page.rerank.model, page.rerank.pool) == ("applied", MODEL, 5)
    assert texts(page)[:2] == ["roses need sun", "roses on a cake"]
    assert [r.why["reranked"] for r in page.results[:2]] == pytest.approx([0.7310586, 0.2689414])


async def test_a_small_page_is_chosen_from_the_whole_pool(stub):
    stub.reply = favour("n17 ")
    async with memory_services(rerank_url=stub.url) as services:
        await remember(services, "a", *(f"alpha number n{n} " + "filler " * n for n in range(25)))
        page = await find(services, "alpha", "a", limit=1, rerank=True)

    assert len(stub.bodies[0]["documents"]) == 25
    assert "n17 " in texts(page)[0]


# copies


async def test_a_passage_in_several_collections_is_one_result_that_names_the_others():
    async with memory_server() as client:
        ids = {}
        for name in ("garden", "notes", "wiki"):
            stored = {"information": "Roses need  sun.", "collection_name": name}
            done = await client.call_tool("qdrant-store", stored)
            ids[name] = await first_point(client, done)
        result = await client.call_tool("qdrant-find", {"query": "roses sun"})

    (only,) = result.structured_content["results"]
    others = [name for name in ids if name != only["collection"]]
    assert only["also_in"] == [{"collection": name, "id": short_id(ids[name])} for name in others]
    also = ", ".join(f"{name} (id {short_id(ids[name])})" for name in others)
    assert said(result).endswith(f"\nalso in: {also}")


async def test_a_page_full_of_copies_is_filled_up():
    """Eight collections hold the same twenty texts: the first pool holds few of them."""
    async with memory_services() as services:
        for name in "abcdefgh":
            await remember(services, name, *graded(20))
        pages = {n: await find(services, "alpha number", "*", limit=n) for n in (4, 10, 20)}

    for limit, page in pages.items():
        assert len(page.results) == limit
        assert len(set(texts(page))) == limit
        assert {len(r.also) for r in page.results} == {7}


async def test_the_newest_copy_is_the_one_that_is_shown():
    now = datetime.now(UTC)
    async with memory_services() as services:
        for name, days in (("a", 400), ("b", 1), ("c", 90)):
            new = NewDocument("roses need sun", created_at=now - timedelta(days=days))
            await services.store.store(new, name, create=True)
        page = await find(services, "roses", "*")

    (only,) = page.results
    assert only.document.collection == "b"
    assert [one.collection for one in only.also] == ["c", "a"]


async def test_copies_are_not_sent_to_the_reranker(stub):
    async with memory_services(rerank_url=stub.url) as services:
        for name in "ab":
            await remember(services, name, "roses need sun", "moss needs shade")
        page = await find(services, "roses", "*", rerank=True)

    assert sorted(stub.bodies[0]["documents"]) == ["moss needs shade", "roses need sun"]
    assert page.rerank.pool == 2
    assert len(page.results[0].also) == 1
