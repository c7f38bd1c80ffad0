"""Plain data becomes Edge types, and models become plain data."""

from datetime import UTC, date, datetime
from uuid import UUID

import pytest
import qdrant_edge as edge
from qdrant_client import models

from mcp_server_qdrant.core.errors import InvalidFilter, RequestError
from mcp_server_qdrant.qdrant.edge import plain, types
from mcp_server_qdrant.qdrant.edge.reads import from_vectors

ONE = UUID(int=1)


@pytest.fixture
def shard(tmp_path):
    params = {"d": {"size": 2, "distance": "Dot"}}
    shard = edge.EdgeShard.create(str(tmp_path / "s"), types.shard_config(params, {"s": {}}))
    points = [edge.Point(i, {"d": [float(i), 1.0]}, {"b": i % 2 == 0, "n": i}) for i in range(6)]
    shard.update(edge.UpdateOperation.upsert_points(points))
    yield shard
    shard.close()


def count(shard, condition):
    chosen = types.to_filter(plain.plain(models.Filter(must=[condition])))
    return shard.count(edge.CountRequest(exact=True, filter=chosen))


def test_a_boolean_stays_a_boolean_on_its_way_to_the_engine(shard):
    """The binding turns Python's True into 1, which matches nothing."""
    for value in (True, False):
        condition = models.FieldCondition(key="b", match=models.MatchValue(value=value))
        assert count(shard, condition) == 3


def test_several_tests_in_one_condition_all_count(shard):
    condition = models.FieldCondition(
        key="n",
        match=models.MatchAny(any=[1, 2, 3]),
        range=models.Range(gte=2),
        values_count=models.ValuesCount(lt=2),
    )

    assert count(shard, condition) == 2


def test_a_date_range_is_told_from_a_number_range():
    dates = models.FieldCondition(key="d", range=models.DatetimeRange(gte=date(2024, 1, 2)))
    numbers = models.FieldCondition(key="d", range=models.Range(gte=2))
    built = [
        types.to_filter(plain.plain(models.Filter(must=[one]))).must[0].range
        for one in (dates, numbers)
    ]

    assert [type(one) for one in built] == [edge.RangeDateTime, edge.RangeFloat]


def test_a_filter_travels_as_rest_shaped_plain_data():
    given = models.Filter(
        must=[
            models.HasIdCondition(has_id=[1, ONE]),
            models.FieldCondition(key="c", match=models.MatchExcept(**{"except": ["x"]})),
            models.FieldCondition(
                key="t", range=models.DatetimeRange(lt=datetime(2024, 1, 2, tzinfo=UTC))
            ),
        ]
    )

    assert plain.plain(given) == {
        "must": [
            {"has_id": [1, str(ONE)]},
            {"key": "c", "match": {"except": ["x"]}},
            {"key": "t", "range": {"lt": "2024-01-02T00:00:00Z"}},
        ]
    }


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


def test_vectors_of_results_are_those_that_were_stored():
    sparse = models.SparseVector(indices=[3], values=[0.5])
    for vectors in ({"s": sparse, "d": [1.0, 2.0]}, [1.0, 2.0], [[1.0], [2.0]]):
        there = types.to_vectors(plain.plain_vectors(vectors))
        assert from_vectors(there) == vectors
    assert types.to_vectors(None) == {}


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
