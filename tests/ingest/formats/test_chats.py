"""Exported chats: conversations of Claude and ChatGPT."""

import json
from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.chats import NO_DATE
from mcp_server_qdrant.ingest.formats.load import load

CLAUDE = {
    "uuid": "c1",
    "name": "Roses",
    "created_at": "2026-01-02T03:04:05Z",
    "chat_messages": [
        {
            "sender": "human",
            "text": "When to prune?",
            "created_at": "2026-01-02T03:04:05Z",
            "attachments": [{"extracted_content": "a list"}],
        },
        {
            "sender": "assistant",
            "text": "ignored",
            "content": [{"type": "text", "text": "In March."}, {"type": "tool_use"}],
            "created_at": "2026-01-03T00:00:00Z",
        },
    ],
}


def node(parent: str | None, role: str, *parts: object, time: float | None = None) -> object:
    message = {"author": {"role": role}, "content": {"parts": parts}, "create_time": time}
    return {"parent": parent, "message": message}


CHATGPT = {
    "id": "g1",
    "title": "Lamps",
    "create_time": 1767323045.5,
    "current_node": "c",
    "mapping": {
        "root": {"parent": None, "message": None},
        "s": node("root", "system", "Be kind."),
        "a": node("s", "user", {"asset_pointer": "x"}, "Which lamp?", time=1767323045.5),
        "b": node("a", "assistant", "The old answer."),
        "c": node("a", "assistant", "The red one.", time=1767323050),
    },
}


def test_a_conversation_of_claude_is_a_text_with_speakers_days_and_questions_as_sections():
    (one,) = load("n/conversations.json", json.dumps([CLAUDE]).encode()).texts

    assert one.text == "User: When to prune?\n\na list\n\nClaude: In March.\n\n"
    assert (one.id, one.title) == ("n/conversations.json#c1", "Roses")
    assert one.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert [(mark.start, mark.level, mark.name) for mark in one.marks] == [
        (0, 0, "2026-01-02"),
        (0, 1, "When to prune? a list"),
    ]


def test_of_chatgpt_the_answers_that_were_shown_last_are_kept():
    (one,) = load("n/conversations-000.json", json.dumps([CHATGPT]).encode()).texts

    assert one.text == "User: Which lamp?\n\nChatGPT: The red one.\n\n"
    assert (one.title, one.metadata) == ("Lamps", {"chat": "ChatGPT"})
    assert one.created_at.date().isoformat() == "2026-01-02"


def test_bad_conversations_are_left_out_and_named():
    loop = CHATGPT | {"id": "g2", "mapping": {"a": node("a", "user", "x")}, "current_node": "a"}
    rows = [
        CLAUDE,
        5,
        CHATGPT | {"mapping": [1]},
        CLAUDE | {"chat_messages": []},
        CLAUDE,
        loop | {"create_time": None},
    ]
    contents = load("n/conversations.json", json.dumps(rows).encode())

    assert [one.title for one in contents.texts] == ["Roses", "Lamps"]
    assert contents.notes == [
        "conversation 2 is not as Claude or ChatGPT export it (likewise 3)",
        "conversation 4 has no text",
        "conversation 5 has the id of an earlier conversation",
        f"conversation 6 {NO_DATE}",
    ]


def test_halves_of_characters_are_replaced():
    row = json.dumps([CLAUDE | {"uuid": "\ud800", "name": "a\udfff"}]).encode()
    (one,) = load("n/conversations.json", row).texts

    assert (one.id, one.title) == ("n/conversations.json#\ufffd", "a\ufffd")


def test_other_json_of_such_a_name_is_a_text():
    (one,) = load("n/conversations.json", b'{"roses": 3}').texts

    assert (one.text, one.title) == ('{"roses": 3}', "conversations.json")


def test_a_broken_export_is_refused_with_the_reason():
    with pytest.raises(UnusableFile) as refused:
        load("n/conversations.json", json.dumps([CLAUDE]).encode()[:-9])

    assert str(refused.value) == "is not JSON: is it complete?"
