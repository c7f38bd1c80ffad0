"""The parameters of qdrant-find, each declared once: type, bounds, default, texts.

The tool's schema and validation, the search request and the page's defaults are derived from them.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.fields import FieldInfo

from mcp_server_qdrant.core.datatypes import TAG_KEYS, Algorithm, Mode, Priority
from mcp_server_qdrant.core.fields import JsonObject, Tags, Text, Word, Words

MAX_QUERY = 8_000  # characters
MAX_LIMIT = 100
TAIL = 0.25  # share of the best relevance; less relevant results are left out
LINES = 2  # results without a passage at the end of a page
WEAK, WHOLE = 150, 1_200  # tokens of a page without an answer, and of one of whole texts

RECENCY_WEIGHT = 0.15

Share = Annotated[float | None, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1)]
Operator = Literal["==", "!=", ">", ">=", "<", "<=", "any", "except"]


class Tuning(BaseModel):
    """Rarely needed parameters; agents see them as one object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    algorithm: Annotated[Algorithm, Field(description="default hybrid")] = "hybrid"
    semantic_weight: Annotated[Share, Field(description="share of meaning")] = None
    keyword_weight: Annotated[Share, Field(description="share of keywords")] = None
    group_size: Annotated[
        int | None, Field(ge=1, le=10, description="passages per text at most")
    ] = None
    priority: Annotated[Priority, Field(description="gain of preferred collections")] = "soft"
    recency_decay: Annotated[float, Field(gt=0, le=10, description="per day, default 0.01")] = 0.01
    correct: Annotated[bool, Field(description="typos in the query, default true")] = True
    fuzzy_boost: Annotated[float, Field(ge=0, le=0.2, description="gain for similar spelling")] = (
        0.1
    )
    explain: Annotated[bool, Field(description="why each result ranks there")] = False
    recency_weight: Annotated[Weight, Field(description="how much age counts")] = RECENCY_WEIGHT
    rerank: Annotated[bool, Field(description="by a second model, slower")] = False


class SearchRequest(Tuning):
    """A call of qdrant-find."""

    query: Annotated[
        Text, Field(description="What to look for, in words; without it: the newest texts")
    ] = ""
    collections: Annotated[
        Words,
        Field(
            description='Names or globs; "-name" leaves out; ["*"]: all. '
            "Default: this folder's, the default one, or all"
        ),
    ] = None
    within: Annotated[Word | None, Field(description="Id: passages of that text")] = None
    limit: Annotated[
        int | None, Field(ge=1, le=MAX_LIMIT, description="Maximum number of results")
    ] = None
    mode: Annotated[Mode, Field(description="full: with metadata and whole texts")] = "minimal"
    since: Annotated[
        Word | None, Field(description="Date: 2026-10-31, May 2026, monday, last week, 3 days")
    ] = None
    until: Annotated[Word | None, Field(description="Last day or month")] = None
    tags: Annotated[Tags, Field(description="Any of these")] = None
    score_threshold: Annotated[Share, Field(description="Minimum relevance")] = None
    query_filter: Annotated[
        JsonObject,
        Field(
            description='Qdrant filter: {"must":[{"key":"tags","match":{"value":"x"}}]}; '
            "keys: tags, source, created_at, title, stored_by.client, stored_by.caller, metadata.*"
        ),
    ] = None

    def where(self) -> dict[str, Any] | None:
        """The filter in REST form, including the tags; None without a filter."""
        if not self.tags:
            return self.query_filter
        tagged = {"should": [{"key": key, "match": {"any": [*self.tags]}} for key in TAG_KEYS]}
        return {"must": [tagged, *([self.query_filter] if self.query_filter else [])]}

    def with_defaults(self, **usual: Any) -> "SearchRequest":
        """The request with these values for parameters not given."""
        given = self.model_fields_set
        return self.model_copy(
            update={name: value for name, value in usual.items() if name not in given}
        )


def find_parameters() -> dict[str, FieldInfo]:
    """Name -> declaration of all parameters: visible ones, then tuning."""
    fields = SearchRequest.model_fields
    return dict(sorted(fields.items(), key=lambda item: item[0] in Tuning.model_fields))


class FilterableField(BaseModel):
    """One payload field that qdrant-find offers as a parameter (official `FILTERABLE_FIELDS`)."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(pattern="^[A-Za-z][A-Za-z0-9_]*$")
    description: str
    field_type: Literal["keyword", "integer", "float", "boolean"]
    condition: Operator | None = None
    required: bool = False

    @model_validator(mode="after")
    def _comparable(self) -> Self:
        numbers = self.field_type in ("integer", "float")
        if self.condition in (">", ">=", "<", "<=") and not numbers:
            raise ValueError(f"{self.name}: {self.condition} needs field_type integer or float")
        return self

    @field_validator("name")
    @classmethod
    def _usable(cls, value: str) -> str:
        if value.startswith("model_"):  # reserved by pydantic
            raise ValueError("must not begin with model_")
        return value
