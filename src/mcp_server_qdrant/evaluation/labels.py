"""Labelled queries: a JSON list of queries, each with its expected documents."""

from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from mcp_server_qdrant.core.datatypes import TAG_KEYS
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.fields import Id, checked, one_or_many, requirement

TITLE_KEYS = ("title", "metadata.title", "name", "metadata.name")  # in collections of any tool
BEST, ALSO = 2, 1
BEST_GRADE = 1_000_000


def _parse_grades(value: Any) -> Any:
    """Ids with their grades; those of a list are equal."""
    if isinstance(value, dict):
        return value
    listed = one_or_many(value)
    return dict.fromkeys(map(str, listed), 1) if isinstance(listed, list) else listed


Filled = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(checked)
]
Texts = Annotated[tuple[Id, ...], BeforeValidator(one_or_many)]
Some = Annotated[Texts, Field(min_length=1)]
Grade = Annotated[int, Field(ge=0, le=BEST_GRADE)]
Grades = Annotated[dict[Id, Grade], BeforeValidator(_parse_grades)]


class Expect(BaseModel):
    """The expected documents or points: ids with grades, or properties."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ids: Grades = {}
    tags: Texts = ()
    titles: Texts = ()
    metadata: dict[str, str | int] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if any(self.ids.values()) == bool(self.tags or self.titles or self.metadata):
            raise ValueError("It must hold ids with a grade above 0, or tags, titles or metadata")
        return self


class Label(BaseModel):
    """A query with its expected documents; `expected` has ids, best first.

    `collections` None: the server's default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: Filled
    expect: Expect | None = None
    expected: Some | None = None
    category: Filled | None = None
    collections: Some | None = None

    @model_validator(mode="after")
    def _once(self) -> Self:
        if (self.expect is None) == (self.expected is None):
            raise ValueError('It needs "expect", or "expected": ids with the best first')
        return self

    @property
    def ids(self) -> Mapping[str, int]:
        """The expected ids with their grades."""
        if self.expect:
            return {key: grade for key, grade in self.expect.ids.items() if grade}
        best, *others = dict.fromkeys(self.expected or ())
        return dict.fromkeys(others, ALSO) | {best: BEST if others else ALSO}

    @property
    def where(self) -> Mapping[str, Any] | None:
        """The filter (REST form) for the expected documents; None if they are given by id."""
        if self.expect is None:
            return None
        must = [_either(TAG_KEYS, (tag,)) for tag in self.expect.tags]
        if titles := self.expect.titles:
            must.append(_either(TITLE_KEYS, titles))
        for name, value in self.expect.metadata.items():
            must.append(_either((f"metadata.{name}", name), (value,)))
        return {"must": must} if must else None


def _either(keys: Sequence[str], values: Sequence[str | int]) -> dict[str, Any]:
    """The condition that any of the fields has any of the values."""
    return {"should": [{"key": key, "match": {"value": one}} for key in keys for one in values]}


def read_labels(path: Path) -> list[Label]:
    """Read the labelled queries of a file. Raises RequestError."""
    try:
        labels = TypeAdapter(list[Label]).validate_json(path.read_bytes().removeprefix(BOM_UTF8))
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        raise RequestError(f"{path.name}{_fault(error)}.") from None
    if not labels:
        raise RequestError(f"{path.name} holds no labelled query.")
    return labels


def _fault(error: ValidationError) -> str:
    """The first error and its place."""
    first = error.errors(include_input=False, include_url=False)[0]
    if not first["loc"]:
        return f" is no JSON list of labelled queries ({first['msg']})"
    number, *inside = first["loc"]
    said = requirement(first)
    if first["type"] == "extra_forbidden":
        known = (Expect if len(inside) > 1 else Label).model_fields
        said = f"there is no {inside.pop()!r}; there are {', '.join(known)}"
    place = f", query {int(number) + 1}"
    return ": ".join([place, *map(str, inside), said])
