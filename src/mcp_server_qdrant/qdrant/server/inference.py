"""Texts that the Qdrant server encodes itself, in the place of their dense vectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import Sparse
from mcp_server_qdrant.core.errors import (
    EncoderUnavailable,
    EngineFailure,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.models import Dense, Inferred


def native(dense: Dense) -> Any:
    """A dense vector as qdrant-client takes it; a text that the server encodes is a Document."""
    if isinstance(dense, Inferred):
        return models.Document(text=dense.text, model=dense.model)
    return dense


def as_vector(value: Sparse | Dense) -> Any:
    """A vector of a point as qdrant-client takes it, or the text that the server encodes."""
    if isinstance(value, Sparse):
        return models.SparseVector(indices=list(value.indices), values=list(value.values))
    made = native(value)
    return made if isinstance(made, models.Document) else list(made)


@contextmanager
def inference_errors(dense: Dense | None) -> Iterator[None]:
    """Turn Qdrant's failure to encode a text into EncoderUnavailable."""
    try:
        yield
    except (EngineFailure, RequestError) as error:
        if not isinstance(dense, Inferred) or isinstance(error, UnknownCollection):
            raise
        raise EncoderUnavailable(
            f"Qdrant did not encode the text with {dense.model}; does it have inference, and that "
            f"model? {error}"
        ) from error
