"""The models of a process: shared, waited for, let go, and none takes another one along."""

import asyncio
import contextlib
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EncoderUnavailable, RerankerUnavailable
from mcp_server_qdrant.encoders.chunk import split
from mcp_server_qdrant.encoders.local import models
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.model import Spec
from mcp_server_qdrant.encoders.local.models import LocalEncoder, Models, served
from mcp_server_qdrant.encoders.local.turns import Turns
from tests.cross_encoder import MODEL as RERANKER
from tests.cross_encoder import build_cross_encoder

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
HELLO_WORLD = (-0.034478, 0.03102, 0.00673, 0.02611, -0.039362)
LONG = ["long text " * 100] * 40


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A busy machine may take longer for a query than a search waits."""
    monkeypatch.setattr(models, "QUERY_SECONDS", 120.0)
    monkeypatch.setattr(FastEmbedEncoder, "seconds", 120.0)


@pytest.fixture
def spec(model_dir: Path) -> Spec:
    return Spec(MODEL, model_path=str(model_dir))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(build_cross_encoder(tmp_path_factory.mktemp("reranker") / "model"))


@pytest.fixture(scope="module")
def shared() -> Models:
    return Models()


@pytest.fixture
async def encoder(shared: Models, spec: Spec):
    """The model, loaded once for all tests that only want one."""
    return await ready(shared.encoder(spec))


@pytest.fixture(scope="module", autouse=True)
def held(shared: Models, model_dir: Path):
    """It stays from test to test."""
    return shared.encoder(Spec(MODEL, model_path=str(model_dir)))


async def ready(encoder: LocalEncoder) -> LocalEncoder:
    encoder.start()
    assert await encoder.ready(180), encoder.reason
    return encoder


# What they can do


async def test_vectors_are_those_that_the_model_makes_anywhere(encoder):
    query = await encoder.encode_query("hello world")
    texts = [f"{'many words ' * (7 * n % 23)}text number {n}" for n in range(40)]
    vectors = await encoder.encode_documents([*texts, "hello world"])

    assert query[:5] == pytest.approx(HELLO_WORLD, abs=1e-5)
    assert type(query) is tuple
    assert vectors[-1] == pytest.approx(query, abs=1e-5)
    for place, text in ((0, texts[0]), (37, texts[37])):
        assert vectors[place] == pytest.approx(await encoder.encode_query(text), abs=1e-5)
    assert await encoder.encode_documents([]) == []


async def test_texts_are_cut_by_the_models_own_tokens(encoder):
    text = "A sentence of some words, and more.\n\n" * 60 + "\ud800 lone"
    tokenizer = await encoder.tokenizer_json()
    spans = await encoder.split(text, 64, 9)

    assert spans == split(text, 64, tokenizer, 9)
    assert len(spans) > 5
    assert await encoder.common(["broken", "brokn"]) == ["broken"]
    assert (encoder.token_limit(), await encoder.size()) == (128, 384)


async def test_the_size_of_a_listed_model_is_known_before_it_is_loaded():
    encoder = Models().encoder(Spec(MODEL))

    assert await encoder.size() == 384
    assert encoder.state == "idle"
    assert encoder.token_limit() is None
    assert await encoder.tokenizer_json() is None
    assert await encoder.split("text", 10, 0) is None
    assert await encoder.common(["broken"]) == ()


async def test_where_fastembed_cannot_be_imported_no_model_is_listed(monkeypatch):
    def broken() -> None:
        raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(FastEmbedEncoder, "served", broken)
    encoder = Models().encoder(Spec(MODEL))

    assert await served() == {}
    with pytest.raises(EncoderUnavailable, match="cannot be read"):
        await encoder.size()


async def test_a_query_overtakes_the_documents_of_another_caller(encoder):
    documents = asyncio.create_task(encoder.encode_documents(LONG))
    await asyncio.sleep(0)
    for number in range(2):
        await encoder.encode_query(f"a query in between {number}")

    assert not documents.done()
    assert len(await documents) == len(LONG)


def test_event_loops_in_several_threads_share_a_model(shared, spec):
    found = []

    def ask() -> None:
        async def asked() -> float:
            encoder = await ready(shared.encoder(spec))
            await encoder.encode_documents(["moss", "sun"])
            return (await encoder.encode_query("hello world"))[0]

        found.append(asyncio.run(asked()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(180)

    assert found == [pytest.approx(HELLO_WORLD[0], abs=1e-5)] * 4


async def test_a_reranker_is_waited_for_while_it_is_loaded(folder):
    reranker = Models().reranker(Spec(RERANKER, model_path=folder))

    scores = await reranker.score("red roses", ["moss", "red roses in the sun"], 120)

    assert scores == [-3.0, 1.0]


async def test_a_reranker_that_is_not_there_says_why():
    missing = Models().reranker(Spec("acme/none"))

    with pytest.raises(RerankerUnavailable, match="fastembed has no reranker 'acme/none'") as told:
        await missing.score("red", ["a", "b"], 120)
    assert not told.value.tried


async def test_a_reranker_that_is_being_downloaded_is_not_waited_for(folder, monkeypatch):
    reranker = Models().reranker(Spec(RERANKER, model_path=folder))
    model, go = reranker._model, threading.Event()
    load, downloading = model._open, threading.Event()

    def opened():
        model._become("downloading", "The reranker is being downloaded.")
        downloading.set()
        go.wait(60)
        return load()

    monkeypatch.setattr(model, "_open", opened)
    reranker.start()
    await asyncio.to_thread(downloading.wait, 60)
    with pytest.raises(RerankerUnavailable, match="is being downloaded"):
        await reranker.score("red", ["a", "b"], 120)
    go.set()

    assert await reranker.ready(60)


# One for all, as long as somebody has it


async def test_a_model_is_one_for_all_who_ask_and_goes_with_the_last(shared, spec):
    spec = replace(spec, cache_dir="of this test")
    one, other = shared.encoder(spec), shared.encoder(spec)
    assert one._model is other._model
    await ready(one)
    model = weakref.ref(one._model)

    await one.close()
    assert len(await other.encode_query("still there")) == 384
    await other.close()
    async with asyncio.timeout(60):
        while model() is not None:  # its thread may be about to forget it
            await asyncio.sleep(0.001)
    assert one.state == other.state == "closed"


@pytest.mark.parametrize("everything", [False, True])
async def test_a_closed_model_encodes_nothing_and_does_not_start(spec, everything):
    models = Models()
    encoder = await ready(models.encoder(spec))
    await (models if everything else encoder).close()
    encoder.start()

    assert encoder.state == "closed"
    with pytest.raises(EncoderUnavailable, match="has been closed"):
        await encoder.encode_query("x")


# Faults


async def test_a_wait_that_is_given_up_does_not_end_the_load(spec):
    encoder = Models().encoder(spec)
    encoder.start()
    assert not await encoder.ready(0.0)
    waiting = asyncio.create_task(encoder.ready(60))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting

    await ready(encoder)


async def test_a_model_that_hangs_is_told_left_alone_and_tried_again_and_another_one_works(
    encoder, spec, monkeypatch
):
    monkeypatch.setattr(models, "QUERY_SECONDS", 0.05)
    gate = threading.Event()
    stuck = await ready(Models().encoder(spec))
    model = stuck._model
    model.turns = Turns(0.02)
    monkeypatch.setattr(model, "query", lambda *_: gate.wait(60) and ())

    late = rf"^The model {MODEL} took longer than 0\.05 s\.$"
    with pytest.raises(EncoderUnavailable, match=late):
        await stuck.encode_query("x")
    assert stuck.state == "failed"
    stuck.start()
    with pytest.raises(EncoderUnavailable, match=late):  # at once
        await stuck.encode_query("x")

    monkeypatch.undo()
    assert len(await encoder.encode_query("another one")) == 384
    model._breaker.succeeded()
    stuck.start()
    assert len(await stuck.encode_query("the same")) == 384
    gate.set()
