"""The tools, resources and prompts of fixed names that the MCP conformance suite calls.

Texts and schemas are those that the suite wants. A question to the client is a request of its own
in the era with sessions, and an InputRequiredResult in the one without.
"""

import base64
import io
import json
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    ClientCapabilities,
    Completion,
    CompletionArgument,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingCapability,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from PIL import Image
from pydantic import Field

WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\0\0\0\0"
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {
        "type": "string",
        "enum": ["active", "inactive", "pending"],
        "default": "active",
    },
    "verified": {"type": "boolean", "default": True},
}
TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def png() -> bytes:
    """A red pixel."""
    file = io.BytesIO()
    Image.new("RGB", (1, 1), "red").save(file, "PNG")
    return file.getvalue()


def image() -> ImageContent:
    return ImageContent(data=base64.b64encode(png()).decode(), mime_type="image/png")


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def add(mcp: MCPServer[Any]) -> None:
    """Add them all to a server."""
    for tool in TOOLS:
        mcp.tool(structured_output=False)(tool)
    mcp.tool("test_logging_tool", structured_output=False)(test_tool_with_logging)
    listed = mcp._tool_manager.get_tool("json_schema_2020_12_tool")  # noqa: SLF001
    assert listed is not None
    listed.parameters = SCHEMA
    for prompt in PROMPTS:
        mcp.prompt()(prompt)
    mcp.completion()(completed)
    mcp.resource("test://static-text", mime_type="text/plain")(static_text)
    mcp.resource("test://static-binary", mime_type="image/png")(png)
    mcp.resource("test://template/{id}/data", mime_type="application/json")(template)
    mcp.resource("test://watched-resource", mime_type="text/plain")(static_text)
    # Optional features of the older era, which the product does not declare.
    lowlevel = mcp._lowlevel_server  # noqa: SLF001
    for method, params in (
        ("logging/setLevel", SetLevelRequestParams),
        ("resources/subscribe", SubscribeRequestParams),
        ("resources/unsubscribe", UnsubscribeRequestParams),
    ):
        lowlevel.add_request_handler(method, params, accept)


async def accept(_ctx: Any, _params: Any) -> EmptyResult:
    return EmptyResult()


# Contents


async def test_simple_text() -> str:
    """A text."""
    return "This is a simple text response for testing."


async def test_image_content() -> list[ImageContent]:
    """An image."""
    return [image()]


async def test_audio_content() -> list[AudioContent]:
    """A sound."""
    return [AudioContent(data=base64.b64encode(WAV).decode(), mime_type="audio/wav")]


async def test_embedded_resource() -> list[EmbeddedResource]:
    """A resource."""
    text = "This is an embedded resource content."
    return [embedded("test://embedded-resource", "text/plain", text)]


async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """A text, an image and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    return [
        TextContent(text="Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", data),
    ]


async def test_error_handling() -> str:
    """An error."""
    raise ToolError("This tool intentionally returns an error for testing")


async def json_schema_2020_12_tool() -> str:
    """A tool whose schema has the keywords of JSON Schema 2020-12."""
    return "ok"


async def test_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
) -> str:
    """A tool with an argument that a header repeats."""
    return region


# Messages while a tool runs


async def test_tool_with_logging(ctx: Context) -> str:
    """Three lines of a log."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(text)
    return "logged"


async def test_tool_with_progress(ctx: Context) -> str:
    """Progress in three steps."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
    return "done"


async def test_reconnection(ctx: Context) -> str:
    """A stream that the server closes."""
    await ctx.close_sse_stream()
    return "Reconnection test completed"


async def test_trigger_tool_change(ctx: Context) -> str:
    """A change of the list of tools."""
    await ctx.notify_tools_changed()
    return "changed"


async def test_trigger_prompt_change(ctx: Context) -> str:
    """A change of the list of prompts."""
    await ctx.notify_prompts_changed()
    return "changed"


# Questions to the client


async def test_sampling(prompt: str, ctx: Context) -> str:
    """A question to the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    answer = await ctx.session.create_message(
        [message], max_tokens=100, related_request_id=ctx.request_id
    )
    return f"LLM response: {answer.content.text}"


async def ask(ctx: Context, message: str, properties: dict[str, Any]) -> str:
    schema = {"type": "object", "properties": properties, "required": []}
    answer = await ctx.session.elicit_form(message, schema, ctx.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"


async def test_elicitation(message: str, ctx: Context) -> str:
    """A question to the user."""
    text = {"type": "string"}
    return f"User response: {await ask(ctx, message, {'username': text, 'email': text})}"


async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """A form with defaults."""
    return f"Elicitation completed: {await ask(ctx, 'Who are you?', DEFAULTS)}"


async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """A form with choices."""
    return f"Elicitation completed: {await ask(ctx, 'What do you choose?', ENUMS)}"


# Questions in place of an answer


def form(message: str, name: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str, tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=tokens)
    )


def asked(
    ctx: Context, state: str | None = None, **requests: InputRequest
) -> InputRequiredResult | None:
    """The questions, where some have no answer yet."""
    answers = ctx.input_responses or {}
    if requests.keys() <= answers.keys() and (state is None or ctx.request_state == state):
        return None
    return InputRequiredResult(input_requests=requests, request_state=state)


def questions(
    name: str, state: str | None = None, answer: str = "answered", **requests: InputRequest
) -> Callable[..., Any]:
    """A tool that asks before it answers."""

    async def tool(ctx: Context) -> str | InputRequiredResult:
        """A question to the client first."""
        return asked(ctx, state, **requests) or answer

    tool.__name__ = f"test_input_required_result_{name}"
    return tool


async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """A question to the user first."""
    if question := asked(ctx, user_name=form("What is your name?", "name")):
        return question
    return f"Hello, {(ctx.input_responses['user_name'].content or {}).get('name')}!"


async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Two questions, one after the other."""
    if ctx.request_state is None:
        return asked(ctx, "1", step1=form("Step 1: What is your name?", "name")) or ""
    second = form("Step 2: What is your favorite color?", "color")
    return asked(ctx, "2", step2=second) or "Both answered."


async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """The questions that the client can answer."""
    can = ctx.client_capabilities or ClientCapabilities()
    requests: dict[str, InputRequest] = {}
    if can.sampling is not None:
        requests["capital"] = sample("What is the capital of France?", 100)
    if can.elicitation is not None:
        requests["name"] = form("What is your name?", "name")
    return asked(ctx, **requests) or "answered"


async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    """A question after some progress."""
    await ctx.report_progress(1, 2)
    return asked(ctx, name=form("What is your name?", "name")) or "answered"


async def test_missing_capability(ctx: Context) -> str:
    """Work that needs the client's model."""
    if not ctx.session.check_client_capability(ClientCapabilities(sampling=SamplingCapability())):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This needs sampling.",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "ok"


OK = form("Please confirm", "ok", "boolean")
TOOLS = [
    json_schema_2020_12_tool,
    *(tool for name, tool in list(globals().items()) if name.startswith("test_")),
    questions("sampling", capital_question=sample("What is the capital of France?", 100)),
    questions("list_roots", client_roots=ListRootsRequest()),
    questions("request_state", "confirming", "state-ok", confirm=OK),
    questions("tampered_state", "confirming", confirm=OK),
    questions(
        "multiple_inputs",
        "three",
        user_name=form("What is your name?", "name"),
        greeting=sample("Generate a greeting", 50),
        client_roots=ListRootsRequest(),
    ),
]


# Resources and prompts


async def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


async def template(id: str) -> str:  # noqa: A002
    """A resource by its id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


async def test_simple_prompt() -> str:
    """A prompt."""
    return "This is a simple prompt for testing."


async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803
    """A prompt with a resource."""
    return [
        embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
        "Please process the embedded resource above.",
    ]


async def test_prompt_with_image() -> list[Any]:
    """A prompt with an image."""
    return [image(), "Please analyze the image above."]


async def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
    """A prompt that asks first."""
    question = form("What context should the prompt use?", "context")
    return asked(ctx, user_context=question) or "Use the given context."


async def completed(_: Any, argument: CompletionArgument, __: Any) -> Completion:
    """The arguments that begin so."""
    return Completion(values=[f"{argument.value}ing"])


PROMPTS = [
    prompt
    for name, prompt in list(globals().items())
    if name.startswith("test_") and prompt not in TOOLS
]
