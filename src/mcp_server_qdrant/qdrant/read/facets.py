"""The payloads of a collection: its most frequent tags and writers, and its keys."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.datatypes import STORED_BY, TAG_KEYS, Target
from mcp_server_qdrant.core.errors import InvalidFilter, RequestError
from mcp_server_qdrant.core.notation import cite_all, one_line
from mcp_server_qdrant.core.tasks import gather
from mcp_server_qdrant.qdrant.engine import Engine
from mcp_server_qdrant.qdrant.filters import bare_path, conditions, exclude_expired
from mcp_server_qdrant.qdrant.payload import EXPIRES, writer

MOST_COLLECTIONS = 16  # whose keys are listed in an error
SAMPLE = 30  # texts read per collection, for their keys
WRITTEN = 100  # points read to find the writers
MOST_KEYS = 30  # named
DEPTH = 3
SHOWN = 30  # characters of a value in an error
TYPES: Mapping[Any, str] = {bool: "a boolean", (int, float): "a number", str: "a text"}
OUR_OWN = "doc"


@dataclass(eq=False)
class Facets:
    """The values of payload keys, by Qdrant's facets, and the keys themselves.

    `indexed` tells whether a collection has an index on a key. Without one a server refuses to
    count, and the embedded engine would read all payloads, so the key is skipped. Filters on the
    operator's `configured` keys are not checked.
    """

    client: Engine
    indexed: Callable[[str, str], bool]
    configured: Container[str] = ()

    async def tags(self, collection: str, limit: int) -> list[tuple[str, str]]:
        """The `limit` most frequent values of `tags` and of `metadata.tags`, as (key, value)."""
        keys = [key for key in TAG_KEYS if self.indexed(collection, key)]
        found = await asyncio.gather(*(self._values(collection, key, limit) for key in keys))
        return [(key, value) for key, values in zip(keys, found, strict=True) for value in values]

    async def writers(self, collection: str, limit: int) -> list[str]:
        """The callers and clients that stored most of a sample of its points."""
        # Ids are hashes, so the first ones are a random sample.
        found, _ = await self.client.scroll(collection, limit=WRITTEN, with_payload=[STORED_BY])
        writers = [writer((one.payload or {}).get(STORED_BY)) or {} for one in found]
        roles = ("caller", "client")
        counts = (Counter(one[role] for one in writers if role in one) for role in roles)
        return [name for count in counts for name, _ in count.most_common(limit)]

    async def _values(self, collection: str, key: str, limit: int) -> list[str]:
        expiring = self.indexed(collection, EXPIRES)
        live = exclude_expired(None, datetime.now(UTC)) if expiring else None
        try:
            response = await self.client.facet(collection, key, live, limit=limit)
        except RequestError:
            return []  # an index of another type, or a server without facets
        # The embedded engine also lists values of deleted points.
        return [hit.value for hit in response.hits if hit.count and isinstance(hit.value, str)]

    async def check_keys(self, raw: Mapping[str, Any], targets: Sequence[Target]) -> None:
        """Raise InvalidFilter for a key that no text has, or only with values of another type.

        A key is accepted if one of the collections could not be read.
        """
        names = [target.collection for target in targets]
        for key, sought in _filter_keys(raw):
            if key in self.configured:
                continue
            missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
            found, failed = await self._sample(names, SAMPLE, models.Filter(must_not=[missing]))
            values = [
                value
                for record in chain(*found.values())
                for value in _values_at(record.payload, bare_path(key).split("."))
            ]
            kinds, asked = ({*filter(None, map(_type, some))} for some in (values, sought))
            if kinds and asked and kinds.isdisjoint(asked) and not failed:
                raise InvalidFilter(
                    f"{key!r} is {' or '.join(sorted(kinds))} there, such as "
                    f"{one_line(json.dumps(values[0]), SHOWN)}, but the filter has "
                    f"{' or '.join(sorted(asked))}: use the same type."
                )
            if names and not failed and not any(found.values()):
                texts, _ = await self._sample(names[:MOST_COLLECTIONS], SAMPLE)
                payloads = [one.payload or {} for some in texts.values() for one in some]
                usual = Counter(known for payload in payloads for known in set(_keys(payload)))
                there = sorted(known for known, _ in usual.most_common(MOST_KEYS))
                raise InvalidFilter(
                    f"No text there has the key {key!r}; there are: {cite_all(there) or 'none'}."
                )

    async def _sample(self, names: Sequence[str], limit: int, where: Any = None) -> Any:
        """Some matching points of each collection, and the errors by collection."""

        async def read(name: str) -> list[Any]:
            records, _ = await self.client.scroll(name, where, limit=limit, with_payload=True)
            return records

        return await gather(names, read)


def _filter_keys(raw: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The keys of a filter's conditions with the values to match, if it has any.

    The key of a nested condition is that of its list.
    """
    for inside, condition in conditions(raw):
        key = condition.get("key") or (condition.get("nested") or {}).get("key")
        if isinstance(key, str) and not inside and bare_path(key).split(".")[0] != OUR_OWN:
            match = condition.get("match") or {}
            yield key, [match.get("value"), *(match.get("any") or ())]


def _type(value: Any) -> str | None:
    return next((name for kind, name in TYPES.items() if isinstance(value, kind)), None)


def _values_at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The single values at a path; lists on the way are searched."""
    if isinstance(value, list):
        for one in value:
            yield from _values_at(one, path)
    elif not path:
        yield value
    elif isinstance(value, dict):
        yield from _values_at(value.get(path[0]), path[1:])


def _keys(payload: Mapping[str, Any], inside: str = "", depth: int = DEPTH) -> Iterator[str]:
    """The paths of a payload's values, without our own `doc`."""
    for key, value in payload.items():
        if value is None or (key == OUR_OWN and not inside):
            continue
        items = value if isinstance(value, list) else [value]
        deeper = [item for item in items if isinstance(item, dict)] if depth > 1 else []
        if not deeper:
            yield inside + key
        for item in deeper:
            yield from _keys(item, f"{inside}{key}.", depth - 1)
