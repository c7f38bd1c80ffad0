"""The command `recall`: each client's hook is asked as Claude Code's, and answered in its form."""

import io
import json
import sys
from typing import Any

import pytest

from mcp_server_qdrant.cli import recall

TEXT = "what fits"


def context(event: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": TEXT}}


@pytest.mark.parametrize(
    ("client", "event", "asked", "answer"),
    [
        ("claude-code", "SessionStart", "SessionStart", TEXT),
        ("codex", "UserPromptSubmit", "UserPromptSubmit", context("UserPromptSubmit")),
        ("gemini-cli", "BeforeAgent", "UserPromptSubmit", context("BeforeAgent")),
        ("cursor", "sessionStart", "SessionStart", {"additional_context": TEXT}),
    ],
)
def test_each_client_is_answered_in_the_form_that_it_documents(
    client, event, asked, answer, tmp_path, monkeypatch
):
    place = {"workspace_roots": ["/billing"]} if client == "cursor" else {"cwd": "/billing"}
    sent = json.dumps({"hook_event_name": event, "session_id": "s1", **place}).encode()
    (tmp_path / "recall-1.json").touch()
    out, hooks = io.TextIOWrapper(io.BytesIO()), []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sent)))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(recall.os, "_exit", lambda _: None)
    monkeypatch.setattr(recall, "ask_recall", lambda _, hook, __: hooks.append(hook) or TEXT)
    recall.run(str(tmp_path), client)
    printed = out.buffer.getvalue().decode()

    assert (hooks[0]["hook_event_name"], hooks[0]["cwd"]) == (asked, "/billing")
    assert printed == f"{TEXT}\n" if client == "claude-code" else json.loads(printed) == answer
