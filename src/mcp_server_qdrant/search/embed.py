"""Query -> one vector per distinct model, concurrently."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

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


@contextmanager
def begun(query: str, models: Collection[str], encode: Encode) -> Iterator[Encode]:
    """An `encode` that works on the query for these models already; what is not used is ended."""
    tasks = {model: asyncio.ensure_future(encode(model, query)) for model in models}

    async def encoded(model: str, text: str) -> Dense:
        task = tasks.get(model) if text == query else None
        return await (task or encode(model, text))

    try:
        yield encoded
    finally:
        for task in tasks.values():
            task.cancel()
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
