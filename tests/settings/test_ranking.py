"""The settings of ranking."""

import pytest

from mcp_server_qdrant.app.models import open_rerank
from tests.support import make_settings


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"rerank_url": "http://host"}, "the reranker"),
        ({"rerank_url": "http://host", "rerank_model": "rerank-v3.5"}, "rerank-v3.5"),
    ],
)
def test_what_reranks_follows_from_the_settings(values, name):
    assert open_rerank(make_settings(**values)).reranker.name == name


def test_nothing_reranks_without_a_service():
    assert open_rerank(make_settings(rerank_model="a/b")).reranker is None
