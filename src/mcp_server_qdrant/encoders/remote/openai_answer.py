"""The answer of an embeddings endpoint, read into unit vectors."""

import base64
import binascii
import json
import math
import sys
from array import array
from collections.abc import Sequence
from typing import Any

Vectors = list[list[float]]


class BadAnswer(Exception):
    """The answer is not one vector per text; `passing` says that another try may help."""

    retry_after = None

    def __init__(self, sentence: str, *, passing: bool = False) -> None:
        self.passing = passing
        super().__init__(sentence)


def vectors(answer: bytes, count: int) -> Vectors:
    """One unit vector for each of `count` texts, in their order, all of one size.

    `{"data": [{"index", "embedding"}]}`, where an embedding is a list of numbers or the base64 of
    little-endian float32. Values are rounded to float32, as engines keep them. Raises BadAnswer.
    """
    try:
        whole = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("The embedding service's answer is not JSON.", passing=True) from error
    rows = whole.get("data") if isinstance(whole, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadAnswer("The embedding service's answer holds no vectors.")
    if len(rows) != count:
        raise BadAnswer(
            f"The embedding service answered with {len(rows)} vectors for {count} texts."
        )
    found = [_unit(row.get("embedding")) for row in _ordered(rows)]
    if len({len(vector) for vector in found}) > 1:
        raise BadAnswer("The embedding service's vectors are not all of the same size.")
    return found


def _ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By index; as they come where none has one."""
    places = [row.get("index") for row in rows]
    if all(place is None for place in places):
        return list(rows)
    by_place = {place: row for place, row in zip(places, rows, strict=True) if type(place) is int}
    if set(by_place) != set(range(len(rows))):
        raise BadAnswer("The embedding service's vectors cannot be told apart by their index.")
    return [by_place[place] for place in range(len(rows))]


def _unit(raw: Any) -> list[float]:
    values = _floats(raw)
    length = math.sqrt(math.fsum(value * value for value in values))
    if not math.isfinite(length):
        raise BadAnswer("The embedding service answered with numbers that are not finite.")
    if length == 0:
        raise BadAnswer("The embedding service answered with an empty vector.")
    return array("f", [value / length for value in values]).tolist()


def _floats(raw: Any) -> Sequence[float]:
    try:
        if isinstance(raw, str):
            values = array("f", base64.b64decode(raw, validate=True))
            if sys.byteorder == "big":
                values.byteswap()
            return values
        if isinstance(raw, list):
            return array("d", raw)
    except (TypeError, ValueError, OverflowError, binascii.Error) as error:
        raise BadAnswer("The embedding service's vectors are not made of numbers.") from error
    raise BadAnswer("The embedding service's vectors are not made of numbers.")
