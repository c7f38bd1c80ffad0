"""The names of the collections that an engine has."""

import asyncio
import contextlib
from collections.abc import Sequence

from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.errors import AccessRefused, KeyRefused, QdrantMcpError
from mcp_server_qdrant.qdrant import marks

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
    return await _shown(client, [collection.name for collection in response.collections])


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


async def _shown(client: AsyncQdrantBase, names: Sequence[str]) -> list[str]:
    """The names, a copy that stands for a collection by that one's; aliases cost a trip."""
    aliases: dict[str, str] = {}
    # A key that may read some collections only is refused the aliases.
    with contextlib.suppress(QdrantMcpError):
        if any(map(marks.stands_for, names)):
            found = (await client.get_aliases()).aliases
            aliases = {alias.alias_name: alias.collection_name for alias in found}
    return marks.shown(names, aliases)
