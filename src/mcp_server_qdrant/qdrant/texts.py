"""Where points keep their texts: under the keys of the settings or, of other tools, by looking."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mcp_server_qdrant.core.datatypes import Payload
from mcp_server_qdrant.core.errors import QdrantMcpError
from mcp_server_qdrant.core.forms import spaced
from mcp_server_qdrant.core.notation import cite
from mcp_server_qdrant.qdrant.engine import Engine

SAMPLE = 24  # points that are looked at
DEPTH = 3  # of a path: `_node_content.text_resource.text`


class Texts(tuple[str, ...]):
    """The paths of the settings, and for each collection the one that was found in its points.

    A path leads into objects, and into JSON: `metadata.text`, `_node_content.text`.
    """

    def __init__(self, _: Sequence[str]) -> None:
        self._found: dict[str, str | None] = {}

    def of(self, collection: str) -> tuple[str, ...]:
        """The paths of a collection's texts; the first that a point has counts."""
        found = self._found.get(collection)
        return (*self, found) if found else self

    def looked(self, collection: str) -> bool:
        """True where it is known whether the texts are elsewhere."""
        return collection in self._found

    async def look(self, client: Engine, collection: str) -> None:
        """Look at some points for where their texts are. What fails is tried at the next look."""
        with suppress(QdrantMcpError):
            records, _ = await client.scroll(collection, limit=SAMPLE, with_payload=True)
            self._found[collection] = found_in([one.payload or {} for one in records], self)

    def said(self, collection: str) -> str | None:
        """The sentence on a path that was found."""
        found = self._found.get(collection)
        return found and f"its texts are under {cite(found)}; QDRANT_CONTENT_FIELDS may name more"


def paths_of(fields: Sequence[str], collection: str) -> Sequence[str]:
    """The paths where the texts of a collection may be."""
    return fields.of(collection) if isinstance(fields, Texts) else fields


def keys_of(fields: Sequence[str], collection: str) -> list[str]:
    """The keys at the top of a payload below which its texts may be: JSON is read as a whole."""
    return [path.partition(".")[0] for path in paths_of(fields, collection)]


def text_at(payload: Payload | None, paths: Sequence[str]) -> tuple[str, str] | None:
    """The path of a point's text, and the text; None where it has none."""
    for path in paths:
        value: Any = (payload or {}).get(path)
        if value is None and "." in path:
            value = payload
            for key in path.split("."):
                value = _opened(value).get(key)
        if isinstance(value, str):
            return path, value
    return None


def found_in(payloads: Sequence[Payload], known: Sequence[str]) -> str | None:
    """The path of the longest texts that most points with a text have; None if keys are known."""
    without = [one for one in payloads if text_at(one, known) is None]
    if 2 * len(without) <= len(payloads):
        return None
    texts = [found for one in without if (found := dict(_texts(one)))]
    having, letters = Counter[str](), Counter[str]()
    for found in texts:
        having.update(found.keys())
        letters.update({path: len(text) for path, text in found.items()})
    most = [path for path, count in having.items() if 2 * count > len(texts)]
    return max(most, key=letters.__getitem__, default=None)


def _texts(value: Any, inside: str = "", depth: int = DEPTH) -> Iterator[tuple[str, str]]:
    for key, one in _opened(value).items():
        path = f"{inside}{key}"
        if depth > 1 and (held := _opened(one)):
            yield from _texts(held, f"{path}.", depth - 1)
        elif isinstance(one, str) and _is_text(one):
            yield path, one


def _opened(value: Any) -> Mapping[str, Any]:
    """An object, also one that is written as JSON; empty for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _is_text(value: str) -> bool:
    """True for several words, most of which are letters: no link, path, id, date or number."""
    words = value.split()
    signs = "".join(words)
    return (len(words) > 1 or spaced(value) != value) and sum(map(str.isalpha, signs[:500])) > len(
        signs[:500]
    ) / 2
