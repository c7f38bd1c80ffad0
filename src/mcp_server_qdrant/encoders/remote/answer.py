"""What embedding services answer, read into unit vectors."""

import json
import math
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


def parsed(answer: bytes) -> dict[str, Any]:
    """The object that an answer is. Raises BadAnswer."""
    try:
        whole = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("The embedding service's answer is not JSON.", passing=True) from error
    if not isinstance(whole, dict):
        raise BadAnswer("The embedding service's answer holds no vectors.")
    return whole


def unit(raw: Any) -> list[float]:
    """A list of numbers as a unit vector.

    Values are rounded to float32, as engines keep them. Raises BadAnswer.
    """
    values = _floats(raw)
    length = math.sqrt(math.fsum(value * value for value in values))
    if not math.isfinite(length):
        raise BadAnswer("The embedding service answered with numbers that are not finite.")
    if length == 0:
        raise BadAnswer("The embedding service answered with an empty vector.")
    return array("f", [value / length for value in values]).tolist()


def _floats(raw: Any) -> Sequence[float]:
    try:
        if isinstance(raw, list):
            return array("d", raw)
    except (TypeError, OverflowError) as error:
        raise BadAnswer("The embedding service's vectors are not made of numbers.") from error
    raise BadAnswer("The embedding service's vectors are not made of numbers.")
