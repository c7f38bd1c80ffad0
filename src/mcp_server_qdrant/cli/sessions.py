"""The sessions that coding clients keep on this machine: where they are, and how much."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_server_qdrant.cli.clients import user_folder
from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.notation import amount

COLLECTION = "sessions"
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a client: a folder below that of the user, and the patterns of its files."""

    title: str
    folder: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The folder on this machine."""
        return user_folder() / self.folder

    def source(self, name: str) -> dict[str, Any]:
        """The entry of SYNC_SOURCES that follows them, and keeps those that the client deletes."""
        files = {"include": self.include, "exclude": self.exclude, "keep": True}
        return {"path": str(self.path), "collection": COLLECTION, "name": name, **files}

    def measured(self) -> str | None:
        """How many there are, how large, from when to when; None where there is none."""
        from mcp_server_qdrant.ingest.files.walk import Source, walk_all

        selection = Selection(self.include, self.exclude)
        there = self.path.is_dir()
        source = Source(COLLECTION, self.path, folder=True)
        files = walk_all([source], selection).files if there else []
        if not files:
            return None
        days = sorted(f"{datetime.fromtimestamp(one.mtime / 1e9, UTC):%Y-%m-%d}" for one in files)
        size = f"{sum(one.size for one in files) / MB:,.1f} MB"
        return f"{amount(len(files), 'session')} of {self.title}, {size}, {days[0]} to {days[-1]}"


# What sub-agents and tools did lies beside the sessions of Claude Code.
CLIENTS: Mapping[str, Sessions] = {
    "claude-code": Sessions(
        "Claude Code", ".claude/projects", ("*.jsonl",), ("agent-*.jsonl", "subagents/")
    ),
    "codex": Sessions("Codex", ".codex/sessions", ("rollout-*.jsonl",)),
    "gemini-cli": Sessions("Gemini CLI", ".gemini/tmp", ("session-*.json", "session-*.jsonl")),
}
