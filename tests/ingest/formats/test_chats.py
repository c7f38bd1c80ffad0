"""Exported chats: conversations of Claude and ChatGPT."""

import json
from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.ingest.formats.chats import NO_DATE
from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused

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


def test_what_was_spoken_to_chatgpt_is_read_and_its_sound_is_not():
    heard = {"content_type": "audio_transcription", "text": "Where is the oar?", "direction": "in"}
    spoken = heard | {"text": "In the boathouse.", "direction": "out"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "file-service://x"}
    empty = {"content_type": "audio_transcription", "text": None}
    mapping = {
        "a": node(None, "user", heard, {"content_type": "video", "audio_asset_pointer": sound}),
        "b": node("a", "assistant", spoken, sound, empty),
    }
    row = CHATGPT | {"mapping": mapping, "current_node": "b"}
    (one,) = load("n/conversations.json", json.dumps([row]).encode()).texts

    assert one.text == "User: Where is the oar?\n\nChatGPT: In the boathouse.\n\n"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<<ImageDisplayed>>\nA lamp.", "A lamp."),
        ("[image]\n\nA lamp. [image]", "A lamp."),
        ("Run [image](a.png), docker [image] x, ![image]", None),
        (
            "A lamp. \ue200cite\ue202turn0search1\ue202turn2view0\ue201 It is red.",
            "A lamp. It is red.",
        ),
        ("A \ue200cite\ue202turn0search1\ue201\ue200filecite\ue202turn0file0\ue201.", "A."),
        ('In \ue200entity\ue202["city","Oslo","Norway"]\ue201 it rains.', "In Oslo it rains."),
        ("In \ue200entity\ue202[broken\ue201 it rains.", "In it rains."),
        ("See \ue200url\ue202the pier\ue202https://a.b\ue201.", "See the pier."),
        ('\ue200image_group\ue202{"query":["a"]}\ue201\nA lamp.', "A lamp."),
        ("\ue203A lamp.\ue204\ue200cite", "A lamp.cite"),
        ("A lamp【4†source】 and 【12:0†a b.pdf】 a key【7†L1-L9】.", "A lamp and a key."),
        ("《【灯】》【4】", None),
        ("A lamp :contentReference[oaicite:0]{index=0}.", "A lamp."),
        ("A lamp:contentReference[oaicite:12]", "A lamp"),
    ],
)
def test_placeholders_of_chatgpt_are_left_out_and_the_names_in_them_kept(written, read):
    row = CHATGPT | {"mapping": {"a": node(None, "assistant", written)}, "current_node": "a"}
    (one,) = load("n/conversations.json", json.dumps([row]).encode()).texts

    assert one.text == f"ChatGPT: {read or written}\n\n"


def test_a_turn_of_nothing_but_placeholders_is_none():
    parts = ["<<ImageDisplayed>>", "[image]", "\ue200cite\ue202turn0search1\ue201"]
    mapping = {"a": node(None, "user", "A lamp"), "b": node("a", "assistant", *parts)}
    row = CHATGPT | {"mapping": mapping, "current_node": "b"}
    (one,) = load("n/conversations.json", json.dumps([row]).encode()).texts

    assert one.text == "User: A lamp\n\n"


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
    cut = json.dumps([CLAUDE]).encode()[:-9]

    assert refused("n/conversations.json", cut) == "is not JSON: is it complete?"


def test_artifacts_and_code_that_was_shown_are_read():
    claude = {
        "uuid": "u",
        "chat_messages": [
            {
                "sender": "assistant",
                "content": [
                    {"type": "text", "text": "Here."},
                    {"type": "tool_use", "name": "artifacts", "input": {"content": "A plan."}},
                    {"type": "tool_use", "name": "search", "input": {"query": "plans"}},
                ],
            }
        ],
    }
    said = [("python", "cut(3)"), ("browser", "search('x')")]
    nodes = {
        to: {
            "message": {
                "author": {"role": "assistant"},
                "recipient": to,
                "content": {"content_type": "code", "text": text},
            }
        }
        for to, text in said
    }
    chatgpt = {"id": "v", "mapping": nodes}
    texts = [
        load("n/conversations.json", json.dumps([one]).encode()).texts for one in (claude, chatgpt)
    ]

    assert [one.text for (one,) in texts] == ["Claude: Here.\n\nA plan.\n\n", "ChatGPT: cut(3)\n\n"]
