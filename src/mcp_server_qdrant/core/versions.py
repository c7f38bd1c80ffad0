"""Earlier versions of texts."""

from collections.abc import Mapping
from dataclasses import dataclass

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.notation import called, line

LINE = 100  # characters of its title and text


@dataclass(frozen=True, slots=True)
class Version:
    """What a text was until it was replaced or `deleted`, and by whom.

    `id` ends in `until`, ISO 8601 in UTC; `by` is as `Document.stored_by`. The `document` has its
    beginning only, unless its `parts` were read.
    """

    id: str
    collection: str
    until: str
    by: Mapping[str, str]
    deleted: bool
    document: Document
    parts: tuple[Document, ...] = ()

    @property
    def ended(self) -> str:
        """What became of it, and whose doing that was."""
        who = self.by.get("caller") or self.by.get("client")
        return f"{'deleted' if self.deleted else 'replaced'}{f' by {called(who)}' if who else ''}"

    @property
    def line(self) -> str:
        """All of it on one line."""
        title, text = self.document.title, self.document.text
        about = line(f"{title}: {text}" if title else text, LINE)
        return f"{called(self.collection)} (id {called(self.id)}) · {self.ended} · {about}"
