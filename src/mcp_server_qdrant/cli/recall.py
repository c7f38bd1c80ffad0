"""The command `recall`, for hooks: it has a short timeout and imports almost nothing."""

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.errors import QdrantMcpError, contained
from mcp_server_qdrant.hosting.pipe import ask_recall

SECONDS = 0.7  # timeout; with the start of Python less than a second
# Events of other clients -> those of Claude Code.
EVENTS = {"BeforeAgent": "UserPromptSubmit", "sessionStart": "SessionStart"}


def run(folder: str, client: str = "claude-code") -> None:
    """Print what a running service recalls for the hook on stdin, and exit with status 0.

    The output has the format that the client expects; it is empty if nothing fits.
    """
    with suppress(QdrantMcpError), contained():  # an error must not disturb the client
        until = time.monotonic() + SECONDS
        hook = json.loads(sys.stdin.buffer.read())
        # Always in the same order, because the first service knows what a session has seen.
        for place in sorted(map(str, Path(folder).glob("recall-*.json"))):
            if text := ask_recall(place, _as_claude_hook(hook), until - time.monotonic()):
                said = _format_for(client, hook["hook_event_name"], text)
                sys.stdout.buffer.write(f"{said}\n".encode("utf-8", "replace"))
                break
        sys.stdout.flush()
    os._exit(0)  # there is nothing to clean up


def _as_claude_hook(hook: Mapping[str, Any]) -> dict[str, Any]:
    """The hook in the format of Claude Code. Cursor sends folders instead of a directory."""
    roots = hook.get("workspace_roots") or [None]
    event = hook["hook_event_name"]
    return {"cwd": roots[0], **hook, "hook_event_name": EVENTS.get(event, event)}


def _format_for(client: str, event: str, text: str) -> str:
    if client == "claude-code":
        return text
    told = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    return json.dumps({"additional_context": text} if client == "cursor" else told)
