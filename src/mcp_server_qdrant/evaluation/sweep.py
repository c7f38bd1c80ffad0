"""Configurations to compare: algorithms, and values of the parameters of a search."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, get_args

from pydantic import ValidationError

from mcp_server_qdrant.core.datatypes import Algorithm
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import LEG_WEIGHTS, SearchRequest, Tuning, declared
from mcp_server_qdrant.evaluation.labels import no_such_key

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
MOST = 200
SWEPT = {"score_threshold", *Tuning.model_fields} - {"algorithm", "explain"}
# An algorithm of one leg has nothing to weigh.
ONE_LEG = {"semantic", "keyword", "fuzzy"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way of searching: an algorithm, and fields of SearchRequest that are set."""

    algorithm: Algorithm
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in the tables."""
        values = (f"{name}={_shown(value)}" for name, value in self.fields.items())
        return " ".join([self.algorithm, *values])

    def request(self, query: str, collections: tuple[str, ...] | None, limit: int) -> SearchRequest:
        """The search of one query, without a least relevance unless one is swept."""
        fields = {"score_threshold": 0.0, **self.fields}
        return SearchRequest(
            query=query,
            collections=collections,
            limit=limit,
            algorithm=self.algorithm,
            **fields,
        )


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def configurations(algorithms: Sequence[str], sweeps: Sequence[str]) -> list[Configuration]:
    """Each algorithm as it is and with each combination of the swept values that a search takes.

    Without algorithms: all of them, or where something is swept hybrid only. A sweep is
    `name=first:last:step` or `name=value,value`. Raises RequestError.
    """
    for name in algorithms:
        if name not in ALGORITHMS:
            raise RequestError(f"There is no algorithm {name!r}: {', '.join(ALGORITHMS)}.")
    chosen = algorithms or (["hybrid"] if sweeps else ALGORITHMS)
    swept = dict(_sweep(text) for text in sweeps)
    if len(swept) < len(sweeps):
        raise RequestError("A parameter can be swept once only: name all of its values together.")
    if math.prod(map(len, swept.values())) * len(chosen) > MOST:
        raise RequestError(f"That is more than {MOST} ways to search: sweep in larger steps.")
    made = [one for name in chosen for one in _swept(name, swept)]  # type: ignore[arg-type]
    return [one for place, one in enumerate(made) if one not in made[:place]]


def _swept(algorithm: Algorithm, swept: Mapping[str, Sequence[Any]]) -> Iterator[Configuration]:
    """The algorithm with the server's settings, then with each combination of values."""
    yield Configuration(algorithm)
    useless = LEG_WEIGHTS if algorithm in ONE_LEG else frozenset()
    used = {name: values for name, values in swept.items() if name not in useless}
    for values in product(*used.values()):
        fields = dict(zip(used, values, strict=True))
        if sum(fields.get(name, 0) for name in LEG_WEIGHTS) <= 1:
            yield Configuration(algorithm, fields)


def _sweep(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    if name not in SWEPT:
        names = (one for one in declared() if one in SWEPT)
        raise RequestError(f"--sweep {text}: {no_such_key(name, names)}.")
    if not equals:
        raise RequestError(f"--sweep {name} has no values: NAME=FIRST:LAST:STEP or NAME=VALUE,...")
    try:
        found = [getattr(SearchRequest(**{name: one}), name) for one in _listed(values)]
    except ValidationError as error:
        wanted = error.errors()[0]["msg"].replace("Input should be", "must be")
        raise RequestError(f"--sweep {text}: {name} {wanted}.") from None
    return name, list(dict.fromkeys(found))


def _listed(text: str) -> Sequence[Any]:
    """`0:1:0.1`, both ends counted, or `0,0.5,1`."""
    if text.count(":") != 2:
        return text.split(",")
    try:
        first, last, step = map(float, text.split(":"))
        count = min(int((last - first) / step + 1e-9), MOST) + 1
    except (ValueError, ZeroDivisionError, OverflowError):
        raise RequestError(f"{text!r} is not first:last:step.") from None
    return [round(first + place * step, 9) for place in range(max(count, 1))]
