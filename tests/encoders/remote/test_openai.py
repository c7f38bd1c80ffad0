"""Vectors over HTTP: from the real model behind /v1/embeddings, and from services that fail."""

import json
import logging
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastembed import TextEmbedding

from mcp_server_qdrant.core.bounded import LARGEST
from mcp_server_qdrant.core.errors import ConfigError, EncoderUnavailable
from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from tests.embedding_stub import Stub, as_json, rows, served, words
from tests.support import dense

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
KEY = "s3cr3t-key"
QUICK = {"seconds": 5.0, "query_seconds": 5.0, "backoff": 0.001}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served() as one:
        yield one


@pytest.fixture(scope="module")
def minilm(model_dir: Path) -> TextEmbedding:
    return TextEmbedding(MODEL, specific_model_path=str(model_dir))


@asynccontextmanager
async def opened(url: str, model: str = "acme/Bag", **options) -> AsyncIterator[OpenAIEncoder]:
    known = {"api_key"}
    patience = QUICK | {k: v for k, v in options.items() if k not in known}
    kind = type("Quick", (OpenAIEncoder,), patience)
    encoder = kind(model, url, **{k: v for k, v in options.items() if k in known})
    try:
        yield encoder
    finally:
        await encoder.close()


async def failure(url: str, *given: str, **options) -> str:
    """The sentence that encoding ends with."""
    async with opened(url, **options) as encoder:
        with pytest.raises(EncoderUnavailable) as caught:
            await encoder.encode_documents(given or ["some words"])
    return str(caught.value)


def near(vector, other, tolerance: float = 1e-6) -> bool:
    return all(abs(a - b) < tolerance for a, b in zip(vector, other, strict=True))


# The real model


async def test_the_real_model_behind_http_makes_the_vectors_it_makes_here(minilm):
    given = ["roses need sun", "", "größer 😀", "moss " * 300]
    here = [row.tolist() for row in minilm.embed(given)]
    with served(lambda asked: [row.tolist() for row in minilm.embed(asked)]) as stub:
        async with opened(stub.url, MODEL) as encoder:
            there = await encoder.encode_documents(given)
            query = await encoder.encode_query("roses need sun")
            size = await encoder.size()

    assert all(near(one, other, 1e-5) for one, other in zip(here, there, strict=True))
    assert near(query, there[0])
    assert type(query) is tuple
    assert size == 384


# Requests


@pytest.mark.parametrize("path", ["", "/", "/embeddings"])
async def test_what_is_sent_is_what_openai_documents(stub, path):
    async with opened(stub.url + path, api_key=KEY) as encoder:
        (vector,) = await encoder.encode_documents(["some words"])

    ((asked, headers, body),) = stub.requests
    assert asked == "/v1/embeddings"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {"model": "acme/Bag", "input": ["some words"]}
    assert near(vector, dense("some words"))
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


async def test_dimensions_in_a_models_name_are_asked_for_and_checked(stub):
    async with opened(stub.url, "acme/Bag@8") as encoder:
        assert encoder.vector_name == "bag@8"
        assert await encoder.known_size() == 8
        assert len(await encoder.encode_query(" ".join(map(str, range(200))))) == 8
    assert (stub.bodies[0]["model"], stub.bodies[0]["dimensions"]) == ("acme/Bag", 8)


async def test_dimensions_are_learnt_once(stub):
    async with opened(stub.url) as encoder:
        assert await encoder.known_size() is None
        assert await encoder.size() == 64
        assert await encoder.size() == 64
        assert await encoder.known_size() == 64
    assert len(stub.requests) == 1


async def test_a_service_that_answered_is_not_asked_whether_it_is_ready(stub):
    async with opened(stub.url) as encoder:
        assert await encoder.ready(5)
        assert await encoder.ready(5)
    assert stub.inputs == [["dimensions"]]


async def test_a_service_that_failed_since_it_answered_is_asked_again(stub):
    async with opened(stub.url, cooldown=1e-9) as encoder:
        assert await encoder.ready(5)
        stub.replies = [as_json({}, 401)] * 2
        with pytest.raises(EncoderUnavailable, match="HTTP 401"):
            await encoder.encode_query("some words")
        assert not await encoder.ready(5)


async def test_openais_own_dimensions_are_known_without_a_request(stub):
    async with opened(stub.url, "text-embedding-3-large") as encoder:
        assert await encoder.size() == 3072
        assert encoder.vector_name == "text-embedding-3-large"
    assert stub.requests == []


async def test_nothing_is_asked_before_the_first_text(stub):
    async with opened(stub.url) as encoder:
        encoder.start()
        assert (encoder.state, encoder.reason) == ("ready", None)
    assert stub.requests == []


async def test_texts_are_sent_within_the_limit_and_come_back_in_their_order(stub):
    given = [f"text number {n}" for n in range(20)] + ["long " * 30, "after"]
    async with opened(stub.url, texts=4) as encoder:
        made = await encoder.encode_documents(given)

    assert all(near(vector, dense(text)) for vector, text in zip(made, given, strict=True))
    assert sorted(text for batch in stub.inputs for text in batch) == sorted(given)
    assert max(map(len, stub.inputs)) == 4


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_service_that_takes_fewer_texts_gets_fewer_from_then_on(stub, limit):
    stub.limit = limit
    async with opened(stub.url, texts=16) as encoder:
        made = await encoder.encode_documents([f"text {n}" for n in range(16)])
        assert all(near(vector, dense(f"text {n}")) for n, vector in enumerate(made))
        stub.requests.clear()
        await encoder.encode_documents([f"more {n}" for n in range(16)])

    assert max(map(len, stub.inputs)) <= limit


async def test_odd_texts_are_sent_as_valid_json(stub):
    async with opened(stub.url) as encoder:
        await encoder.encode_documents(["\ud800 lone", "a\x00b", ""])
    assert stub.inputs == [["\ufffd lone", "a\x00b", " "]]


# Faults that pass


@pytest.mark.parametrize(
    "fault",
    [
        as_json({}, 500),
        as_json({}, 503),
        as_json({}, 429),
        as_json({}, 429, Retry_After="0"),
        None,  # the connection is dropped
        (200, {}, b'{"data": [{"index": 0, "embed'),
    ],
    ids=["500", "503", "429", "429 with Retry-After", "dropped", "truncated"],
)
async def test_what_passes_is_tried_again_and_gives_the_right_vectors(stub, fault):
    stub.replies = [fault, fault]
    async with opened(stub.url) as encoder:
        (vector,) = await encoder.encode_documents(["some words"])
        assert (encoder.state, encoder.reason) == ("ready", None)

    assert near(vector, dense("some words"))
    assert len(stub.requests) == 3


async def test_the_pause_is_what_the_service_asks_for(stub):
    stub.replies = [as_json({}, 429, Retry_After="1")]
    async with opened(stub.url) as encoder:
        await encoder.encode_query("some words")

    before, after = stub.times
    assert after - before >= 1


async def test_a_query_does_not_wait_longer_than_it_may(stub):
    stub.replies = [as_json({}, 429, Retry_After="60")]
    async with opened(stub.url, query_seconds=2.0) as encoder:
        with pytest.raises(EncoderUnavailable, match=r"failed \(HTTP 429\)"):
            await encoder.encode_query("some words")
        assert encoder.state == "failed"  # for a minute, as it asked
        with pytest.raises(EncoderUnavailable, match="HTTP 429"):
            await encoder.encode_query("other words")
    assert len(stub.requests) == 1


# Faults that stay


STAYING = [
    (as_json({}, 500), "The embedding service failed (HTTP 500).", 4),
    (as_json({}, 429), "The embedding service failed (HTTP 429).", 4),
    (None, "The embedding service cannot be reached.", 4),
    ((200, {}, b'{"data": ['), "The embedding service's answer is not JSON.", 4),
    ((200, {}, b"<html>"), "The embedding service's answer is not JSON.", 4),
    ((200, {}, b"[" * 100_000), "The embedding service's answer is not JSON.", 4),
    (as_json({}, 401), "The embedding service refused access (HTTP 401)", 1),
    (as_json({}, 403), "The embedding service refused access (HTTP 403)", 1),
    (as_json({}, 404), "no such address or model (HTTP 404)", 1),
    (as_json({}, 302, Location="/x"), "no such address or model (HTTP 302): check its URL", 1),
    (as_json({}, 400), "rejected the request (HTTP 400): is EMBEDDING_MODEL right?", 1),
    (as_json({"error": "x"}), "The embedding service's answer contains no vectors.", 1),
    (as_json([]), "The embedding service's answer contains no vectors.", 1),
    (as_json(rows([])), "answered with 0 vectors for 1 texts.", 1),
    (as_json(rows([[1.0], [1.0]])), "answered with 2 vectors for 1 texts.", 1),
    (as_json(rows([[float("nan"), 1.0]])), "a vector that has no direction.", 1),
    (as_json(rows([[0.0, 0.0]])), "a vector that has no direction.", 1),
    (as_json(rows([[]])), "a vector that has no direction.", 1),
    (as_json(rows([["x"]])), "vectors are not made of numbers.", 1),
    (as_json(rows(["%%%"])), "vectors are not made of numbers.", 1),
    ((200, {}, b" " * (LARGEST + 1)), "The embedding service sent too large an answer.", 1),
]


@pytest.mark.parametrize(("fault", "sentence", "tries"), STAYING)
async def test_what_stays_is_one_clear_sentence(stub, fault, sentence, tries):
    stub.replies = [fault] * tries

    said = await failure(stub.url, api_key=KEY, seconds=300.0)  # megabytes, on a busy machine

    assert sentence in said
    assert len(stub.requests) == tries
    assert "\n" not in said
    assert not {KEY, "127.0.0.1", "http"} & set(said.replace(":", " ").split())


async def test_vectors_of_another_size_are_refused_by_number(stub):
    stub.embed = lambda given: [[1.0] * 8 for _ in given]
    async with opened(stub.url) as encoder:
        await encoder.encode_query("one")
        stub.embed = words
        with pytest.raises(EncoderUnavailable) as caught:
            await encoder.encode_query("two")

    assert "vectors have 64 dimensions where 8 were expected" in str(caught.value)


async def test_a_slow_service_is_given_up_in_time(stub):
    stub.replies = [...]

    said = await failure(stub.url, seconds=0.3)

    assert said == "The embedding service did not answer in time."


async def test_one_text_that_is_refused_does_not_hide_behind_the_others(stub):
    def reply(body):
        too_long = any(len(text) > 100 for text in body["input"])
        return as_json({}, 413) if too_long else as_json(rows(words(body["input"])))

    stub.replies = [reply] * 99

    said = await failure(stub.url, *(f"text {n}" for n in range(8)), "long " * 40)

    assert "rejected the request (HTTP 413)" in said


# The circuit


@pytest.mark.parametrize(("status", "requests"), [(500, 3), (401, 1)])
async def test_a_service_that_failed_thrice_or_for_good_is_left_alone(stub, status, requests):
    stub.replies = [as_json({}, status)] * 3
    async with opened(stub.url, tries=1) as encoder:
        for number in range(5):
            with pytest.raises(EncoderUnavailable, match=f"HTTP {status}"):
                await encoder.encode_query(f"query {number}")
        assert encoder.state == "failed"
        assert not await encoder.ready(5)

    assert len(stub.requests) == requests


async def test_after_the_pause_it_is_asked_again(stub):
    stub.replies = [as_json({}, 401)]
    async with opened(stub.url, cooldown=1e-9) as encoder:
        with pytest.raises(EncoderUnavailable, match="HTTP 401"):
            await encoder.encode_query("some words")
        assert encoder.reason is not None
        assert await encoder.ready(5)
        assert encoder.reason is None


# Secrets


async def test_keys_and_credentials_are_neither_logged_nor_said(stub, caplog):
    caplog.set_level(logging.DEBUG)
    stub.replies = [as_json({"error": {"message": f"Incorrect API key {KEY}"}}, 401)]
    url = stub.url.replace("http://", f"http://user:{KEY}@") + f"?key={KEY}"

    said = await failure(url)

    ((asked, headers, _),) = stub.requests
    assert asked == f"/v1/embeddings?key={KEY}"
    assert headers["Authorization"].startswith("Basic ")
    assert KEY not in said
    assert KEY not in caplog.text
    async with opened(url, api_key=KEY) as encoder:
        assert KEY not in json.dumps(encoder.__dict__, default=str)


def test_what_is_no_url_is_a_wrong_setting():
    with pytest.raises(ConfigError, match=r"^EMBEDDING_SERVICE_URL: it is not a URL\.$"):
        OpenAIEncoder("m", "http://host:port")
