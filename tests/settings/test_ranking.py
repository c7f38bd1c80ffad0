"""The settings of ranking."""

import pytest

from mcp_server_qdrant.app.models import open_rerank
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.encoders.local.hosted import HostedReranker
from mcp_server_qdrant.encoders.remote.rerank import HttpReranker
from tests.support import make_settings


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"QDRANT_RECENCY_WEIGHT": "1.1"},
            "QDRANT_RECENCY_WEIGHT: must be at most 1.",
        ),
        ({"RERANK_TIMEOUT": "0"}, "RERANK_TIMEOUT: must be greater than 0."),
        ({"RERANK_TIMEOUT": "inf"}, "RERANK_TIMEOUT: must be a number."),
        ({"RERANK_MODEL_PATH": "/nowhere"}, "RERANK_MODEL_PATH: is not a folder."),
        (
            {"RERANK_URL": "host:8080"},
            "RERANK_URL: must be a URL such as https://host:8080/path.",
        ),
        ({"RERANK_PROVIDER": "tei"}, "RERANK_PROVIDER=tei needs RERANK_URL."),
        (
            {"RERANK_PROVIDER": "none", "RERANK_URL": "http://host"},
            "RERANK_URL is not used with RERANK_PROVIDER=none.",
        ),
    ],
)
def test_a_wrong_value_is_named(loaded, variables, sentence):
    with pytest.raises(ConfigError) as caught:
        loaded(**variables)

    assert str(caught.value) == sentence


def test_the_key_is_masked(loaded):
    settings = loaded(RERANK_URL="http://host", RERANK_API_KEY="s3cr3t")

    assert "s3cr3t" not in f"{settings!r}{settings}"


@pytest.mark.parametrize(
    ("values", "kind", "name"),
    [
        ({}, HostedReranker, "Xenova/ms-marco-MiniLM-L-6-v2"),
        ({"rerank_provider": "fastembed", "rerank_model": "a/b"}, HostedReranker, "a/b"),
        ({"rerank_url": "http://host"}, HttpReranker, "the reranker"),
        ({"rerank_url": "http://host", "rerank_provider": "tei"}, HttpReranker, "tei"),
        ({"rerank_provider": "cohere"}, HttpReranker, "rerank-v3.5"),
        ({"rerank_provider": "jina"}, HttpReranker, "jina-reranker-v2-base-multilingual"),
    ],
)
def test_what_reranks_follows_from_the_settings(values, kind, name):
    settings = make_settings(**values)
    reranker = open_rerank(settings).reranker

    assert type(reranker) is kind
    assert reranker.name == name
    assert open_rerank(make_settings(rerank_provider="none")).reranker is None


@pytest.mark.parametrize("value", ["1.1", "-1", "much"])
def test_a_share_that_makes_no_sense_is_refused(loaded, value):
    with pytest.raises(ConfigError, match="HYBRID_ALPHA"):
        loaded(HYBRID_ALPHA=value)
