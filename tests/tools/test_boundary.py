"""The surface of the tools: small, closed, described."""

import json

import pytest
from mcp.types import Tool
from pydantic import BaseModel, ValidationError

from mcp_server_qdrant.core.find import Tuning
from mcp_server_qdrant.tools.boundary import compact_schema, explain, make_error
from tests.made_secrets import KEYS
from tests.support import memory_server

MAX_BYTES = 6_300
NAMES = ["qdrant-find", "qdrant-store", "qdrant-get", "qdrant-collections"]
NAMES += ["qdrant-delete", "qdrant-project"]


async def listed(**settings) -> list[Tool]:
    async with memory_server(**settings) as client:
        return (await client.list_tools()).tools


def dumped(tools: list[Tool]) -> list[dict]:
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


async def test_the_whole_list_has_at_most_6300_bytes():
    text = json.dumps(dumped(await listed()), separators=(",", ":"), ensure_ascii=False)

    assert len(text.encode()) <= MAX_BYTES


async def test_the_tools_are_these_in_this_order():
    assert [tool.name for tool in await listed()] == NAMES


def test_an_error_says_no_secret_that_it_was_given():
    key = KEYS["GitHub"]

    assert (
        make_error(f"There is no text {key!r}.").content[0].text == "There is no text '[masked]'."
    )


async def test_every_tool_is_described_in_a_sentence_or_two():
    for tool in await listed():
        assert tool.description.endswith(".")
        assert 20 < len(tool.description) < 250


async def test_every_schema_is_free_of_ballast_and_of_what_clients_refuse():
    for tool in await listed():
        schema = tool.input_schema
        assert schema["type"] == "object"
        assert "additionalProperties" not in schema  # Google's SDK refuses the tool
        text = json.dumps(schema)
        for ballast in ('"title": "', "anyOf", '"null"', "$ref", '"default": null'):
            assert ballast not in text.replace('"title": {"type"', "")


async def test_every_argument_is_described():
    tools = {tool.name: tool.input_schema["properties"] for tool in await listed()}
    silent = [
        (name, argument)
        for name, arguments in tools.items()
        for argument, schema in arguments.items()
        if not schema.get("description")
    ]

    assert silent == []


async def test_tuning_describes_each_of_its_fields_with_its_values():
    tools = {tool.name: tool.input_schema["properties"] for tool in await listed()}
    description = tools["qdrant-find"]["tuning"]["description"]

    assert [name for name in Tuning.model_fields if f" {name} " not in description] == []
    assert "algorithm hybrid|semantic|keyword|fuzzy (" in description
    assert "fuzzy_boost 0-0.2 (" in description


async def test_annotations_say_what_a_tool_may_do():
    hints = {
        tool.name: (
            tool.annotations.read_only_hint,
            tool.annotations.destructive_hint,
            tool.annotations.idempotent_hint,
            tool.annotations.open_world_hint,
        )
        for tool in await listed()
    }
    reads = (True, None, None, False)

    assert hints == {
        "qdrant-find": reads,
        "qdrant-store": (False, False, None, False),
        "qdrant-get": reads,
        "qdrant-collections": reads,
        "qdrant-delete": (False, True, True, False),
        "qdrant-project": reads,
    }


async def test_the_search_declares_what_it_returns():
    find = (await listed())[0]

    assert find.output_schema["properties"]["results"]["items"]["required"] == [
        *("id", "collection")
    ]
    assert set(find.output_schema["required"]) == {"results", "notes"}


class Sample(BaseModel):
    """Something with everything that is cut."""

    title: str
    maybe: int | None = None
    either: int | str | None = None
    many: list[str] = []
    number: int = 3


def test_titles_nulls_and_empty_defaults_are_cut_and_fields_called_title_kept():
    schema = compact_schema(Sample.model_json_schema())

    assert schema["properties"] == {
        "title": {"type": "string"},
        "maybe": {"type": "integer"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "many": {"items": {"type": "string"}, "type": "array"},
        "number": {"default": 3, "type": "integer"},
    }
    assert "title" not in schema


def test_an_explanation_never_repeats_what_was_sent():
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"maybe": "s3cret", "many": "s3cret"})

    sentences = explain(caught.value)
    assert sentences.startswith("title is required. maybe must be a whole number.")
    assert "s3cret" not in sentences
