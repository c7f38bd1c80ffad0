"""Query -> one vector per distinct model, concurrently."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mcp_server_qdrant.core.datatypes import QueryVectors, Target
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.models import Dense, Inferred


class Encoders(Protocol):
    """What encodes a query under a model's name."""

    async def encode_query(self, model: str, text: str) -> Dense:
        """A unit vector, or what stands for it. Raises EncoderUnavailable with the reason."""


async def embed(query: str, targets: Sequence[Target], encoders: Encoders) -> QueryVectors:
    """Encode the query once for each model that a target needs.

    A model that cannot encode does not fail the search: its reason is kept.
    """
    names = sorted({target.dense.model for target in targets if target.dense})

    async def one(model: str) -> Dense | str:
        try:
            made = await encoders.encode_query(model, query)
            return made if isinstance(made, Inferred) else list(made)
        except BackendError as error:
            return str(error)

    answers = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
    return QueryVectors(
        dense={name: v for name, v in answers.items() if not isinstance(v, str)},
        failures={name: v for name, v in answers.items() if isinstance(v, str)},
    )
