"""The model host, a real process: shared, restarted when it dies, gone after its last client."""

import asyncio
import contextlib
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EncoderUnavailable, RerankerUnavailable
from mcp_server_qdrant.encoders.chunk import split
from mcp_server_qdrant.encoders.local import hosted
from mcp_server_qdrant.encoders.local.hosted import (
    CALL_SECONDS,
    HostedEncoder,
    HostedReranker,
    host_name,
    service,
)
from mcp_server_qdrant.encoders.local.listed import SIZES, Spec
from mcp_server_qdrant.hosting.link import Link
from tests.cross_encoder import MODEL as RERANKER
from tests.cross_encoder import build_cross_encoder
from tests.hosts import pid_of, until

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
HELLO_WORLD = (-0.034478, 0.03102, 0.00673, 0.02611, -0.039362)
IDLE = 0.5


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A busy machine may take longer to start a host and load a model than a query waits."""
    monkeypatch.setattr(hosted, "QUERY_SECONDS", 120.0)
    monkeypatch.setattr("mcp_server_qdrant.hosting.link._HELLO_SECONDS", 120.0)
    monkeypatch.setattr("mcp_server_qdrant.hosting.link.CONNECT_SECONDS", 120.0)


@pytest.fixture
def spec(model_dir: Path) -> Spec:
    return Spec("dense", MODEL, model_path=str(model_dir))


@pytest.fixture
def place(tmp_path: Path):
    return service(tmp_path / "hosts", host_name("test"), IDLE)


@contextlib.asynccontextmanager
async def line(place):
    host = Link(place, CALL_SECONDS)
    try:
        yield host
    finally:
        await host.close()


@contextlib.asynccontextmanager
async def loaded(place, spec: Spec):
    """A model as one server has it."""
    async with line(place) as host:
        encoder = HostedEncoder(host, spec)
        encoder.start()
        assert await encoder.ready(180), encoder.reason
        yield encoder
        await encoder.close()


# What it can do


@pytest.mark.usefixtures("real_hosts")
async def test_vectors_are_those_that_the_model_makes_anywhere(place, spec):
    async with loaded(place, spec) as encoder:
        query = await encoder.encode_query("hello world")
        texts = [f"{'many words ' * (7 * n % 23)}text number {n}" for n in range(70)]
        vectors = await encoder.encode_documents([*texts, "hello world"])

        assert query[:5] == pytest.approx(HELLO_WORLD, abs=1e-5)
        assert type(query) is tuple
        assert vectors[-1] == pytest.approx(query, abs=1e-5)
        for place_, text in ((0, texts[0]), (37, texts[37])):
            assert vectors[place_] == pytest.approx(await encoder.encode_query(text), abs=1e-5)
        assert await encoder.encode_documents([]) == []


async def test_texts_are_cut_in_the_host_as_they_are_here(place, spec):
    text = "A sentence of some words, and more.\n\n" * 60 + "\ud800 lone"
    async with loaded(place, spec) as encoder:
        tokenizer = await encoder.tokenizer_json()
        spans = await encoder.split(text, 64, 9)

        assert spans == split(text, 64, tokenizer, 9)
        assert len(spans) > 5
        assert await encoder.common(["broken", "brokn"]) == ["broken"]
        assert (encoder.token_limit(), await encoder.size()) == (128, 384)


async def test_the_size_of_a_listed_model_is_known_without_it(place):
    async with line(place) as host:
        encoder = HostedEncoder(host, Spec("dense", MODEL))

        assert await encoder.size() == 384
        assert encoder.state == "idle"
        assert encoder.token_limit() is None
        assert await encoder.tokenizer_json() is None
        assert await encoder.split("text", 10, 0) is None
        assert await encoder.common(["broken"]) == ()
        assert host_is_not_started(place)


def host_is_not_started(place) -> bool:
    return not place.rendezvous.exists()


def test_the_table_of_models_is_fastembeds():
    from fastembed import TextEmbedding

    listed = {one["model"]: one["dim"] for one in TextEmbedding.list_supported_models()}
    assert listed == SIZES


async def test_a_query_overtakes_the_documents_of_another_client(place, spec):
    async with loaded(place, spec) as encoder, loaded(place, spec) as other:
        documents = asyncio.create_task(encoder.encode_documents(["long text " * 100] * 50))
        await asyncio.sleep(0.05)
        for number in range(5):
            await other.encode_query(f"a query in between {number}")

        assert not documents.done()
        assert len(await documents) == 50


@pytest.mark.process
async def test_the_reranker_lives_there_too(place, tmp_path):
    folder = build_cross_encoder(tmp_path / "model")
    async with line(place) as host:
        spec = Spec("rerank", RERANKER, model_path=str(folder))
        reranker = HostedReranker(host, spec)
        reranker.start()

        assert await reranker.ready(180)
        assert await reranker.score("red roses", ["moss", "red roses in the sun"], 5) == [-3.0, 1.0]
        missing = HostedReranker(host, replace(spec, model="acme/none"))
        with pytest.raises(RerankerUnavailable, match="fastembed has no reranker 'acme/none'"):
            await missing.score("red", ["a", "b"], 20)
        await reranker.close()


# One for all


def test_another_version_or_environment_has_a_host_of_its_own():
    assert host_name("1.0", "{}") == host_name("1.0", "{}")
    assert len({host_name("1.0", "{}"), host_name("1.1", "{}"), host_name("1.0", "{1}")}) == 3


async def test_a_model_is_let_go_after_its_last_client_though_the_host_goes_on(place, spec):
    async with loaded(place, spec) as stays:
        pid = pid_of(place.rendezvous)
        async with loaded(place, replace(spec, threads=1)):
            both = memory(pid)
        await until(lambda: memory(pid) < both - 20_000)
        assert len(await stays.encode_query("still there")) == 384


def memory(pid: int) -> int:
    """Anonymous kilobytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


# Faults


async def test_calls_under_way_are_answered_though_the_host_is_killed(place, spec):
    async with loaded(place, spec) as encoder:
        pid = pid_of(place.rendezvous)
        documents = asyncio.create_task(encoder.encode_documents(["long text " * 100] * 12))
        queries = [asyncio.create_task(encoder.encode_query(f"query {n}")) for n in range(9)]
        await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)

        assert all(len(vector) == 384 for vector in await asyncio.gather(*queries))
        assert len(await documents) == 12
        assert pid_of(place.rendezvous) != pid


async def test_a_missing_model_is_told_and_loaded_once_it_has_appeared(place, spec, tmp_path):
    async with line(place) as host:
        encoder = HostedEncoder(host, replace(spec, model_path=str(tmp_path / "model")))
        encoder.start()
        assert not await encoder.ready(180)
        assert encoder.reason == "EMBEDDING_MODEL_PATH is not a folder."

        encoder.start()
        assert encoder.state == "failed", "tried again too soon"
        encoder._breaker.succeeded()
        encoder.start()
        assert not await encoder.ready(180), "the host tries again in a minute, for whoever asks"


async def test_a_host_that_cannot_load_the_model_again_is_told(place, model_dir, tmp_path):
    folder = tmp_path / "model"
    folder.symlink_to(model_dir.resolve(), target_is_directory=True)
    async with loaded(place, Spec("dense", MODEL, model_path=str(folder))) as encoder:
        folder.unlink()
        os.kill(pid_of(place.rendezvous), signal.SIGKILL)

        with pytest.raises(EncoderUnavailable, match="EMBEDDING_MODEL_PATH is not a folder"):
            await encoder.encode_query("a")
        await until(lambda: encoder.state == "failed")
        assert encoder.reason == "EMBEDDING_MODEL_PATH is not a folder."


async def test_a_closed_encoder_encodes_nothing_and_does_not_start(place, spec):
    async with loaded(place, spec) as encoder:
        await encoder.close()
        encoder.start()

        assert encoder.state == "closed"
        with pytest.raises(EncoderUnavailable, match="has been closed"):
            await encoder.encode_query("x")
