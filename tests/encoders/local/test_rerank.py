"""fastembed's cross-encoder, run for real on a model of a few nodes."""

import threading
import time
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.local.listed import Spec
from mcp_server_qdrant.encoders.local.model import BATCH_SIZE
from mcp_server_qdrant.encoders.local.rerank import FastEmbedReranker
from tests.cross_encoder import MODEL, build_cross_encoder

TEXTS = ["moss and shade", "red roses in the sun", "red paint"]
LOGITS = [-3.0, 1.0, -1.0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("reranker") / "model")


def reranker_of(model: str = MODEL, threads: int | None = None, **where: Path) -> FastEmbedReranker:
    folders = {name: str(path) for name, path in where.items()}
    return FastEmbedReranker(Spec("rerank", model, threads=threads, **folders))


def ready(reranker: FastEmbedReranker) -> FastEmbedReranker:
    reranker.start()
    reranker.loaded(60)
    return reranker


def test_each_text_gets_its_logit(folder):
    reranker = ready(reranker_of(model_path=folder))

    assert reranker.name == MODEL
    assert reranker.score("red roses", TEXTS, 5) == LOGITS


def test_a_call_waits_for_a_model_that_is_being_loaded(folder):
    reranker = reranker_of(model_path=folder)

    assert reranker.state == "idle"
    reranker.start()
    assert reranker.score("red roses", TEXTS, 120) == LOGITS


def test_many_texts_of_all_lengths_keep_their_places(folder):
    reranker = ready(reranker_of(model_path=folder, threads=1))
    texts = [" ".join(["red"] * (n % 5)) + " moss" * (n % 7) for n in range(3 * BATCH_SIZE + 1)]

    found = reranker.score("red", texts, 5)

    assert found == [2.0 * (n % 5) - 3 for n in range(len(texts))]


def test_when_the_time_is_over_the_work_ends_after_the_batch_at_hand(folder):
    reranker = ready(reranker_of(model_path=folder))
    model, batches = reranker.loaded(), []
    run = model.rerank

    def slow(query, batch):
        batches.append(len(batch))
        time.sleep(0.3)
        return run(query, batch)

    model.rerank = slow
    with pytest.raises(EncoderUnavailable, match=r"^The reranker took longer than 0.2 s\.$"):
        reranker.score("red", ["red"] * 5 * BATCH_SIZE, 0.2)
    model.rerank = run

    assert reranker.score("red roses", TEXTS, 5) == LOGITS  # it is free again
    assert batches == [BATCH_SIZE]


def test_a_call_does_not_wait_longer_for_another_than_it_may(folder):
    reranker = ready(reranker_of(model_path=folder))
    with reranker._turn, pytest.raises(EncoderUnavailable, match=r"longer than 0\.1 s"):
        reranker.score("red", TEXTS, 0.1)

    assert reranker.score("red roses", TEXTS, 5) == LOGITS


def test_broken_unicode_is_mended(folder):
    reranker = ready(reranker_of(model_path=folder))

    assert reranker.score("red \ud800", ["red \udc00"], 5) == [-1.0]


def reason(reranker: FastEmbedReranker, seconds: float = 120) -> str:
    """Why it is not tried."""
    reranker.start()
    with pytest.raises(EncoderUnavailable) as caught:
        reranker.score("red", TEXTS, seconds)
    return str(caught.value)


def test_after_a_failure_loading_is_tried_again_once_some_time_has_passed(folder, tmp_path):
    reranker = reranker_of(model_path=tmp_path / "new")
    assert reason(reranker) == "RERANK_MODEL_PATH is not a folder."
    (tmp_path / "new").symlink_to(folder, target_is_directory=True)
    assert reason(reranker) == "RERANK_MODEL_PATH is not a folder."

    reranker._breaker.succeeded()
    ready(reranker)
    assert reranker.score("red roses", TEXTS, 60) == LOGITS


def test_a_model_that_breaks_while_it_runs_is_told(folder):
    reranker = ready(reranker_of(model_path=folder))

    def broken(query, batch):
        raise RuntimeError("[ONNXRuntimeError] /some/path")

    reranker.loaded().rerank = broken
    with pytest.raises(EncoderUnavailable) as caught:
        reranker.score("red", TEXTS, 5)

    assert str(caught.value) == f"The reranker {MODEL} failed on this text."


def test_a_download_is_not_waited_for(folder, monkeypatch):
    """The state is as it is while fastembed downloads."""
    go = threading.Event()
    reranker = reranker_of(model_path=folder)
    load = reranker._open

    def downloading():
        reranker._become("downloading", "The reranker is being downloaded.")
        go.wait(30)
        return load()

    monkeypatch.setattr(reranker, "_open", downloading)
    told = reason(reranker)
    go.set()

    assert told == "The reranker is being downloaded."
    reranker.wait_while("downloading", 60)
    assert reranker.score("red roses", TEXTS, 60) == LOGITS
