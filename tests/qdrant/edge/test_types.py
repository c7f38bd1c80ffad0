"""Plain data becomes Edge types, and models become plain data."""

import pytest
import qdrant_edge as edge

from mcp_server_qdrant.core.errors import InvalidFilter, RequestError
from mcp_server_qdrant.qdrant.edge import types


@pytest.fixture
def shard(tmp_path):
    params = {"d": {"size": 2, "distance": "Dot"}}
    shard = edge.EdgeShard.create(str(tmp_path / "s"), types.shard_config(params, {"s": {}}))
    points = [edge.Point(i, {"d": [float(i), 1.0]}, {"b": i % 2 == 0, "n": i}) for i in range(6)]
    shard.update(edge.UpdateOperation.upsert_points(points))
    yield shard
    shard.close()


@pytest.mark.parametrize(
    "condition",
    [
        {"slice": {"index": 0, "total": 2}},
        {"key": "a"},
        {"key": "a", "match": {"like": "x"}},
        {"whatever": 1},
    ],
)
def test_a_condition_nobody_knows_is_refused(condition):
    with pytest.raises(InvalidFilter):
        types.to_filter({"must": [condition]})


def test_an_empty_filter_is_not_a_condition_without_meaning():
    assert types.to_filter(None) is None
    assert isinstance(types.to_filter({"must": [{}]}).must[0], edge.Filter)


def test_int8_results_are_rescored_and_exact_ones_go_past_the_codes():
    usual = types.search_params().quantization
    exact = types.search_params(exact=True)

    assert (usual.rescore, usual.oversampling, usual.ignore) == (True, 2.0, False)
    assert (exact.exact, exact.quantization.ignore) == (True, True)


@pytest.mark.parametrize(
    "index",
    [
        *("keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid"),
        {"type": "integer", "lookup": True, "range": False},
        {"type": "keyword", "is_tenant": True},
        {"type": "text", "tokenizer": "multilingual"},
    ],
)
def test_every_payload_index_can_be_made(shard, index):
    shard.update(edge.UpdateOperation.create_field_index("f", types.index_params(index)))
    kind = index if isinstance(index, str) else index["type"]

    assert types.index_type(shard.info().payload_schema["f"]) == kind


def test_an_index_type_nobody_knows_is_refused():
    with pytest.raises(RequestError, match="trie"):
        types.index_params("trie")
