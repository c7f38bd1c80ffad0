"""The settings of ranking."""

import pytest

from mcp_server_qdrant.app.models import open_rerank
from mcp_server_qdrant.encoders.local.models import LocalReranker, Models
from mcp_server_qdrant.encoders.remote.rerank import HttpReranker
from tests.support import make_settings


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
