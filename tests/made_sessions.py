"""Made-up sessions in the formats of coding clients; no line is from a real one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ID = "6c073d8e-2bb1-45cb-90bc-a28ce44da090"
PROJECT = "/home/ada/shed"
Row = Mapping[str, Any]


def lines(rows: Sequence[Row | str]) -> bytes:
    """The rows as JSON lines; a string is a line itself."""
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return "".join(f"{text}\n" for text in texts).encode()


def asked(number: int, text: Any, day: str = "2026-11-20", **more: Any) -> Row:
    """A prompt in Claude Code's format; `more` overrides fields, None removes one."""
    return _row(number, "user", {"role": "user", "content": text}, day, more)


def answered(number: int, *blocks: Any, day: str = "2026-11-20", **more: Any) -> Row:
    """An answer in Claude Code's format, of blocks or strings."""
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    message = {"role": "assistant", "id": f"msg_{number}", "model": "m", "content": content}
    return _row(number, "assistant", message, day, more)


def _row(number: int, kind: str, message: Row, day: str, more: Row) -> Row:
    row = {
        "parentUuid": f"u{number - 1}" if number else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": PROJECT,
        "sessionId": ID,
        "version": "2.1.219",
        "gitBranch": "main",
        "type": kind,
        "message": message,
        "uuid": f"u{number}",
        "timestamp": f"{day}T10:{number % 60:02}:00.000Z",
        **more,
    }
    return {key: value for key, value in row.items() if value is not None}


def exchange(number: int, question: str, answer: str, day: str = "2026-11-20") -> list[Row]:
    """A prompt, a tool call, and an answer."""
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
    result = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "TOOL OUTPUT"}]
    return [
        asked(4 * number, question, day),
        answered(4 * number + 1, {"type": "thinking", "thinking": "A THOUGHT"}, call, day=day),
        asked(4 * number + 2, result, day, toolUseResult={"stdout": "TOOL OUTPUT"}),
        answered(4 * number + 3, answer, day=day),
    ]


def written(folder: Path, rows: Sequence[Row | str], name: str = f"{ID}.jsonl") -> Path:
    """Write a session file into the project's folder, with the client's names."""
    place = folder / PROJECT.replace("/", "-")
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(lines(rows))
    return place / name


def codex(*items: Row, **meta: Any) -> list[Row]:
    """A session (rollout) of Codex."""
    known = {
        "id": ID,
        "timestamp": "2026-11-20T10:00:00Z",
        "cwd": PROJECT,
        "originator": "codex_cli_rs",
        "cli_version": "0.144.1",
        "source": "cli",
        "git": {"commit_hash": "0e3689a", "branch": "pump"},
        **meta,
    }
    rows = [("session_meta", known), *(("response_item", item) for item in items)]
    return [
        {"timestamp": f"2026-11-20T10:{n:02}:00Z", "type": kind, "payload": payload}
        for n, (kind, payload) in enumerate(rows)
    ]


def said(role: str, text: str) -> Row:
    """A message in the format of the model's API."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
