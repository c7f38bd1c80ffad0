"""Configurations to compare: algorithms, and values of the parameters of a search."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, get_args

from pydantic.fields import FieldInfo

from mcp_server_qdrant.core.datatypes import Algorithm
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.fields import bounds, choices
from mcp_server_qdrant.core.find import LEG_WEIGHTS, SearchRequest, Tuning, declared

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
        """As the tables call it."""
        values = (f"{name}={_shown(value)}" for name, value in self.fields.items())
        return " ".join([self.algorithm, *values])

    def request(self, query: str, collections: tuple[str, ...] | None, limit: int) -> SearchRequest:
        """The search of one query: the ranking to its end, not only what is near its best."""
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
    """Each algorithm as it is and with each combination of the swept values.

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
        yield Configuration(algorithm, dict(zip(used, values, strict=True)))


def parameters() -> dict[str, FieldInfo]:
    """Name -> declaration, for everything about the ranking that a search can ask for."""
    return {name: info for name, info in declared().items() if name in SWEPT}


def _sweep(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    known = parameters()
    if not equals or name not in known:
        names = ", ".join(known)
        raise RequestError(f"--sweep wants name=first:last:step; the names are {names}.")
    return name, list(dict.fromkeys(_listed(name, known[name], values)))


def _listed(name: str, parameter: FieldInfo, text: str) -> Iterator[Any]:
    """The values that are asked for, as the parameter's type has them."""
    known = _choices(parameter.annotation)
    if known is None:
        limits = bounds(parameter)
        yield from _numbers(name, text, limits["ge"], limits["le"])
        return
    for part in text.split(","):
        if part not in known:
            raise RequestError(f"{name} is one of {', '.join(known)}.")
        yield known[part]


def _choices(kind: Any) -> dict[str, Any] | None:
    """Text -> value of a parameter that has a few; None for a number."""
    if bool in (kind, *get_args(kind)):
        return {"false": False, "true": True}
    return {value: value for value in choices(kind)} or None


def _numbers(name: str, text: str, low: float, high: float) -> list[float]:
    """`0:1:0.1`, both ends counted, or `0,0.5,1`; each within the parameter's bounds."""
    parts = text.split(":")
    try:
        numbers = [float(part) for part in (parts if len(parts) > 1 else text.split(","))]
    except ValueError:
        numbers = [math.nan]
    if not all(math.isfinite(number) for number in numbers) or len(parts) not in (1, 3):
        raise RequestError(f"{name}: {text!r} is neither first:last:step nor values by comma.")
    if len(parts) == 3:
        first, last, step = numbers
        if step <= 0 or last < first:
            raise RequestError(f"{name}: {text!r} must go up, with a step above 0.")
        count = min(int((last - first) / step + 1e-9), MOST) + 1
        numbers = [round(first + place * step, 9) for place in range(count)]
    if not all(low <= number <= high for number in numbers):
        raise RequestError(f"{name} goes from {low:g} to {high:g}.")
    return numbers
