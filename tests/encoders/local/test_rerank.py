"""fastembed's cross-encoder, run for real on a model of a few nodes."""

import asyncio
import threading
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import RerankerUnavailable
from mcp_server_qdrant.encoders.local.rerank import BATCH_SIZE, FastEmbedReranker
from tests.cross_encoder import MODEL, build_cross_encoder

TEXTS = ["moss and shade", "red roses in the sun", "red paint"]
LOGITS = [-3.0, 1.0, -1.0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("reranker") / "model")


@pytest.fixture
def cache(folder: Path, tmp_path: Path) -> Path:
    """A fastembed cache that holds the model, as a finished download leaves it."""
    repo = tmp_path / "cache" / f"models--{MODEL.replace('/', '--')}"
    (repo / "snapshots").mkdir(parents=True)
    (repo / "snapshots" / "local").symlink_to(folder, target_is_directory=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("local")
    return tmp_path / "cache"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


async def ready(reranker: FastEmbedReranker) -> FastEmbedReranker:
    reranker.start()
    assert await reranker.ready(60), reranker.reason
    return reranker


async def test_each_text_gets_its_logit(folder):
    reranker = await ready(FastEmbedReranker(model_path=folder))

    assert reranker.name == MODEL
    assert reranker.logits
    assert await reranker.score("red roses", TEXTS, 5) == LOGITS
    await reranker.close()


async def test_the_threads_of_the_model_stop_spinning_after_a_call(folder):
    reranker = await ready(FastEmbedReranker(model_path=folder))
    session = reranker._model.model.model
    await reranker.close()

    options = session.get_session_options()
    assert options.get_session_config_entry("session.force_spinning_stop") == "1"


async def test_the_first_call_loads_the_model_and_waits_for_it(folder):
    reranker = FastEmbedReranker(model_path=folder)

    assert reranker.state == "idle"
    assert await reranker.score("red roses", TEXTS, 120) == LOGITS
    await reranker.close()


@pytest.mark.usefixtures("offline")
async def test_a_model_in_the_cache_needs_no_network(cache):
    reranker = await ready(FastEmbedReranker(cache_dir=cache))

    assert await reranker.score("red roses", TEXTS, 5) == LOGITS
    await reranker.close()


async def test_many_texts_of_all_lengths_keep_their_places(folder):
    reranker = await ready(FastEmbedReranker(model_path=folder, threads=1))
    texts = [" ".join(["red"] * (n % 5)) + " moss" * (n % 7) for n in range(3 * BATCH_SIZE + 1)]

    found = await reranker.score("red", texts, 5)

    assert found == [2.0 * (n % 5) - 3 for n in range(len(texts))]
    await reranker.close()


async def test_a_caller_that_gives_up_ends_the_work_after_the_batch_at_hand(folder):
    reranker = await ready(FastEmbedReranker(model_path=folder))
    begun, go, batches = threading.Event(), threading.Event(), []
    run = reranker._model.rerank

    def slow(query, batch):
        batches.append(len(batch))
        begun.set()
        go.wait(30)
        return run(query, batch)

    reranker._model.rerank = slow
    call = asyncio.ensure_future(reranker.score("red", ["red"] * 5 * BATCH_SIZE, 5))
    await asyncio.to_thread(begun.wait, 30)
    call.cancel()
    await asyncio.wait([call])
    go.set()
    reranker._model.rerank = run

    assert await reranker.score("red roses", TEXTS, 5) == LOGITS  # the thread is free again
    assert batches == [BATCH_SIZE]
    await reranker.close()


async def test_broken_unicode_is_mended(folder):
    reranker = await ready(FastEmbedReranker(model_path=folder))

    assert await reranker.score("red \ud800", ["red \udc00"], 5) == [-1.0]
    await reranker.close()


async def unavailable(reranker: FastEmbedReranker, seconds: float = 60) -> RerankerUnavailable:
    with pytest.raises(RerankerUnavailable) as caught:
        await reranker.score("red", TEXTS, seconds)
    return caught.value


@pytest.mark.usefixtures("offline")
async def test_a_model_that_is_nowhere_is_told_and_not_held_against_it(tmp_path):
    reranker = FastEmbedReranker(cache_dir=tmp_path)
    error = await unavailable(reranker, 240)

    assert str(error) == (
        f"The reranker {MODEL} is not in the cache and could not be downloaded; "
        "RERANK_MODEL_PATH may name a folder that has it."
    )
    assert not error.tried
    assert str(tmp_path) not in str(error)


async def test_after_a_failure_loading_is_tried_again_once_some_time_has_passed(tmp_path):
    reranker = FastEmbedReranker(model_path=tmp_path)
    await unavailable(reranker)
    build_cross_encoder(tmp_path / "new")

    assert str(await unavailable(reranker)) == f"The files of the reranker {MODEL} cannot be read."

    reranker._options["specific_model_path"] = str(tmp_path / "new")
    reranker.retry_after = 0.0
    assert await reranker.score("red roses", TEXTS, 60) == LOGITS
    await reranker.close()


async def test_a_model_that_fastembed_does_not_know_is_named():
    error = await unavailable(FastEmbedReranker("someone/else"))

    assert str(error) == "fastembed has no reranker 'someone/else'."


async def test_a_model_that_breaks_while_it_runs_is_told(folder):
    reranker = await ready(FastEmbedReranker(model_path=folder))

    def broken(query, batch):
        raise RuntimeError("[ONNXRuntimeError] /some/path")

    reranker._model.rerank = broken
    error = await unavailable(reranker)

    assert str(error) == f"The reranker {MODEL} failed."
    assert error.tried
    await reranker.close()


async def test_a_closed_reranker_says_so(folder):
    reranker = await ready(FastEmbedReranker(model_path=folder))
    await reranker.close()

    assert str(await unavailable(reranker)) == f"The reranker {MODEL} has been closed."


async def test_a_download_is_not_waited_for(folder, monkeypatch, tmp_path):
    """The state is as it is while fastembed downloads."""
    begun, go = threading.Event(), threading.Event()
    reranker = FastEmbedReranker(model_path=folder)
    load = reranker._open

    def downloading():
        reranker.state, reranker.reason = "downloading", "The reranker is being downloaded."
        begun.set()
        go.wait(30)
        return load()

    monkeypatch.setattr(reranker, "_open", downloading)
    reranker.start()
    await asyncio.to_thread(begun.wait, 30)
    error = await unavailable(reranker)
    go.set()

    assert str(error) == "The reranker is being downloaded."
    assert not error.tried
    assert await reranker.ready(60)
    await reranker.close()
