"""The payload keys that texts have: what to tell of a filter that asks for one that none has."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.core.datatypes import Target
from mcp_server_qdrant.core.errors import InvalidFilter
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.core.tasks import gathered
from mcp_server_qdrant.qdrant.filters import bare, conditions

MOST_COLLECTIONS = 16
SAMPLE = 30  # texts of each
MOST_KEYS = 30  # named
DEPTH = 3
OUR_OWN = "doc"


class PayloadKeys:
    """Reads which keys there are. Those of the operator's own filters are never doubted."""

    def __init__(self, client: AsyncQdrantBase, configured: Container[str] = ()) -> None:
        self._client = client
        self._configured = configured

    async def check(self, raw: Mapping[str, Any], targets: Sequence[Target]) -> None:
        """Raise InvalidFilter for a key that no text of these collections has, naming the usual.

        Nothing is said of many collections, nor where one could not be asked.
        """
        names = [target.collection for target in targets]
        if not names or len(names) > MOST_COLLECTIONS:
            return
        for key in _asked(raw):
            if key in self._configured:
                continue
            found, failed = await gathered(names, partial(self._has, key))
            if not failed and not any(found.values()):
                there = every(await self._usual(names)) or "none"
                raise InvalidFilter(f"No text there has the key {key!r}; there are: {there}.")

    async def _has(self, key: str, collection: str) -> bool:
        missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
        where = models.Filter(must_not=[missing])
        records, _ = await self._client.scroll(collection, where, limit=1, with_payload=False)
        return bool(records)

    async def _usual(self, names: Sequence[str]) -> list[str]:
        """The keys that most of some texts have, in the order of the alphabet."""

        async def sampled(name: str) -> Counter[str]:
            records, _ = await self._client.scroll(name, limit=SAMPLE, with_payload=True)
            return Counter(key for one in records for key in set(_keys(one.payload or {})))

        found, _ = await gathered(names, sampled)
        known = sum(found.values(), Counter[str]())
        return sorted(key for key, _ in known.most_common(MOST_KEYS))


def _asked(raw: Mapping[str, Any]) -> Iterator[str]:
    """The keys of its conditions; of nested ones the list that they are asked of."""
    for inside, condition in conditions(raw):
        key = condition.get("key") or (condition.get("nested") or {}).get("key")
        if isinstance(key, str) and not inside and bare(key).split(".")[0] != OUR_OWN:
            yield key


def _keys(payload: Mapping[str, Any], inside: str = "", depth: int = DEPTH) -> Iterator[str]:
    """The paths of a payload's values; of our own administration none."""
    for key, value in payload.items():
        if value is None or (key == OUR_OWN and not inside):
            continue
        items = value if isinstance(value, list) else [value]
        deeper = [item for item in items if isinstance(item, dict)] if depth > 1 else []
        if not deeper:
            yield inside + key
        for item in deeper:
            yield from _keys(item, f"{inside}{key}.", depth - 1)
