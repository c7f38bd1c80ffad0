"""The data of embedding models; a part of `datatypes`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Provider = Literal["fastembed", "none", "openai"]  # of vectors; docs/models.md

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


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """Requests to an embedding service: seconds, and sizes.

    A request has at most `texts` texts; a part of a text has `text_tokens`. After a failure there
    is no request for `cooldown` seconds.
    """

    seconds: float = 60.0
    query_seconds: float = 3.0
    cooldown: float = 30.0
    texts: int = 32
    text_tokens: int = 512
