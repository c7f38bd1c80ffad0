"""Which model a collection is asked with."""

from pathlib import Path
from typing import get_args

import pytest

from mcp_server_qdrant.core.datatypes import ModelChoice, Provider
from mcp_server_qdrant.encoders.prefixes import prefixes_of
from mcp_server_qdrant.encoders.registry import NO_MODEL, PLAIN, Registry, split_provider
from tests.fakes import FakeEncoder

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
E5 = "intfloat/multilingual-e5-large"


def prefixed(name: str) -> FakeEncoder:
    encoder = FakeEncoder(name)
    encoder.prefixes = prefixes_of(name)
    return encoder


def choice(default: str = MINILM, provider: str = "fastembed", *mapping, **options) -> Registry:
    options |= {"provider": provider, "mapping": mapping}
    return Registry(prefixed(default), prefixed, **options)


async def model_of(known: Registry, metadata=None, vectors=("v",), name: str = "notes"):
    return await known.choose(name, metadata or {}, vectors)


def made_by(model: str, provider: str = "fastembed", **rest: str) -> dict[str, str]:
    return {"embedding_model": model, "embedding_provider": provider} | rest


async def test_where_nothing_names_a_model_it_is_the_default_one():
    assert await model_of(choice()) == ModelChoice(MINILM)
    assert await model_of(choice(), {"embedding_model": 7}) == ModelChoice(MINILM)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (made_by(MINILM), MINILM),
        (made_by("BAAI/bge-small-en-v1.5"), "BAAI/bge-small-en-v1.5"),
        (made_by("text-embedding-3-small", "openai"), "openai:text-embedding-3-small"),
        ({"embedding_model": "acme/Model"}, "acme/Model"),
        (made_by("acme/Model", "langchain"), "acme/Model"),
    ],
)
async def test_the_metadata_names_model_and_provider(metadata, expected):
    assert await model_of(choice(), metadata) == ModelChoice(expected, certain=True)


async def test_a_model_that_another_provider_serves_is_the_same_model():
    known = choice("acme/all-minilm-l6-v2", "openai")

    found = await model_of(known, made_by(MINILM), ("fast-all-minilm-l6-v2",))

    assert found == ModelChoice("acme/all-minilm-l6-v2", certain=True)


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        (("fast-all-minilm-l6-v2",), MINILM),
        (("fast-bge-small-en-v1.5",), "BAAI/bge-small-en-v1.5"),
        (("dense", "fast-bge-small-en-v1.5"), "BAAI/bge-small-en-v1.5"),
        (("text-embedding-3-small",), "openai:text-embedding-3-small"),
        (("text-embedding-3-large@256",), "openai:text-embedding-3-large@256"),
    ],
)
async def test_else_the_vectors_name_tells_the_model(vectors, expected):
    assert await model_of(choice(), {}, vectors) == ModelChoice(expected, certain=True)


async def test_the_servers_own_provider_is_not_named():
    known = choice("text-embedding-3-large", "openai")

    found = await model_of(known, made_by("text-embedding-3-small", "openai"))

    assert found.model == "text-embedding-3-small"


async def test_a_vector_of_a_model_that_nobody_knows_is_a_guess():
    assert await model_of(choice(), {}, ("fast-acme",)) == ModelChoice(MINILM)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("notes", "a/One"), ("docs-x", "b/Two"), ("docs-y", "openai:c"), ("else", MINILM)],
)
async def test_the_setting_wins_and_names_count_before_globs(name, expected):
    known = choice(
        MINILM, "fastembed", ("docs-*", "b/Two"), ("notes", "a/One"), ("docs-y", "openai:c")
    )

    assert (await model_of(known, made_by(MINILM), name=name)).model == expected


async def test_with_no_provider_only_the_setting_gives_a_model():
    known = choice("none", "none", ("docs", "fastembed:b/Two"))

    assert await model_of(known, made_by(MINILM)) == ModelChoice(None, fault=NO_MODEL)
    assert (await model_of(known, name="docs")).model == "fastembed:b/Two"


# Prefixes


async def test_passages_that_were_stored_without_prefix_are_asked_without():
    assert (await model_of(choice(E5))).model == E5 + PLAIN
    assert (await model_of(choice(E5), made_by(E5))).model == E5 + PLAIN


async def test_passages_that_were_stored_with_prefix_are_asked_with():
    stored = made_by(E5, embedding_passage_prefix="passage: ")

    assert (await model_of(choice(E5), stored)).model == E5


async def test_a_prefix_that_only_queries_have_suits_all_passages():
    assert (await model_of(choice("BAAI/bge-small-en-v1.5"))).model == "BAAI/bge-small-en-v1.5"


async def test_passages_after_another_prefix_are_not_searched_and_that_is_said():
    found = await model_of(choice(E5), made_by(E5, embedding_passage_prefix="text: "))

    assert found.model is None
    assert found.fault == (
        "its passages were encoded after 'text: ', which is not this model's prefix: run "
        f"mcp-server-qdrant upgrade --model {E5} for it"
    )


async def test_the_prefix_in_the_metadata_is_that_of_its_model_not_of_the_one_before():
    upgraded = made_by(E5, embedding_passage_prefix="passage: ")
    back = choice(E5, "fastembed", ("notes", MINILM))
    forth = choice(MINILM, "fastembed", ("notes", E5))

    assert await model_of(back, upgraded) == ModelChoice(MINILM, certain=True)
    assert await model_of(forth, made_by(MINILM)) == ModelChoice(E5, certain=True)


async def test_a_model_without_prefixes_shares_the_encoder_with_the_one_with_them():
    made = []

    def make(name: str) -> FakeEncoder:
        made.append(prefixed(name))
        return made[-1]

    encoders = Registry(FakeEncoder(), make)
    await encoders.encode_query(E5, "roses")
    await encoders.encode_query(E5 + PLAIN, "roses")

    (inner,) = made
    assert inner.name == E5
    assert inner.queries == ["query: roses", "roses"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:m", ("openai", "m")),
        ("nomic-embed-text:v1.5", ("fastembed", "nomic-embed-text:v1.5")),
        ("openai:bge-m3:567m", ("openai", "bge-m3:567m")),
    ],
)
def test_a_tag_is_no_provider(name, expected):
    assert split_provider(name, "fastembed") == expected


@pytest.mark.parametrize("name", get_args(Provider))
def test_a_provider_is_in_the_docs(name):
    page = Path(__file__).parent.parent.parent / "docs" / "models.md"
    assert f"\n| `{name}` |" in page.read_text(encoding="utf-8")
