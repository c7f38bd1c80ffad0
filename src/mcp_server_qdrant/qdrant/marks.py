"""What an upgrade writes down in a collection's metadata, and what it calls the copies it makes.

`filling` names the vectors that not all points have yet: they are written, and not searched.
`embedding_vector` is the one that an upgrade to another model added.
A collection NAME~1 is the copy that stands for NAME: the alias NAME leads to it, or is about to.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

FILLING_KEY = "filling"
VECTOR_KEY = "embedding_vector"
IMPORTED_KEY = "imported"
UNFINISHED = "an upgrade is under way, or was cut short: then run mcp-server-qdrant upgrade again"
_COPY = re.compile(r"(.+)~\d+", re.DOTALL)


def filling(metadata: Mapping[str, Any] | None) -> frozenset[str]:
    """The vectors that an upgrade has not given to all points yet."""
    named = (metadata or {}).get(FILLING_KEY)
    return frozenset(map(str, named)) if isinstance(named, list) else frozenset()


def stands_for(name: str) -> str | None:
    """The name that a copy made by an upgrade goes by; None for any other collection."""
    found = _COPY.fullmatch(name)
    return found[1] if found else None


def shown(names: Collection[str], aliases: Mapping[str, str]) -> list[str]:
    """The names that people know, of all collections and of alias -> collection, sorted.

    A copy is called by the alias that leads to it; while the original is there it is not shown.
    """
    known = set()
    for name in names:
        original = stands_for(name)
        if original is None:
            known.add(name)
        elif aliases.get(original) == name:
            known.add(original)
        elif original not in names and original not in aliases:
            known.add(name)
    return sorted(known)
