"""The settings of what a find may be narrowed by: a part of `Settings`, which reads them."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

Operator = Literal["==", "!=", ">", ">=", "<", "<=", "any", "except"]


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


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


class FilterSettings(BaseModel):
    """What callers may filter by."""

    qdrant_allow_arbitrary_filter: bool | None = _variable(
        "QDRANT_ALLOW_ARBITRARY_FILTER",
        None,
        "Offer `query_filter`. Default: yes, unless FILTERABLE_FIELDS is set.",
    )
    filterable_fields: Annotated[tuple[FilterableField, ...], NoDecode] = _variable(
        "FILTERABLE_FIELDS", (), "JSON list of payload fields offered as parameters of find."
    )

    @field_validator("filterable_fields", mode="before")
    @classmethod
    def _json_list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            held = json.loads(value)
        except ValueError:
            held = None
        if not isinstance(held, list):
            raise ValueError("it must be a JSON list of objects")  # noqa: TRY004
        return tuple(held)

    @property
    def arbitrary_filter(self) -> bool:
        """Whether qdrant-find offers `query_filter`."""
        if self.qdrant_allow_arbitrary_filter is None:
            return not self.filterable_fields
        return self.qdrant_allow_arbitrary_filter
