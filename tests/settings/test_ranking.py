"""The settings of ranking."""

import pytest

from mcp_server_qdrant.app.models import open_rerank
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.encoders.local.models import LocalReranker, Models
from mcp_server_qdrant.encoders.remote.rerank import HttpReranker
from tests.support import make_settings


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"QDRANT_RECENCY_WEIGHT": "1.1"},
            "QDRANT_RECENCY_WEIGHT: must be at most 1.",
        ),
        (
            {"RERANK_URL": "host:8080"},
            "RERANK_URL: must be a URL such as https://host:8080/path.",
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
        ({}, LocalReranker, "Xenova/ms-marco-MiniLM-L-6-v2"),
        ({"rerank_model": "a/b"}, LocalReranker, "a/b"),
        ({"rerank_url": "http://host"}, HttpReranker, "the reranker"),
        ({"rerank_url": "http://host", "rerank_model": "rerank-v3.5"}, HttpReranker, "rerank-v3.5"),
    ],
)
def test_what_reranks_follows_from_the_settings(values, kind, name):
    settings = make_settings(**values)
    reranker = open_rerank(settings, Models()).reranker

    assert type(reranker) is kind
    assert reranker.name == name


@pytest.mark.parametrize("value", ["1.1", "-1", "much"])
def test_a_share_that_makes_no_sense_is_refused(loaded, value):
    with pytest.raises(ConfigError, match="HYBRID_ALPHA"):
        loaded(HYBRID_ALPHA=value)
