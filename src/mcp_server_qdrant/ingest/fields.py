"""What comes with a text: metadata that no engine may alter, and what an update leaves alone."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.datatypes import Document, NewDocument
from mcp_server_qdrant.errors import RequestError

FEWEST, MOST = -(2**63), 2**63 - 1  # beyond, engines make a rounded float of an integer


def check(metadata: Mapping[str, Any] | None) -> None:
    """Refuse a number that would not be stored as it is. Raises RequestError naming its key."""
    inside: list[tuple[str, Any]] = [("metadata", metadata)]
    while inside:
        path, value = inside.pop()
        if isinstance(value, Mapping):
            inside += [(f"{path}.{key}", held) for key, held in value.items()]
        elif isinstance(value, list | tuple):
            inside += [(path, held) for held in value]
        elif isinstance(value, int) and not FEWEST <= value <= MOST:
            raise RequestError(f"{path} has more than 64 bits: give it as a text.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise RequestError(f"{path} is {value}, which JSON cannot hold: leave it out.")


def kept(new: NewDocument, before: Document | None) -> tuple[NewDocument, tuple[str, ...]]:
    """The new text with whatever its caller left out as it was before, and the names of that.

    What was given empty ("", [], {}) is removed. What the old metadata said is kept with it only.
    """
    if before is None:
        return new, ()
    said = before.metadata or {}
    title = None if before.title in (said.get("title"), said.get("name")) else before.title
    source = None if before.source in (said.get("source"), said.get("url")) else before.source
    tags = None if list(before.tags) == said.get("tags") else before.tags
    old: dict[str, Any] = {
        "metadata": before.metadata,
        "title": title,
        "source": source,
        "tags": tags,
    }
    missing = {name: old[name] for name in old if old[name] and getattr(new, name) is None}
    return replace(new, **missing), tuple(missing)
