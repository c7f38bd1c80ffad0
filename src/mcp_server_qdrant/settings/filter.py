"""The settings of the filters of a find: a part of `Settings`."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from mcp_server_qdrant.core.fields import variable

Operator = Literal["==", "!=", ">", ">=", "<", "<=", "any", "except"]


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
        if value.startswith("model_"):  # pydantic keeps these for itself
            raise ValueError("must not begin with model_")
        return value


def _json_list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value)
    except ValueError:
        read = None
    if not isinstance(read, list):
        raise ValueError("it must be a JSON list of objects")  # noqa: TRY004
    return tuple(read)


class FilterSettings(BaseModel):
    """Filters that callers may use."""

    qdrant_allow_arbitrary_filter: bool | None = variable(
        "QDRANT_ALLOW_ARBITRARY_FILTER",
        None,
        "Offer `query_filter`. Default: yes, unless FILTERABLE_FIELDS is set.",
    )
    filterable_fields: Annotated[tuple[FilterableField, ...], BeforeValidator(_json_list)] = (
        variable(
            "FILTERABLE_FIELDS", (), "JSON list of payload fields offered as parameters of find."
        )
    )

    @property
    def arbitrary_filter(self) -> bool:
        """True if qdrant-find offers `query_filter`."""
        if self.qdrant_allow_arbitrary_filter is None:
            return not self.filterable_fields
        return self.qdrant_allow_arbitrary_filter
