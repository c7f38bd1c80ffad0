"""Whether two stored texts have the same content, and whether one was changed since it was read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of a stored text; all parts of it have the same revision.

    A text of several parts has a `version`, a hash of all its content, and no `text` here. `ours`:
    this server wrote it, so `updated_at` is different after each write, unless it is from a file.
    """

    ours: bool
    version: str | None
    text: str | None
    described: tuple[str | None, str | None, Mapping[str, Any] | None, tuple[str, ...]]
    superseded_by: str | None
    created_at: str | None
    updated_at: str | None
    expires: str | None

    @property
    def content(self) -> tuple[str | None, ...]:
        """What a reader sees."""
        whole = (self.text, *self.described)
        return self.created_at, self.version or json.dumps(whole, sort_keys=True, default=str)

    def same_content(self, other: "Revision") -> bool:
        """Whether a reader sees the same in both, whenever they were written."""
        return self.content == other.content

    def changed_since(self, seen: "Revision") -> bool:
        """Whether the text was written again since it was `seen`.

        Only the time and the text are compared, because an engine may round numbers in the
        metadata. Points of another tool have no reliable time, so all their fields are compared.
        """
        if not (self.ours and seen.ours):
            return self != seen
        now = self.version, self.text, self.updated_at
        return now != (seen.version, seen.text, seen.updated_at)

    def __str__(self) -> str:
        """A hash (16 hex digits) of everything that is stored with the text, for callers."""
        text, more = self.version or self.text, filter(None, [self.expires])
        times = self.created_at, self.updated_at
        seen = (text, *self.described, self.superseded_by, *times, *more)
        written = json.dumps(seen, sort_keys=True, default=str)
        return blake2b(written.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
