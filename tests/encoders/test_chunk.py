"""Chunks against the real tokenizer."""

import base64
import random
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from mcp_server_qdrant.core.sentences import RULES
from mcp_server_qdrant.encoders import chunk as chunking
from mcp_server_qdrant.encoders.chunk import (
    BYTES_PER_TOKEN,
    CHARACTERS_PER_TOKEN,
    SPECIAL_TOKENS,
    token_count,
)
from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.local.model import Spec

LIMIT, OVERLAP = 128, 19

PROSE = " ".join(
    f"Sentence number {n} says that the {word} was measured twice, and found to be {n * 7} wide."
    for n, word in enumerate(["door", "river", "throughput", "cardiomyopathy", "Straße"] * 20)
)
TEXTS = {
    "prose": PROSE,
    "emoji": "😀👩‍👩‍👧 é \U0001d4b3 word " * 500,
    "chinese": "向量数据库用于语义搜索。" * 300,
    "unspaced": "向量数据库用于语义搜索" * 1000,
    "code": "def f(x):\n    return {'key': [x ** 2 for _ in range(10)]}\n\n" * 60,
    "markdown": "# Title\n\nSome *text* here, and more of it.\n\n- one\n- two\n\n" * 60,
    "long words": " ".join("x" * (90 + n) for n in range(200)),
    "one word": "a" * 50_000,
    "surrogates": "half \ud800 a pair " * 300,
    "white space": " " * 5000 + "x" + "\n" * 5000 + "y" + "\t" * 500,
}


@pytest.fixture(scope="session")
def tokenizer(model_dir: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer_json(tokenizer: Tokenizer) -> str:
    return tokenizer.to_str()


class Chunk(NamedTuple):
    text: str
    start: int
    end: int


def split(text: str, *, limit: int, tokenizer_json: str | None, overlap: int) -> list[Chunk]:
    """The chunks with their texts."""
    spans = chunking.split(text, limit, tokenizer_json, overlap)
    return [Chunk(text[start:end], start, end) for start, end in spans]


def check_cover(text: str, chunks: list[Chunk]) -> None:
    """Every chunk is where it says, and only white space lies outside all of them."""
    assert all(chunk.text == text[chunk.start : chunk.end] for chunk in chunks)
    assert all(one.start < other.start for one, other in pairwise(chunks))
    reached = 0
    for chunk in chunks:
        assert not text[reached : chunk.start].strip()
        reached = max(reached, chunk.end)
    assert not text[reached:].strip()


@pytest.mark.parametrize("kind", TEXTS)
def test_no_chunk_is_longer_than_the_model_reads(kind, tokenizer, tokenizer_json):
    chunks = split(TEXTS[kind], limit=LIMIT, tokenizer_json=tokenizer_json, overlap=OVERLAP)

    readable = [chunk.text.encode(errors="replace").decode() for chunk in chunks]
    assert len(chunks) > 1
    assert max(len(tokenizer.encode(text)) for text in readable) <= LIMIT
    assert max(len(text) for text in readable) <= LIMIT * CHARACTERS_PER_TOKEN
    check_cover(TEXTS[kind], chunks)


def test_the_real_model_reads_the_last_word_of_every_chunk(model_dir):
    spec = Spec("sentence-transformers/all-MiniLM-L6-v2", model_path=str(model_dir))
    encoder = FastEmbedEncoder(spec)
    encoder.start()
    encoder.loading.result(120)
    chunks = split(
        PROSE, limit=encoder.token_limit, tokenizer_json=encoder.whole_tokenizer, overlap=OVERLAP
    )

    whole = encoder.documents([chunk.text for chunk in chunks])
    shorter = encoder.documents([chunk.text.rsplit(" ", 1)[0] for chunk in chunks])

    assert all(one != other for one, other in zip(whole, shorter, strict=True))


def test_chunks_are_filled(tokenizer, tokenizer_json):
    chunks = split(PROSE, limit=LIMIT, tokenizer_json=tokenizer_json, overlap=OVERLAP)

    sizes = [len(tokenizer.encode(chunk.text)) for chunk in chunks[:-1]]
    assert min(sizes) > LIMIT / 2


def test_neighbours_share_at_most_the_overlap(tokenizer, tokenizer_json):
    text = PROSE.replace(".", "").replace(",", "")
    chunks = split(text, limit=LIMIT, tokenizer_json=tokenizer_json, overlap=OVERLAP)

    shared = [text[other.start : one.end] for one, other in pairwise(chunks)]

    assert all(shared)
    assert max(len(tokenizer.encode(t, add_special_tokens=False)) for t in shared) <= OVERLAP


@pytest.mark.parametrize("text", ["", " ", "one", "  a short text \n", "😀", "\ud800", "# Title"])
@pytest.mark.parametrize("known", [True, False])
def test_a_text_that_fits_is_one_chunk_whole(text, known, tokenizer_json):
    chunks = split(
        text, limit=LIMIT, tokenizer_json=tokenizer_json if known else None, overlap=OVERLAP
    )

    assert chunks == [Chunk(text, 0, len(text))]


def test_special_tokens_count(tokenizer_json):
    fits, longer = (" ".join(["word"] * count) for count in (LIMIT - 2, LIMIT - 1))

    assert len(split(fits, limit=LIMIT, tokenizer_json=tokenizer_json, overlap=0)) == 1
    assert len(split(longer, limit=LIMIT, tokenizer_json=tokenizer_json, overlap=0)) == 2


@pytest.mark.parametrize("kind", TEXTS)
def test_without_a_tokenizer_chunks_keep_a_budget_of_bytes(kind):
    chunks = split(TEXTS[kind], limit=LIMIT, tokenizer_json=None, overlap=OVERLAP)

    sizes = [len(chunk.text.encode(errors="replace")) for chunk in chunks]
    assert max(sizes) <= LIMIT * BYTES_PER_TOKEN
    check_cover(TEXTS[kind], chunks)


def test_without_a_tokenizer_prose_still_fits_the_model(tokenizer):
    chunks = split(PROSE, limit=LIMIT, tokenizer_json=None, overlap=OVERLAP)

    assert max(len(tokenizer.encode(chunk.text)) for chunk in chunks) <= LIMIT


def test_a_heading_stays_with_what_follows(tokenizer_json):
    text = "\n\n".join(f"## Part {n}\n\n" + "Some words on this part. " * 18 for n in range(6))

    chunks = split(text, limit=LIMIT, tokenizer_json=tokenizer_json, overlap=0)

    assert [chunk.text[:9] for chunk in chunks] == [f"## Part {n}" for n in range(6)]


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_a_tiny_limit_still_ends(limit, tokenizer_json):
    chunks = split("some words here", limit=limit, tokenizer_json=tokenizer_json, overlap=50)

    check_cover("some words here", chunks)


def test_long_texts_and_long_words_are_covered(tokenizer_json):
    words = " ".join(random.Random(1).choices(PROSE.split(), k=40_000))
    blob = base64.b64encode(random.Random(2).randbytes(45_000)).decode()

    for text in (words, blob):
        check_cover(text, split(text, limit=LIMIT, tokenizer_json=tokenizer_json, overlap=OVERLAP))


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=600), limit=st.integers(8, 40), overlap=st.integers(0, 40))
def test_any_text_is_covered_and_fits(text, limit, overlap, tokenizer, tokenizer_json):
    chunks = split(text, limit=limit, tokenizer_json=tokenizer_json, overlap=overlap)

    check_cover(text, chunks)
    assert max(len(tokenizer.encode(RULES.sub("", chunk.text))) for chunk in chunks) <= limit


def cut(text: str, limit: int, tokenizer_json: str) -> list[str]:
    chunks = split(text, limit=limit, tokenizer_json=tokenizer_json, overlap=0)
    return [chunk.text.strip("\n") for chunk in chunks]


def test_a_wrapped_paragraph_is_cut_between_sentences(tokenizer_json):
    text = """The disks that were copied from the machine are mounted with the options
`ro,nodev,noexec` so that nothing on them is changed. The dates of access of
the files stay as they were on the day of the attack."""

    end = text.index("The dates")
    assert cut(text, 36, tokenizer_json) == [text[:end], text[end:]]


@pytest.mark.parametrize(
    "lead",
    [
        "Q: Will it run on other systems?\n\n",
        "These are the ways:\n\n",
        "## Other systems\n\n",
        "Other systems\n-------------\n\n",
        "rate_limit (default: no limit)\n: ",
    ],
)
def test_a_line_that_leads_to_the_next_stays_with_it(lead, tokenizer_json):
    answer = "Yes, it is known to run on all of them, the old and the new ones."
    first = "It was written in the year of the flood, long before any of us was born."
    text = f"{first}\n\n{lead}{answer}"
    limit = token_count(f"{lead}{answer}", tokenizer_json) + SPECIAL_TOKENS

    assert cut(text, limit, tokenizer_json) == [text.split("\n", maxsplit=1)[0], f"{lead}{answer}"]


def test_rules_and_underlines_take_no_room(tokenizer_json):
    text = f"Other systems\n{'-' * 60}\nYes, it runs on all of them."

    assert cut(text, 24, tokenizer_json) == [text]


def test_a_part_keeps_the_indentation_of_its_first_line(tokenizer_json):
    text = "\n\n".join(f"    step_{n} = run({n}, again=True)" for n in range(9))

    assert all(part.startswith("    step_") for part in cut(text, 24, tokenizer_json))
