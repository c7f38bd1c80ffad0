"""The data of a text that is stored."""

from dataclasses import dataclass

from mcp_server_qdrant.core.datatypes import Document, Payload, Sparse
from mcp_server_qdrant.core.models import Dense

# How often a word of a title counts in the BM25 vectors that are stored.
TITLE_FACTOR = 3


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of storing a text.

    `pending` points wait for their dense vector; `without_vector` says why there will be none;
    `kept` names what an update left as it was, `replaced` counts the parts it replaced. `near` is
    another memory that the text nearly repeats, with its cosine; `retired` the superseded one.
    """

    collection: str
    document: str
    ids: tuple[str, ...]
    created_collection: bool
    updated: bool
    pending: bool = False
    without_vector: str | None = None
    kept: tuple[str, ...] = ()
    replaced: int = 0
    near: tuple[Document, float] | None = None
    retired: Document | None = None


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """One point as we write it: vectors by name, None where the model is not there yet."""

    id: str
    payload: Payload
    dense: Dense | None
    sparse: Sparse
