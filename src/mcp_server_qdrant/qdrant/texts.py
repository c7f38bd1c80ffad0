"""Where points keep their texts: the paths of the settings, and one that is found in a sample."""

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

SAMPLE = 24  # points
DEPTH = 3  # keys in a path, such as `_node_content.text_resource.text`


class Texts(tuple[str, ...]):
    """The paths of the settings, and for each collection a path that was found in its points.

    A path such as `_node_content.text` leads into objects, and into strings of JSON.
    """

    def __init__(self, _: Sequence[str]) -> None:
        self._found: dict[str, str | None] = {}

    def paths(self, collection: str) -> tuple[str, ...]:
        """The paths of a collection's texts; of each point the first one present counts."""
        found = self._found.get(collection)
        return (*self, found) if found else self

    def is_sampled(self, collection: str) -> bool:
        """Whether `sample` has read this collection."""
        return collection in self._found

    async def sample(self, client: Engine, collection: str) -> None:
        """Find the path of the texts in some points; has no effect if the engine fails."""
        with suppress(QdrantMcpError):
            records, _ = await client.scroll(collection, limit=SAMPLE, with_payload=True)
            self._found[collection] = find_text_path([one.payload or {} for one in records], self)

    def note(self, collection: str) -> str | None:
        """A sentence on the path that was found, if any."""
        found = self._found.get(collection)
        return found and f"its texts are under {cite(found)}; QDRANT_CONTENT_FIELDS may name more"


def paths_of(fields: Sequence[str], collection: str) -> Sequence[str]:
    """The paths where the texts of a collection may be."""
    return fields.paths(collection) if isinstance(fields, Texts) else fields


def keys_of(fields: Sequence[str], collection: str) -> list[str]:
    """The top-level payload keys of these paths: a string of JSON is read as a whole."""
    return [path.partition(".")[0] for path in paths_of(fields, collection)]


def text_at(payload: Payload | None, paths: Sequence[str]) -> tuple[str, str] | None:
    """The path of a point's text, and the text; None if there is none."""
    for path in paths:
        value: Any = (payload or {}).get(path)
        if value is None and "." in path:
            value = payload
            for key in path.split("."):
                value = _as_object(value).get(key)
        text = value if isinstance(value, str) else _joined(value)
        if text and not text.isspace():
            return path, text
    return None


def _joined(value: Any) -> str:
    """A text, or several as lines; "" for anything else."""
    texts = value if isinstance(value, list) else [value]
    return "\n".join(texts) if all(isinstance(one, str) for one in texts) else ""


def find_text_path(payloads: Sequence[Payload], known: Sequence[str]) -> str | None:
    """The path of the longest texts that most points have.

    None if there is none, or if at least half of the points have a text at a `known` path.
    """
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
    for key, one in _as_object(value).items():
        path = f"{inside}{key}"
        if depth > 1 and (held := _as_object(one)):
            yield from _texts(held, f"{path}.", depth - 1)
        elif (text := _joined(one)) and all(map(_is_text, [one] if text == one else one)):
            yield path, text


def _as_object(value: Any) -> Mapping[str, Any]:
    """An object, or a string of JSON as an object; empty for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _is_text(value: str) -> bool:
    """True for several words, mostly of letters: no link, path, id, date or number."""
    words = value.split()
    signs = "".join(words)[:500]
    several = len(words) > 1 or spaced(value) != value
    return several and 2 * sum(map(str.isalpha, signs)) > len(signs)
