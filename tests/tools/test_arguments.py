"""The arguments of qdrant-find, as they become one SearchRequest."""

import pytest
from pydantic import ValidationError

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import FilterableField, SearchRequest
from mcp_server_qdrant.tools.arguments import FindArguments, arguments_with

LEAF = {"key": "metadata.a", "match": {"value": 1}}


def request(*fields: FilterableField, **arguments) -> SearchRequest:
    return arguments_with(fields).model_validate(arguments).request()


def test_what_tuning_says_stands_before_an_argument_of_its_own_and_null_says_nothing():
    asked = request(query="x", rerank=False, tuning={"rerank": True, "diversity": None})

    assert type(asked) is SearchRequest
    assert asked.rerank is True
    assert "diversity" not in asked.model_fields_set


def test_the_variable_of_a_setting_is_no_name_of_an_argument():
    for wrong in ({"RERANK": True}, {"tuning": {"RERANK": True}}):
        with pytest.raises(ValidationError, match="RERANK"):
            FindArguments.model_validate({"query": "x"} | wrong)


def test_tags_fields_of_an_operator_and_a_filter_must_all_hold():
    bed = FilterableField(name="bed", description="d", field_type="integer", condition=">=")
    asked = request(bed, query="x", tags="a, b", bed=3, query_filter={"must": LEAF})
    either, own = asked.where()["must"]

    assert [one["match"]["any"] for one in either["should"]] == [["a", "b"]] * 2
    assert own == {"must": [LEAF, {"key": "metadata.bed", "range": {"gte": 3}}]}


def test_nothing_to_look_for_is_listed_only_where_something_says_what():
    assert request(tags=["a"]).query == ""
    for nothing in ({}, {"query": " "}, {"within": "x"}, {"query_filter": {}}):
        with pytest.raises(RequestError, match=r"^query is empty"):
            request(**nothing)
