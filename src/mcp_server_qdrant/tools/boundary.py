"""The boundary between tools and clients: small schemas, strict arguments, readable errors.

Only here do exceptions become tool errors.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextvars import ContextVar
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from mcp_server_qdrant.core.context import ADMIN, READ, WRITE, Ending, binding, caller, recorder
from mcp_server_qdrant.core.errors import QdrantMcpError, RequestError
from mcp_server_qdrant.core.fields import is_nothing, requirement
from mcp_server_qdrant.core.notation import cite, first_few, near_names, one_line
from mcp_server_qdrant.ingest.secrets import masked
from mcp_server_qdrant.tools.services import Open, Services

_NAMED = frozenset({"properties", "$defs"})
_SAID_ANYWAY: tuple[tuple[str, Any], ...] = (
    *(("default", None), ("default", [])),
    ("additionalProperties", True),
)

# Text arguments, for which an empty string or "null" is a value.
_TEXTS = frozenset({"information", "query", "title"})
_MAX_IGNORED = 16
_ALIKE = 0.66  # similarity from which an unknown argument is a typo
_WORD = re.compile("[A-Za-z][a-z]{4,}")
REHEARSALS = frozenset({"dry_run", "preview", "simulate"})  # never ignored by a destructive tool

logger = logging.getLogger(__name__)

AsyncTool = Callable[..., Awaitable[CallToolResult]]

_SERVICES: ContextVar[Open | None] = ContextVar("services", default=None)


async def services_of_tool() -> Services:
    """The services of the running tool."""
    services = _SERVICES.get()
    assert services is not None
    return await services()


def make_result(
    text: str, structured: Mapping[str, Any], meta: Mapping[str, Any] | None = None
) -> CallToolResult:
    """A result as text and as structured content; `meta` is for programs only."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)] if text else [],
        structured_content=dict(structured),
        _meta=None if meta is None else dict(meta),
    )


def make_error(sentence: str) -> CallToolResult:
    """An error for the client: one line that says what to do."""
    text, _ = masked(one_line(sentence, None))
    return CallToolResult(is_error=True, content=[TextContent(type="text", text=text)])


def _error_result(tool: str, error: ToolError, ending: Ending) -> CallToolResult:
    """The result of a failed call: our message, or a general one for unexpected errors."""
    ending.outcome = "rejected"
    match error.__cause__:
        case ValidationError() as cause:
            return make_error(explain(cause))
        case QdrantMcpError() as cause:
            if not isinstance(cause, RequestError):
                ending.outcome = "failed"
            return make_error(str(cause))
        case cause:
            ending.outcome = "crashed"
            logger.error("%s failed unexpectedly", tool, exc_info=cause)
            return make_error("The server failed unexpectedly; its log says how. Try again.")


class _Metadata(FuncMetadata):
    """Disables the base class's JSON parsing, which would turn JSON texts into objects."""

    @override
    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """The arguments unchanged; the types in `core/fields` parse JSON where it is accepted."""
        return data


class ClosedTool(Tool):
    """A tool with a small schema and readable argument errors.

    Unknown arguments are ignored and named in the answer, because some clients add their own. If
    the name resembles an argument of the tool, it is a typo and refused.

    `services` opens the services for the function. `unlisted` arguments are accepted but not in the
    schema.
    """

    services: Open | None = Field(default=None, exclude=True)
    unlisted: Set[str] = Field(default=frozenset(), exclude=True)

    @property
    def scope(self) -> str:
        """The scope that a caller needs, derived from the annotations; admin if there are none."""
        hints = self.annotations or ToolAnnotations()
        if hints.read_only_hint:
            return READ
        return WRITE if hints.destructive_hint is False else ADMIN

    @override
    async def run(
        self, arguments: dict[str, Any], context: Any, convert_result: bool = False
    ) -> Any:
        """Run the tool; see the base class. A null argument counts as omitted."""
        with recorder().call(self.name) as ending:
            try:
                given, ignored = self._given(arguments)
            except RequestError as error:
                ending.outcome = "rejected"
                return make_error(str(error))
            try:
                with binding(_SERVICES, self.services):
                    result = await super().run(given, context, convert_result)
                ending.outcome = "ok"
            except ToolError as error:
                result = _error_result(self.name, error, ending)
            if ignored and isinstance(result, CallToolResult):
                _add_note(result, f"ignored, since this tool has no such argument: {ignored}.")
            return result

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The validated arguments for the tool's function. Raises RequestError."""
        try:
            return self.fn_metadata.validate_arguments(self._given(arguments)[0])
        except ValidationError as error:
            raise RequestError(explain(error)) from None

    def _given(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The arguments that have a value, and the names of the ignored ones.

        Raises RequestError for a missing scope or a misspelled argument.
        """
        if (who := caller()) and self.scope not in who.scopes:
            raise RequestError(f"{self.name} needs the scope {self.scope}, which your token lacks.")
        listed = self.parameters["properties"]
        known = {*listed, *self.unlisted}
        unknown = [name for name in arguments if name not in known]
        taken = known.union(self.fn_metadata.arg_model.model_fields)
        if self.scope == ADMIN:
            taken |= REHEARSALS
        few = len(unknown) <= _MAX_IGNORED
        if wrong := [name for name in unknown if not few or _resembles(name, taken)]:
            raise RequestError(
                f"There is no argument {wrong[0]!r}. The arguments are: {', '.join(listed)}."
            )
        given = {
            name: value
            for name, value in arguments.items()
            if name in known and (value is not None if name in _TEXTS else not is_nothing(value))
        }
        return given, first_few([one_line(name) for name in unknown], shown=cite)

    @classmethod
    def make(
        cls,
        fn: AsyncTool,
        name: str,
        description: str,
        *,
        write: bool,
        destroys: bool = False,
        repeatable: bool = True,
        unlisted: Set[str] = frozenset(),
        arguments: type[ArgModelBase] | None = None,
    ) -> "ClosedTool":
        """Make a tool of a function. The arguments come from its signature or from a model.

        `repeatable`: a second identical call changes nothing. `unlisted` arguments are left out of
        the schema.
        """
        annotations = ToolAnnotations(
            read_only_hint=not write,
            destructive_hint=destroys if write else None,
            idempotent_hint=True if write and repeatable else None,
            open_world_hint=False,
        )
        tool = cls.from_function(fn, name=name, description=description, annotations=annotations)
        assert isinstance(tool, cls)
        tool.fn_metadata = _Metadata(**dict(tool.fn_metadata))
        if arguments is not None:
            tool.fn_metadata.arg_model = arguments
        tool.parameters = compact_schema(
            tool.fn_metadata.arg_model.model_json_schema(by_alias=False)
        )
        tool.parameters.pop(
            "additionalProperties", None
        )  # Google's SDK rejects schemas that have it
        for name in unlisted:
            del tool.parameters["properties"][name]
        tool.unlisted = unlisted
        if tool.fn_metadata.output_schema:
            output = compact_schema(tool.fn_metadata.output_schema)
            output.pop("description", None)  # the same as the tool's
            tool.fn_metadata.output_schema = output
        return tool


def _add_note(result: CallToolResult, note: str) -> None:
    """Add a note to the text and to the structured content of a result."""
    texts = [block for block in result.content if isinstance(block, TextContent)]
    if texts:
        texts[-1].text += (" " if result.is_error else "\n") + f"Note: {note}"
    if result.structured_content is not None:
        result.structured_content.setdefault("notes", []).append(note)


def _resembles(name: str, taken: Set[str]) -> bool:
    """True if a name is spelled like an argument, or shares a longer word with one."""
    words = {word.casefold() for word in _WORD.findall(name)}
    theirs = {word for one in taken for word in _WORD.findall(one)}
    return not words.isdisjoint(theirs) or bool(near_names(name, taken, _ALIKE))


def compact_schema(schema: Any) -> Any:
    """The schema without titles, null alternatives and empty defaults, which no model needs.

    All tools accept null and treat it as omitted.
    """
    if isinstance(schema, list):
        return [compact_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            kept[key] = {name: compact_schema(item) for name, item in value.items()}
        elif key == "anyOf":
            kept |= _without_null(value)
        elif key != "title" and (key, value) not in _SAID_ANYWAY:
            kept[key] = compact_schema(value)
    return kept


def _without_null(choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    others = [compact_schema(choice) for choice in choices if choice != {"type": "null"}]
    return others[0] if len(others) == 1 else {"anyOf": others}


def explain(error: ValidationError) -> str:
    """The errors of a call's arguments, one sentence each, without the values."""
    faults = error.errors(include_url=False, include_input=False)
    return " ".join(dict.fromkeys(map(_sentence, faults[:3])))


def _sentence(fault: ErrorDetails) -> str:
    name, *inside = map(str, fault["loc"] or ["arguments"])
    field = next((one for one in inside if one.isidentifier()), None)
    if fault["type"] == "extra_forbidden":
        return f"{name} has no {field!r}: see its description."
    name = f"{name}.{field}" if field else name
    name = f"each of {name}" if any(map(str.isdigit, inside)) else name
    said = requirement(fault)
    return f"{name}: {said}." if fault["type"] == "value_error" else f"{name} {said}."
