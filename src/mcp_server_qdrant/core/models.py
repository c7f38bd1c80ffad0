"""The data of embedding models; a part of `datatypes`."""

from collections.abc import Sequence
from dataclasses import dataclass

MODEL_KEY = "embedding_model"  # in a collection's metadata


Dense = Sequence[float]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that encodes the queries of a collection; `fault` says why there is none.

    `certain` where the collection or a setting says so, and it is not merely the default.
    """

    model: str | None
    certain: bool = False
    fault: str | None = None
