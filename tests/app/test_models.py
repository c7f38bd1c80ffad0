"""From the settings to the encoders."""

import subprocess
import sys

import pytest

from mcp_server_qdrant.app.models import NO_PROVIDER, blueprint, open_encoders
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.encoder import NoEncoder
from mcp_server_qdrant.encoders.local.models import LocalEncoder, Models
from mcp_server_qdrant.encoders.prefixes import Prefixes
from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from tests.support import make_settings

SERVER = "https://cluster.example"
E5 = "intfloat/multilingual-e5-large"


def encoders(**values):
    return open_encoders(make_settings(**values), Models())


@pytest.mark.parametrize("name", ["openai:text-embedding-3-small", "openai:b"])
async def test_a_service_that_nobody_asked_for_is_not_used_and_that_is_said(name):
    """A collection's metadata must not send queries to a service for money."""
    encoder = encoders(openai_api_key="sk-x").get(name)

    assert type(encoder) is NoEncoder
    with pytest.raises(EncoderUnavailable, match="COLLECTION_MODELS"):
        await encoder.encode_query("roses")


def test_a_service_that_the_setting_names_for_a_collection_is_used():
    registry = encoders(openai_api_key="sk-x", collection_models="a=openai:m")

    assert type(registry.get("openai:m")) is OpenAIEncoder
    assert type(registry.get("fastembed:a/b")) is LocalEncoder


def test_prefixes_are_those_of_the_model():
    found = encoders(embedding_model=E5)

    assert found.default.prefixes == Prefixes("query: ", "passage: ")
    assert found.get("BAAI/bge-small-en").prefixes.query.startswith("Represent")


LARGE, SMALL = "text-embedding-3-large", "text-embedding-3-small"


@pytest.mark.parametrize(
    ("values", "vector", "size", "model", "provider"),
    [
        ({"embedding_model": E5}, "fast-multilingual-e5-large", 1024, E5, "fastembed"),
        (
            {"embedding_provider": "openai", "embedding_model": LARGE},
            *(LARGE, 3072, LARGE, "openai"),
        ),
        ({"collection_models": f"docs-*=openai:{SMALL}"}, SMALL, 1536, SMALL, "openai"),
        ({"embedding_provider": "none"}, None, 0, "none", "none"),
    ],
)
async def test_a_new_collection_has_the_vector_of_its_model_and_says_what_made_it(
    values, vector, size, model, provider
):
    settings = make_settings(**values)
    plan = await blueprint(settings, open_encoders(settings, Models()), "docs-x")
    prefix = {"embedding_passage_prefix": "passage: "} if model == E5 else {}

    assert (plan.vector, plan.size) == (vector, size)
    assert plan.metadata.pop("created_by").startswith("mcp-server-qdrant ")
    assert plan.metadata == {"embedding_model": model, "embedding_provider": provider} | prefix


def test_without_a_provider_the_default_encoder_says_so():
    assert encoders(embedding_provider="none").default.reason == NO_PROVIDER


def test_the_default_model_can_be_started_before_qdrant_client_is_imported():
    code = (
        "import sys, mcp_server_qdrant.app.models\n"
        "assert not {'qdrant_client', 'fastembed', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


async def test_a_model_is_one_for_all_settings_that_load_it_alike():
    models = Models()
    one = open_encoders(make_settings(hybrid_alpha=0.5), models).default
    other = open_encoders(make_settings(), models).default

    assert one._model is other._model
