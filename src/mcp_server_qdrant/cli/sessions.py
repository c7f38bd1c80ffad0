"""The sessions and memory of coding clients on this machine: location and size."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_server_qdrant.cli.clients import user_folder
from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.notation import plural

COLLECTION = "sessions"
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a client: a folder below the home folder, and file patterns."""

    title: str
    folder: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    collection: str = COLLECTION
    noun: str = "session"
    keep: bool = True  # keep texts whose files the client deletes

    @property
    def path(self) -> Path:
        """The folder on this machine."""
        return user_folder() / self.folder

    def source(self, name: str) -> dict[str, Any]:
        """The entry of SYNC_SOURCES for them."""
        files = {"include": self.include, "exclude": self.exclude, "keep": self.keep}
        return {"path": str(self.path), "collection": self.collection, "name": name, **files}

    def describe_size(self) -> str | None:
        """Their number, size and dates in words; None if there are none."""
        from mcp_server_qdrant.ingest.files.walk import Source, walk_all

        selection = Selection(self.include, self.exclude)
        there = self.path.is_dir()
        source = Source(self.collection, self.path, folder=True)
        files = walk_all([source], selection).files if there else []
        if not files:
            return None
        days = sorted(f"{datetime.fromtimestamp(one.mtime / 1e9):%Y-%m-%d}" for one in files)
        total = sum(one.size for one in files)
        size = f"{total / MB:,.1f} MB" if total >= MB / 10 else f"{-(-total // 1000)} kB"
        period = " to ".join(dict.fromkeys((days[0], days[-1])))
        return f"{plural(len(files), self.noun)} of {self.title}, {size}, {period}"


# The folder of Claude Code also has logs of sub-agents and tools, and its memory. A note that
# Claude deletes is no longer true, so its text is not kept.
CLIENTS: Mapping[str, Sessions] = {
    "claude-code": Sessions(
        "Claude Code", ".claude/projects", ("*.jsonl",), ("agent-*.jsonl", "subagents/")
    ),
    "claude-memory": Sessions(
        "Claude Code's memory",
        ".claude/projects",
        ("*/memory/**/*.md",),
        collection="claude-memory",
        noun="note",
        keep=False,
    ),
    "codex": Sessions("Codex", ".codex/sessions", ("rollout-*.jsonl",)),
    "gemini-cli": Sessions("Gemini CLI", ".gemini/tmp", ("session-*.json", "session-*.jsonl")),
}
