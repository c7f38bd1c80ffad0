"""The names of the collections that an engine has."""

import asyncio
from collections.abc import Sequence

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.errors import AccessRefused, KeyRefused

UNLISTED = "Qdrant's key may not list collections: name them in QDRANT_COLLECTIONS."


def is_glob(name: str) -> bool:
    """True for a name with wildcards."""
    return any(mark in name for mark in "*?[")


async def listed(client: AsyncQdrantBase, named: Sequence[str]) -> list[str]:
    """All names, sorted; where the key may not list, those of `named` that exist.

    Raises AccessRefused where the key may not look for them either.
    """
    try:
        response = await client.get_collections()
    except KeyRefused:
        raise
    except AccessRefused as refusal:
        return await _there(client, sorted(named), refusal)
    return sorted(collection.name for collection in response.collections)


async def _there(
    client: AsyncQdrantBase, named: Sequence[str], refusal: AccessRefused
) -> list[str]:
    """The names that the key may read: a key for some collections only may not list."""
    if not named:
        raise AccessRefused(UNLISTED) from refusal

    async def there(name: str) -> bool | None:
        try:
            return bool(await client.collection_exists(name))
        except AccessRefused:
            return None

    answers = await asyncio.gather(*map(there, named))
    if all(answer is None for answer in answers):
        raise refusal
    return [name for name, answer in zip(named, answers, strict=True) if answer]
