"""The real model through fastembed; the network is never asked."""

import json
import math
import socket
import subprocess
import sys
from concurrent.futures import wait
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.model import Spec

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
HELLO_WORLD = (-0.034478, 0.03102, 0.00673, 0.02611, -0.039362)


def encoder_of(model: str = MODEL, **where: Path) -> FastEmbedEncoder:
    return FastEmbedEncoder(Spec(model, **{name: str(path) for name, path in where.items()}))


def loaded(encoder: FastEmbedEncoder, seconds: float = 60) -> bool:
    """Whether it is ready, after a wait for a load under way."""
    wait([encoder.loading], seconds)
    return encoder.state == "ready"


@pytest.fixture(scope="module")
def encoder(model_dir: Path) -> FastEmbedEncoder:
    encoder = encoder_of(model_path=model_dir)
    encoder.start()
    assert loaded(encoder), encoder.reason
    return encoder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


# Vectors


def test_the_vector_is_the_one_the_hubs_model_gives(encoder):
    vector = encoder.query("hello world")

    assert vector[:5] == pytest.approx(HELLO_WORLD, abs=1e-5)
    assert type(vector[0]) is float
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("word", "known"), [("broken", True), ("Drive", True), ("brokn", False), ("wiregaurd", False)]
)
def test_the_model_knows_what_is_common_in_its_language(encoder, word, known):
    assert (word in encoder.common([word])) is known


def test_one_odd_text_does_not_lose_the_batch(encoder):
    odd = ["\ud800 lone", "\ud83d\ude00 smile", "", "a\x00b", "x" * 100_000, "hello world"]

    vectors = encoder.documents(odd)

    assert [len(vector) for vector in vectors] == [384, 384, 384, 384, 0, 384]
    assert vectors[1] == pytest.approx(encoder.query("😀 smile"), abs=1e-5)
    assert vectors[-1][:5] == pytest.approx(HELLO_WORLD, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("ประชุมวันจันทร์", 0),  # no token of it is known: it is one with every other such text
        ("ราคา 20 บาท, 10:30!!!", 0),
        ("บันทึกการประชุมวันจันทร์ server", 0),
        ("ក្ដីស្រឡាញ់", 0),
        ("ክላሲክ ሙዚቃ", 0),
        ("გამარჯობა მსოფლიო", 0),
        ("🎉", 0),
        ("🎉🚀 2026!", 0),
        ("QmFzZTY0" * 20, 0),  # a word beyond the tokenizer's longest
        ("search_query: ስንት ሰዓት", 14),  # a prefix is none of the text's words
    ],
)
def test_what_the_tokenizer_knows_only_as_unknown_has_no_vector(encoder, text, prefix):
    assert encoder.documents([text, "hello world"], prefix)[0] == []
    with pytest.raises(EncoderUnavailable, match="does not know these characters"):
        encoder.query(text, prefix=prefix)


@pytest.mark.parametrize(
    "text",
    [
        "🎉 party",
        "встреча в десять",
        "你好世界 今天的天气怎么样",
        "猫 in Japanese is a cat",
        "key of the harbour gate: " + "QmFzZTY0" * 20,
        "Tom Smith asked about ประชุมวันจันทร์",
        "10:30",
        "",
    ],
)
def test_what_is_known_for_the_most_part_keeps_its_vector(encoder, text):
    assert len(encoder.documents([text])[0]) == len(encoder.query(text)) == 384


# What the model is


def test_its_limits_are_read_from_the_tokenizer(encoder):
    tokenizer = json.loads(encoder.whole_tokenizer)

    assert encoder.token_limit == 128
    assert tokenizer["truncation"] is None
    assert tokenizer["padding"] is None


# Loading


def test_nothing_is_encoded_before_it_is_started():
    encoder = encoder_of()

    assert not loaded(encoder, 1)
    with pytest.raises(EncoderUnavailable, match=f"^The model {MODEL} is not loaded yet.$"):
        encoder.query("x")


def test_it_loads_from_the_cache_without_network(model_cache):
    encoder = encoder_of(cache_dir=model_cache)

    encoder.start()

    assert encoder.state == "loading"
    assert encoder.reason == f"The model {MODEL} is being loaded."
    with pytest.raises(EncoderUnavailable, match="is being loaded"):
        encoder.query("x")
    assert loaded(encoder)
    assert (encoder.state, encoder.reason) == ("ready", None)


@pytest.mark.usefixtures("offline")
def test_without_model_and_network_it_fails_at_once_and_says_so(tmp_path):
    encoder = encoder_of(cache_dir=tmp_path)
    encoder.start()

    assert not loaded(encoder, 10)

    sentence = (
        f"The model {MODEL} is not in the cache and could not be downloaded. Set "
        "FASTEMBED_CACHE_PATH to a cache that has it."
    )
    assert (encoder.state, encoder.reason) == ("failed", sentence)
    with pytest.raises(EncoderUnavailable, match=sentence):
        encoder.query("x")


@pytest.mark.usefixtures("offline")
def test_it_loads_once_the_model_has_appeared(tmp_path, put_model):
    encoder = encoder_of(cache_dir=tmp_path)
    encoder.start()
    assert not loaded(encoder, 10)
    put_model(tmp_path)

    encoder.start()
    assert encoder.state == "failed", "tried again too soon"
    encoder._breaker.succeeded()
    encoder.start()

    assert loaded(encoder)
    assert len(encoder.query("x")) == 384


@pytest.mark.parametrize(
    "below", ["all-MiniLM-L6-v2", "one", "models--Qdrant--all-MiniLM-L6-v2-onnx/snapshots/1"]
)
def test_a_model_is_found_one_level_down_and_in_a_cache(tmp_path, model_dir, below):
    (tmp_path / below).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / below).symlink_to(model_dir.resolve(), target_is_directory=True)
    encoder = encoder_of(model_path=tmp_path)

    assert encoder._folder(tmp_path, "model.onnx") == tmp_path / below
    if below != "one":  # its name tells it from another one
        (tmp_path / "a").symlink_to(model_dir.resolve(), target_is_directory=True)
        assert encoder._folder(tmp_path, "model.onnx") == tmp_path / below


@pytest.mark.parametrize(
    ("name", "folder", "reason"),
    [
        (MODEL, "nowhere", "EMBEDDING_MODEL_PATH is not a folder."),
        (MODEL, "", f"EMBEDDING_MODEL_PATH has no model.onnx of {MODEL}, nor has a folder in it"),
        ("acme/none", "", "fastembed has no model 'acme/none'."),
        ("all-MiniLM-L6-v2", "", f"Did you mean '{MODEL}'?"),
    ],
)
def test_why_there_is_no_model_is_one_sentence_without_a_path(tmp_path, name, folder, reason):
    encoder = encoder_of(name, model_path=tmp_path / folder)
    encoder.start()

    assert not loaded(encoder, 10)
    assert reason in encoder.reason
    assert str(tmp_path) not in encoder.reason


def test_a_damaged_model_is_told_without_its_path(tmp_path, model_dir, caplog):
    for file in model_dir.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    (tmp_path / "model.onnx").unlink()
    (tmp_path / "model.onnx").write_text("not a model")
    encoder = encoder_of(model_path=tmp_path)
    encoder.start()

    assert not loaded(encoder, 10)
    assert encoder.reason == f"The files of the model {MODEL} cannot be read."
    assert "Loading the model failed" in caplog.text


STUCK = f"""
import sys
import time
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.model import Spec
from mcp_server_qdrant.core.errors import EncoderUnavailable

encoder = FastEmbedEncoder(Spec({MODEL!r}, sys.argv[1]))
encoder.start()
while encoder.state == "loading":
    time.sleep(0.01)
try:
    encoder.query("x")
except EncoderUnavailable as error:
    print(encoder.state, error)
"""


def test_a_stuck_download_blocks_neither_calls_nor_the_end_of_the_process(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

        ended = subprocess.run(
            [sys.executable, "-c", STUCK, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )

    assert ended.stdout == f"downloading The model {MODEL} is being downloaded.\n"
    assert ended.stderr == ""


def test_the_threads_of_the_model_stop_spinning_after_a_query(model_dir):
    encoder = encoder_of(model_path=model_dir)
    encoder.start()
    assert loaded(encoder)

    session = encoder._loaded.model.model

    options = session.get_session_options()
    assert options.get_session_config_entry("session.force_spinning_stop") == "1"
