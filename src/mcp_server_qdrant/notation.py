"""How names, ids and times are written."""

import math
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any

from mcp_server_qdrant.datatypes import Document, PointId

NAMESPACE = uuid.UUID("6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7")
MAX_NAME = 255

Identify = Callable[[str, str, int], str]
_FIXED_BITS = 0xF << 76 | 0b11 << 62  # of a UUID: its version and its variant
_FROM_5_TO_8 = (5 ^ 8) << 76
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\ud800-\udfff]')


def name_fault(name: str) -> str | None:
    """Why Qdrant or a file system would not take a collection of this name; None if they would."""
    if 0 < len(name) <= MAX_NAME and not _FORBIDDEN.search(name) and name not in (".", ".."):
        return None
    return (
        f"{name[:40]!r} cannot be a collection's name: use 1 to {MAX_NAME} characters "
        'without control characters and < > : " / \\ | ? *'
    )


def point_id(collection: str, document: str, chunk: int, namespace: uuid.UUID = NAMESPACE) -> str:
    """uuid5 of (collection, document id, chunk index): the id of a document's first part.

    Further parts had such ids too before texts had versions.
    """
    return str(uuid.uuid5(namespace, f"{collection}\x00{document}\x00{chunk}"))


def part_id(first: str, version: str, chunk: int) -> str:
    """The id of a further part: the first part's id XOR a hash of version and number.

    Its own inverse: given a further part's id, it is the id of the first. UUID version 8 (RFC 9562,
    for an application's own use) tells such an id from others.
    """
    noise = int.from_bytes(blake2b(f"{version}\0{chunk}".encode(), digest_size=16).digest())
    return str(uuid.UUID(int=uuid.UUID(first).int ^ (noise & ~_FIXED_BITS | _FROM_5_TO_8)))


def is_part_id(point: PointId | None) -> bool:
    """Whether this is the id of a further part, of whatever version."""
    return isinstance(point, str) and uuid.UUID(point).version == 8


def sibling_id(one: Document, chunk: int, identify: Identify = point_id) -> str:
    """The id of another part of the same document and version."""
    if one.version is None or chunk == 0:
        return identify(one.collection, one.document or "", chunk)
    return part_id(str(one.head or one.id), one.version, chunk)


def point_ids_of(tenant: str) -> Identify:
    """The same within one tenant: two that store one text, or use one id, have two points."""
    return partial(point_id, namespace=uuid.uuid5(NAMESPACE, tenant))


def as_point_id(text: str) -> PointId | None:
    """Qdrant's id behind a caller's: an unsigned integer or a UUID; None where it is neither."""
    if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 2**64:
        return int(text)
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


def moment(value: Any) -> datetime | None:
    """A time as people and tools write it: ISO 8601, or epoch in seconds or milliseconds.

    None where it is neither. A time without a zone is UTC.
    """
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
            return when if when.tzinfo else when.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
