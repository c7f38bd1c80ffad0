"""Scores from reranking services of every shape, and from such as are broken."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.core.errors import ConfigError, RerankerUnavailable
from mcp_server_qdrant.encoders.remote.rerank import HttpReranker, scores
from tests.rerank_stub import Stub, as_json, cohere, jina, served, tei

KEY = "s3cr3t-key"
TEXTS = ["moss and shade", "red roses in the sun", "red paint"]
EXPECTED = [0.0, 1.0, 0.5]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served() as one:
        yield one


@asynccontextmanager
async def opened(url: str, **options) -> AsyncIterator[HttpReranker]:
    reranker = HttpReranker(url, **options)
    try:
        yield reranker
    finally:
        await reranker.close()


async def scored(url: str, **options) -> list[float]:
    async with opened(url, **options) as reranker:
        return await reranker.score("red roses", TEXTS, 5)


async def failure(url: str, seconds: float = 5, **options) -> RerankerUnavailable:
    async with opened(url, **options) as reranker:
        with pytest.raises(RerankerUnavailable) as caught:
            await reranker.score("red roses", TEXTS, seconds)
    return caught.value


@pytest.mark.parametrize("path", ["/v2/rerank", "/v1/rerank", "/rerank/", "/v1", ""])
async def test_cohere_is_asked_for_a_score_of_every_text(stub, path):
    found = await scored(stub.url + path, model="rerank-x", api_key=KEY)

    ((asked, headers, body),) = stub.requests
    assert found == EXPECTED
    assert asked.endswith("/rerank")
    assert asked.count("rerank") == 1
    assert body == {"query": "red roses", "documents": TEXTS, "top_n": 3, "model": "rerank-x"}
    assert headers["Authorization"] == f"Bearer {KEY}"


async def test_infinity_needs_neither_key_nor_model(stub):
    assert await scored(stub.url) == EXPECTED
    assert "model" not in stub.bodies[0]
    assert "Authorization" not in stub.requests[0][1]


async def test_text_embeddings_inference_takes_texts_and_gives_a_list(stub):
    stub.reply = tei

    assert await scored(stub.url) == EXPECTED
    assert stub.bodies[-1] == {"query": "red roses", "texts": TEXTS, "truncate": True}


@pytest.mark.parametrize(("service", "tries"), [(cohere, 1), (jina, 1), (tei, 2)])
async def test_what_an_unnamed_service_speaks_is_found_out_once(stub, service, tries):
    stub.reply = service
    async with opened(stub.url, model="m") as reranker:
        assert await reranker.score("red roses", TEXTS, 5) == EXPECTED
        assert len(stub.requests) == tries
        assert await reranker.score("red roses", TEXTS, 5) == EXPECTED
        assert len(stub.requests) == tries + 1


async def test_other_names_for_the_rows_are_understood(stub):
    rows = [{"index": n, "relevance_score": s} for n, s in enumerate(EXPECTED)]
    stub.reply = lambda _: as_json({"object": "list", "data": rows})

    assert await scored(stub.url) == EXPECTED


async def test_a_status_that_is_no_answer_is_a_sentence(stub):
    stub.reply = lambda _: (422, {}, b"")
    error = await failure(stub.url, api_key=KEY)

    assert str(error) == "The reranker rejected the request (HTTP 422): is RERANK_MODEL right?"
    assert error.tried


async def test_a_service_that_asks_for_patience_is_heard(stub):
    stub.reply = lambda _: (429, {"Retry-After": "120"}, b"")

    assert (await failure(stub.url)).retry_after == 120.0


async def test_a_redirect_is_not_followed_and_the_key_stays_here(stub):
    with served() as elsewhere:
        stub.reply = lambda _: (307, {"Location": f"{elsewhere.url}/rerank"}, b"")
        error = await failure(stub.url, api_key=KEY)

        assert str(error) == (
            "The reranker has no such address or model (HTTP 307): check its URL and model."
        )
        assert elsewhere.requests == []


def rows(*pairs):
    return {"results": [{"index": i, "relevance_score": s} for i, s in pairs]}


GARBAGE = [
    b"",
    b"<html>busy</html>",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b"null",
    b"3",
    b'"results"',
    json.dumps({"results": None}).encode(),
    json.dumps({"results": {"0": 1}}).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2))).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2), (2, 0.3), (3, 0.4))).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2), (1, 0.3))).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2), (3, 0.3))).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2), (-1, 0.3))).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2), ("2", 0.3))).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2), (2, None))).encode(),
    json.dumps(rows((0, 0.1), (1, 0.2), (2, 10**400))).encode(),
    json.dumps([0.1, 0.2, 0.3]).encode(),
]


@pytest.mark.parametrize("answer", GARBAGE)
async def test_garbage_is_no_answer(stub, answer):
    stub.reply = lambda _: (200, {}, answer)

    assert str(await failure(stub.url)) in (
        "The reranker's answer is not JSON.",
        "The reranker's answer does not hold one score for each text.",
    )


async def test_an_answer_that_swells_is_not_unpacked(stub):
    import gzip

    stub.reply = lambda _: (200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * 10_000_000))

    assert str(await failure(stub.url)) == "The reranker's answer is not JSON."
    assert stub.requests[0][1]["Accept-Encoding"] == "identity"


async def test_broken_unicode_reaches_the_service_mended(stub):
    async with opened(stub.url) as reranker:
        await reranker.score("a \ud800 b", ["c \udc00 d", "é"], 5)

    assert stub.bodies[0]["query"] == "a \ufffd b"
    assert stub.bodies[0]["documents"] == ["c \ufffd d", "é"]


async def test_a_key_with_a_line_end_in_it_is_refused_without_being_told(stub):
    error = await failure(stub.url, api_key=f"{KEY}\r\nX-Other: 1")

    assert str(error) == "The reranker cannot be reached."
    assert stub.requests == []


def test_an_address_that_is_none_is_refused_without_being_told():
    with pytest.raises(ConfigError, match=r"^RERANK_URL: it is not a URL\.$"):
        HttpReranker(f"http://someone:{KEY}@host:port/")


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=9), st.randoms())
def test_scores_are_those_of_their_texts_in_whatever_order_they_come(values, random):
    found = list(enumerate(values))
    random.shuffle(found)

    assert scores(rows(*found), len(values)) == values
