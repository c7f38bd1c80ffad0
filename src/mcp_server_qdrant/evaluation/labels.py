"""Labelled queries: a JSON list, JSON lines, or a BEIR folder."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.datatypes import TAG_KEYS
from mcp_server_qdrant.core.errors import RequestError, contained

# Where collections of any maker keep these (qdrant/payload.py reads the same places).
PLACES = {
    "tags": TAG_KEYS,
    "titles": ("title", "metadata.title", "name", "metadata.name"),
}
FIELDS = {"query", "expect", "expected", "category", "collections"}
QRELS = ("qrels/test.tsv", "qrels.tsv")
BEST, ALSO = 2, 1
BEST_GRADE = 1_000_000
GRADE = re.compile(r"-?[0-9]{1,6}")


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


def read(path: Path) -> list[Label]:
    """The labelled queries of a file or a BEIR folder. Raises RequestError saying what is wrong."""
    with contained(lambda fault: RequestError(f"{path.name} cannot be read: {fault}.")):
        labels = _beir(path) if path.is_dir() else _labels(path, _text(path))
    if not labels:
        raise RequestError(f"{path.name} holds no labelled query.")
    return labels


def _labels(path: Path, text: str) -> list[Label]:
    rows = _array(path, text) if text.lstrip().startswith("[") else _lines(path, text)
    return [_label(f"{path.name}, {place}", row) for place, row in rows]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RequestError(f"{path} does not exist.") from None
    except OSError as error:
        raise RequestError(f"{path.name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise RequestError(f"{path.name} is not UTF-8 text.") from None


def _array(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path.name} is not JSON: {error}.") from None
    for number, row in enumerate(rows, 1):
        yield f"query {number}", row


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """The JSON objects of a file, one a line, each with its place."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise RequestError(f"{path.name}, line {number} is not JSON.") from None
        if not isinstance(row, dict):
            raise RequestError(f"{path.name}, line {number} is not a JSON object.")
        yield f"line {number}", row


def _label(place: str, row: Any) -> Label:
    if not isinstance(row, dict):
        raise RequestError(f'{place} is not an object with "query" and "expect".')
    if unknown := sorted(set(row) - FIELDS):
        raise RequestError(f"{place}: {unknown[0]!r} is not one of {', '.join(sorted(FIELDS))}.")
    if ("expect" in row) == ("expected" in row):
        raise RequestError(f'{place} needs "expect" (or "expected", ids with the best first).')
    category = row.get("category")
    if category is not None and not _is_text(category):
        raise RequestError(f"{place}: category must be a text.")
    return Label(
        query=_query(place, row.get("query")),
        category=category,
        collections=_collections(place, row.get("collections")),
        **(_expect(place, row["expect"]) if "expect" in row else _expected(place, row["expected"])),
    )


def _expected(place: str, expected: Any) -> dict[str, Any]:
    best, *others = _texts(place, "expected", expected)
    return {"ids": dict.fromkeys(others, ALSO) | {best: BEST if others else ALSO}}


def _expect(place: str, expect: Any) -> dict[str, Any]:
    """The ids with their grades, or the filter, that `expect` stands for, as fields of a label."""
    kinds = {"ids", "tags", "titles", "metadata"}
    if not isinstance(expect, dict) or not expect or set(expect) - kinds:
        raise RequestError(f"{place}: expect must hold some of {', '.join(sorted(kinds))}.")
    if "ids" not in expect:
        return {"where": {"must": [*_conditions(place, expect)]}}
    if len(expect) > 1:
        raise RequestError(f"{place}: expect holds ids or what documents have, not both.")
    ids = expect["ids"]
    if isinstance(ids, dict) and ids and all(isinstance(one, list | dict) for one in ids.values()):
        return {"within": {name: _graded(place, some) for name, some in ids.items()}}
    return {"ids": _graded(place, ids)}


def _graded(place: str, ids: Any) -> dict[str, int]:
    """Ids with their grades; those of a list are all alike."""
    if not isinstance(ids, dict):
        return dict.fromkeys(_texts(place, "ids", ids), 1)
    grades = {key: grade for key, grade in ids.items() if grade}
    if not grades or any(
        type(grade) is not int or not 0 <= grade <= BEST_GRADE for grade in grades.values()
    ):
        raise RequestError(
            f"{place}: the grades of ids must be whole numbers up to {BEST_GRADE:,}, one of them "
            "above 0."
        )
    return grades


def _conditions(place: str, expect: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One condition per thing that an expected document must have."""
    for tag in _texts(place, "tags", expect.get("tags", ()), least=0):
        yield {"should": [_match(key, tag) for key in PLACES["tags"]]}
    if titles := _texts(place, "titles", expect.get("titles", ()), least=0):
        yield {"should": [_match(key, one) for key in PLACES["titles"] for one in titles]}
    metadata = expect.get("metadata", {})
    values = metadata.values() if isinstance(metadata, dict) else [None]
    if any(not isinstance(value, str | int) for value in values):
        raise RequestError(f"{place}: metadata must map names to texts, whole numbers or booleans.")
    for name, value in metadata.items():
        yield {"should": [_match(f"metadata.{name}", value), _match(name, value)]}
    if not any(expect.values()):
        raise RequestError(f"{place}: expect is empty.")


def _match(key: str, value: str | int) -> dict[str, Any]:
    return {"key": key, "match": {"value": value}}


def _texts(place: str, name: str, value: Any, *, least: int = 1) -> list[str]:
    """One text or a list of texts, each once; a whole number is an id as well."""
    listed = [value] if isinstance(value, str | int) else value
    if not isinstance(listed, list | tuple):
        raise RequestError(f"{place}: {name} must be a list.")
    found = [str(one) if type(one) is int else one for one in listed]
    if len(found) < least or not all(map(_is_text, found)):
        raise RequestError(f"{place}: {name} must be a list of texts, and not empty.")
    return list(dict.fromkeys(found))


def _collections(place: str, value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(_texts(place, "collections", value))


def _query(place: str, value: Any) -> str:
    if not _is_text(value):
        raise RequestError(f"{place}: query must be a text, and not empty.")
    return str(value)


def _is_text(value: Any) -> bool:
    """True for a text that every index and terminal takes."""
    if not isinstance(value, str) or not value.strip() or "\x00" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _beir(folder: Path) -> list[Label]:
    """The queries that have a judgement; those of the other splits have none."""
    path = folder / "queries.jsonl"
    queries = {}
    for place, row in _lines(path, _text(path)):
        if not isinstance(row.get("_id"), str):
            raise RequestError(f"queries.jsonl, {place} has no _id.")
        queries[row["_id"]] = _query(f"queries.jsonl, {place}", row.get("text"))
    qrels = next((name for name in QRELS if (folder / name).exists()), None)
    if qrels is None:
        raise RequestError(f"{folder.name} holds neither {' nor '.join(QRELS)}.")
    grades: dict[str, dict[str, int]] = {}
    for place, query, document, grade in _judgements(qrels, _text(folder / qrels)):
        if query not in queries:
            raise RequestError(f"{place} names query {query!r}, which queries.jsonl has not.")
        if grade > 0:
            grades.setdefault(query, {})[document] = grade
    return [Label(text, grades[query]) for query, text in queries.items() if query in grades]


def _judgements(name: str, text: str) -> Iterable[tuple[str, str, str, int]]:
    """(place, query id, document id, grade) of a qrels file, whose first line may be a header."""
    rows = csv.reader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    for number, row in enumerate(rows, 1):
        if not row or (number == 1 and not _is_grade(row)):
            continue
        if not _is_grade(row):
            raise RequestError(f"{name}, line {number} is not query id, document id and grade.")
        yield f"{name}, line {number}", row[0], row[1], int(row[2])


def _is_grade(row: Sequence[str]) -> bool:
    return len(row) == 3 and GRADE.fullmatch(row[2].strip()) is not None
