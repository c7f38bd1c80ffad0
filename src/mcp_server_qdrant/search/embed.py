"""Query -> one vector per distinct model, concurrently."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from mcp_server_qdrant.core.datatypes import QueryVectors, Target
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.models import Dense, Inferred

# A model's name and a text -> a unit vector, or the text for an engine that encodes it itself.
Encode = Callable[[str, str], Awaitable[Dense]]


async def embed(query: str, targets: Sequence[Target], encode: Encode) -> QueryVectors:
    """Encode the query once for each model that a target needs.

    A model that cannot encode does not fail the search: its reason is kept.
    """
    models = sorted({target.dense.model for target in targets if target.dense})

    async def vector(model: str) -> Dense | str:
        try:
            encoded = await encode(model, query)
            return encoded if isinstance(encoded, Inferred) else list(encoded)
        except BackendError as error:
            return str(error)

    answers = dict(zip(models, await asyncio.gather(*map(vector, models)), strict=True))
    return QueryVectors(
        dense={model: v for model, v in answers.items() if not isinstance(v, str)},
        failures={model: v for model, v in answers.items() if isinstance(v, str)},
    )
