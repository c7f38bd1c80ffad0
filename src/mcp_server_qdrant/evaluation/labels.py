"""Labelled queries: a JSON list, JSON lines, or a BEIR folder."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from mcp_server_qdrant.core.datatypes import TAG_KEYS
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.fields import Id, one_or_many, sound

TITLE_KEYS = ("title", "metadata.title", "name", "metadata.name")  # of collections of any maker
QRELS = ("qrels/test.tsv", "qrels.tsv")
BEST, ALSO = 2, 1
BEST_GRADE = 1_000_000


@dataclass(frozen=True, slots=True)
class Label:
    """A query and what answers it: document or point ids with grades, or a filter in REST form.

    `ids` may lie in any collection, those `within` one in that. `collections` None: the default
    ones of the server.
    """

    query: str
    ids: Mapping[str, int] = field(default_factory=dict)
    within: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    where: Mapping[str, Any] | None = None
    category: str | None = None
    collections: tuple[str, ...] | None = None


def _graded(value: Any) -> Any:
    """Ids with their grades; those of a list are all alike."""
    if isinstance(value, dict):
        return value
    listed = one_or_many(value)
    return dict.fromkeys(map(str, listed), 1) if isinstance(listed, list) else listed


Filled = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(sound)
]
Texts = Annotated[tuple[Id, ...], BeforeValidator(one_or_many)]
Some = Annotated[Texts, Field(min_length=1)]
Grade = Annotated[int, Field(ge=0, le=BEST_GRADE)]
Grades = Annotated[dict[Id, Grade], BeforeValidator(_graded)]


class Expect(BaseModel):
    """Ids with their grades, perhaps by collection, or what expected documents have."""

    model_config = ConfigDict(extra="forbid")

    ids: Grades = {}
    within: dict[Filled, Grades] = {}
    tags: Texts = ()
    titles: Texts = ()
    metadata: dict[str, str | int] = {}

    @model_validator(mode="before")
    @classmethod
    def _by_collection(cls, value: Any) -> Any:
        ids = value.get("ids") if isinstance(value, dict) else None
        if isinstance(ids, dict) and ids and all(isinstance(v, list | dict) for v in ids.values()):
            return {**value, "ids": {}, "within": ids}
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        named = any(any(grades.values()) for grades in (self.ids, *self.within.values()))
        if named == bool(self.tags or self.titles or self.metadata):
            raise ValueError("It must hold ids with a grade above 0, or tags, titles or metadata")
        return self

    def where(self) -> dict[str, Any] | None:
        """The filter for the documents that have all of it; None where ids are expected."""
        must = [_either(TAG_KEYS, (tag,)) for tag in self.tags]
        must += [_either(TITLE_KEYS, self.titles)] if self.titles else []
        must += [
            _either((f"metadata.{name}", name), (value,)) for name, value in self.metadata.items()
        ]
        return {"must": must} if must else None


def _either(keys: Sequence[str], values: Sequence[str | int]) -> dict[str, Any]:
    """The condition that one of the fields has one of the values."""
    return {"should": [{"key": key, "match": {"value": one}} for key in keys for one in values]}


class Row(BaseModel):
    """A labelled query as it is written; `expected` are ids, the best first."""

    model_config = ConfigDict(extra="forbid")

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

    def label(self) -> Label:
        """The label that the row stands for."""
        made = Label(self.query, category=self.category, collections=self.collections)
        if self.expect is None:
            best, *others = dict.fromkeys(self.expected or ())
            ids = dict.fromkeys(others, ALSO) | {best: BEST if others else ALSO}
            return replace(made, ids=ids)
        ids = {key: grade for key, grade in self.expect.ids.items() if grade}
        return replace(made, ids=ids, within=self.expect.within, where=self.expect.where())


def read_labels(path: Path) -> list[Label]:
    """The labelled queries of a file or a BEIR folder. Raises RequestError saying what is wrong."""
    labels = _beir(path) if path.is_dir() else [_row(*one).label() for one in _rows(path)]
    if not labels:
        raise RequestError(f"{path.name} holds no labelled query.")
    return labels


def _row(place: str, row: Any) -> Row:
    try:
        return Row.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        inside, fault = list(first["loc"]), first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            fault = no_such_key(inside.pop(), (Expect if inside else Row).model_fields)
        raise RequestError(f"{': '.join([place, *map(str, inside)])}: {fault}.") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise RequestError(f"{path.name} is not UTF-8 text.") from None


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """What a JSON list, or each line of JSON lines, holds, with its place."""
    text = _text(path)
    if text.lstrip().startswith("["):
        for number, row in enumerate(_json(path.name, text), 1):
            yield f"{path.name}, query {number}", row
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path.name}, line {number}"
            yield place, _json(place, line)


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
        raise RequestError(
            f"{place} is not JSON{where}: labelled queries are a JSON list of objects, an object "
            "on each line, or a BEIR folder."
        ) from None


def _beir(folder: Path) -> list[Label]:
    """The queries that have a judgement; those of the other splits have none."""
    queries = {}
    for place, row in _rows(folder / "queries.jsonl"):
        if not isinstance(row, dict) or not isinstance(row.get("_id"), str):
            raise RequestError(f"{place} has no _id.")
        queries[row["_id"]] = _row(place, {"query": row.get("text"), "expected": "any"}).query
    qrels = next((name for name in QRELS if (folder / name).exists()), None)
    if qrels is None:
        raise RequestError(f"{folder.name} holds neither {' nor '.join(QRELS)}.")
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_text(folder / qrels).splitlines(), 1):
        try:
            query, document, grade = line.split("\t")
            if int(grade) > 0:
                grades.setdefault(query, {})[document] = min(int(grade), BEST_GRADE)
        except ValueError:
            if number > 1:  # the first line may be a header
                fault = f"{qrels}, line {number} is not query id, document id and grade."
                raise RequestError(fault) from None
    if unknown := sorted(grades.keys() - queries.keys()):
        raise RequestError(f"{qrels} names query {unknown[0]!r}, which queries.jsonl has not.")
    return [Label(text, grades[query]) for query, text in queries.items() if query in grades]


def no_such_key(name: object, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown key: which keys there are."""
    return f"there is no {name!r}; there are {', '.join(known)}"
