"""Metadata, tags, title and id of a text: limits, and what an update keeps."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.ingest.formats.base import FEWEST, MOST, Loaded

MAX_TEXT = 2_000_000  # characters
MAX_METADATA = 65_536  # bytes of JSON, stored with every part of a text
MAX_TAGS = 100
MAX_TAG = 128  # characters
MAX_TITLE = 1_000
MAX_ID = 1_000


def check(said: NewDocument) -> None:
    """Raise RequestError for attributes that are too large or cannot be stored unchanged."""
    if found := fault(said):
        raise RequestError(f"The text {found}.")
    _check_numbers(said.metadata)


def fault(said: NewDocument | Loaded) -> str | None:
    """The limit that a text exceeds, as a predicate; None if there is none."""
    tags = said.tags or ()
    if len(said.title or "") > MAX_TITLE:
        return f"has a title of more than {MAX_TITLE:,} characters: shorten it"
    if len(said.id or "") > MAX_ID:
        return f"has an id of more than {MAX_ID:,} characters: shorten it"
    if len(tags) > MAX_TAGS:
        return f"has {len(tags):,} tags: at most {MAX_TAGS} are stored, leave some out"
    if any(len(tag) > MAX_TAG for tag in tags):
        return f"has a tag of more than {MAX_TAG} characters: shorten it"
    size = _size(said.metadata)
    if size > MAX_METADATA:
        return (
            f"has metadata of {size:,} bytes as JSON: at most {MAX_METADATA:,} are stored, put "
            "what is long into the text"
        )
    return None


def _size(metadata: Mapping[str, Any] | None) -> int:
    """The size of metadata as JSON, in bytes."""
    if not metadata:
        return 0
    try:
        text = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        raise RequestError("The metadata is nested too deep: flatten it.") from None
    return len(text.encode("utf-8", "replace"))


def _check_numbers(metadata: Mapping[str, Any] | None) -> None:
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


def keep_omitted(new: NewDocument, before: Document | None) -> tuple[NewDocument, tuple[str, ...]]:
    """The new text, with omitted attributes taken from the old one, and their names.

    Empty values ("", [], {}) remove an attribute. A title, source or tags that came from the old
    metadata are kept only together with it.
    """
    if before is None:
        return new, ()
    said = before.metadata or {}
    derived = {
        "title": before.title in (said.get("title"), said.get("name")),
        "source": before.source in (said.get("source"), said.get("url")),
        "tags": list(before.tags) == said.get("tags"),
    }
    old: dict[str, Any] = {"metadata": before.metadata}
    old |= {name: getattr(before, name) for name, known in derived.items() if not known}
    missing = {name: old[name] for name in old if old[name] and getattr(new, name) is None}
    return replace(new, **missing), tuple(missing)
