"""fastembed's cross-encoder, run for real on a model of a few nodes."""

import math
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE, Spec
from mcp_server_qdrant.encoders.local.rerank import FastEmbedReranker
from tests.cross_encoder import MODEL, build_cross_encoder
from tests.support import Clock

TEXTS = ["moss and shade", "red roses in the sun", "red paint"]
LOGITS = [-3.0, 1.0, -1.0]
LATER = math.inf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("reranker") / "model")


def reranker_of(model: str = MODEL, **where: Path) -> FastEmbedReranker:
    folders = {name: str(path) for name, path in where.items()}
    return FastEmbedReranker(Spec(model, **folders))


def ready(reranker: FastEmbedReranker) -> FastEmbedReranker:
    reranker.start()
    reranker.loading.result(60)
    assert reranker.state == "ready", reranker.reason
    return reranker


def test_each_text_gets_its_logit(folder):
    reranker = ready(reranker_of(model_path=folder))

    assert reranker.name == MODEL
    assert reranker.score("red roses", TEXTS, LATER) == LOGITS


def test_many_texts_of_all_lengths_keep_their_places(folder):
    reranker = ready(reranker_of(model_path=folder))
    texts = [" ".join(["red"] * (n % 5)) + " moss" * (n % 7) for n in range(3 * BATCH_SIZE + 1)]

    found = reranker.score("red", texts, LATER)

    assert found == [2.0 * (n % 5) - 3 for n in range(len(texts))]


def test_when_the_time_is_over_the_work_ends_after_the_batch_at_hand(folder, monkeypatch):
    reranker = ready(reranker_of(model_path=folder))
    run, read, clock = reranker._loaded.rerank, [], Clock()
    monkeypatch.setattr("mcp_server_qdrant.encoders.local.rerank.monotonic", clock)

    def slow(query, batch):
        read.append(len(batch))
        clock.now += 0.3
        return run(query, batch)

    reranker._loaded.rerank = slow
    with pytest.raises(EncoderUnavailable, match=r"^The reranker took too long\.$"):
        reranker.score("red", ["red"] * 5 * BATCH_SIZE, clock.now + 0.2)

    assert read == [BATCH_SIZE]


def test_broken_unicode_is_mended(folder):
    reranker = ready(reranker_of(model_path=folder))

    assert reranker.score("red \ud800", ["red \udc00"], LATER) == [-1.0]


def test_a_model_that_breaks_while_it_runs_is_told(folder):
    reranker = ready(reranker_of(model_path=folder))

    def broken(query, batch):
        raise RuntimeError("[ONNXRuntimeError] /some/path")

    reranker._loaded.rerank = broken
    with pytest.raises(EncoderUnavailable) as caught:
        reranker.score("red", TEXTS, LATER)

    assert str(caught.value) == f"The reranker {MODEL} failed on this text."
