"""Sessions of coding clients: what was said in them, in each version of their forms."""

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded
from mcp_server_qdrant.ingest.formats.load import format_of, load
from mcp_server_qdrant.ingest.formats.sessions import LONGEST, read
from mcp_server_qdrant.ingest.secrets import MASK
from tests.made_secrets import KEYS
from tests.made_sessions import ID, PROJECT, answered, asked, codex, exchange, lines, said

CLAUDE = f"sessions/-home-ada-shed/{ID}.jsonl"
CODEX = f"codex/2026/11/20/rollout-2026-11-20T10-00-00-{ID}.jsonl"
GEMINI = "gemini/shed/chats/session-2026-11-20T10-00-6c073d8e"
TALK = [
    *exchange(0, "Why does the pump stop?", "The float is stuck."),
    *exchange(1, "How is it freed?", "With a spoon.", "2026-11-21"),
]
TEXT = (
    "User: Why does the pump stop?\n\nClaude: The float is stuck.\n\n"
    "User: How is it freed?\n\nClaude: With a spoon.\n\n"
)


def only(contents: Contents) -> Loaded:
    (text,) = contents.texts
    return text


def claude(*rows: object) -> Loaded:
    return only(load(CLAUDE, lines(rows)))


def test_a_session_is_one_text_of_what_was_asked_and_answered():
    text = claude(*TALK)

    assert text.text == TEXT
    assert text.title == "Why does the pump stop?"
    assert text.id is None
    assert text.created_at == datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
    assert text.metadata == {
        "client": "claude-code",
        "session": ID,
        "project": PROJECT,
        "branch": "main",
        "days": ["2026-11-20", "2026-11-21"],
        "date": "2026-11-21",
    }


def test_each_question_begins_a_section_below_its_day():
    text = claude(*TALK)

    assert [(one.level, one.name) for one in text.marks] == [
        (0, "2026-11-20"),
        (1, ""),  # the title says it
        (0, "2026-11-21"),
        (1, "How is it freed?"),
    ]
    assert text.text[text.marks[3].start :].startswith("User: How is it freed?")


@pytest.mark.parametrize(
    ("titles", "title"),
    [
        ([{"type": "summary", "summary": "Pump repair", "leafUuid": "u7"}], "Pump repair"),
        ([{"type": "summary", "summary": "Another", "leafUuid": "zz"}], "Why does the pump stop?"),
        ([{"type": "ai-title", "aiTitle": "A"}, {"type": "ai-title", "aiTitle": "Pump"}], "Pump"),
        (
            [{"type": "custom-title", "customTitle": "Mine"}, {"type": "ai-title", "aiTitle": "A"}],
            "Mine",
        ),
    ],
)
def test_the_title_is_the_persons_own_or_the_clients_or_the_first_prompt(titles, title):
    assert claude(*titles, *TALK).title == title


def test_the_first_versions_without_a_branch_are_read():
    old = [dict(row, version="1.0.3", costUSD=0.1) for row in TALK]
    for row in old:
        del row["gitBranch"]

    text = claude({"type": "summary", "summary": "Old", "leafUuid": "none"}, *old)
    assert text.text == TEXT
    assert "branch" not in (text.metadata or {})


def test_a_prompt_may_be_blocks_and_may_have_come_while_the_client_worked():
    queued = {"type": "queued_command", "prompt": [{"type": "text", "text": "And quickly!"}]}
    text = claude(
        asked(
            0, [{"type": "text", "text": "Look:"}, {"type": "image", "source": {"data": "AAAA"}}]
        ),
        answered(1, "A pump."),
        {"type": "attachment", "attachment": queued, "uuid": "q", "sessionId": ID},
        answered(3, "Done."),
    )

    assert text.text == "User: Look:\n\nClaude: A pump.\n\nUser: And quickly!\n\nClaude: Done.\n\n"


def test_answers_in_pieces_are_one_answer_and_a_line_twice_is_one():
    row = answered(1, "First this.")
    text = claude(asked(0, "How?"), row, row, answered(2, "Then that."))

    assert text.text == "User: How?\n\nClaude: First this.\n\nThen that.\n\n"


@pytest.mark.parametrize(
    "row",
    [
        asked(9, "INJECTED", isMeta=True),
        asked(9, "INJECTED", isCompactSummary=True),
        asked(9, "INJECTED", isVisibleInTranscriptOnly=True),
        asked(9, "INJECTED", isSidechain=True, agentId="d2969342"),
        asked(9, "INJECTED", origin={"kind": "task-notification"}),
        asked(9, "<system-reminder>INJECTED</system-reminder>"),
        asked(9, "<local-command-stdout>INJECTED</local-command-stdout>"),
        asked(9, "<bash-input>INJECTED</bash-input>"),
        asked(9, "<ide_opened_file>INJECTED</ide_opened_file>"),
        asked(9, "<command-name>/INJECTED</command-name>\n<command-args></command-args>"),
        asked(9, "Caveat: The messages below were INJECTED"),
        asked(9, "[Request interrupted by user INJECTED]"),
        answered(9, "INJECTED", isApiErrorMessage=True),
        answered(9, "INJECTED", isSidechain=True),
        {"type": "system", "subtype": "compact_boundary", "content": "INJECTED", "uuid": "s"},
        {"type": "file-history-snapshot", "snapshot": {"x": "INJECTED"}},
        {"type": "queue-operation", "operation": "remove", "content": "INJECTED"},
        {"type": "a-kind-of-tomorrow", "message": {"content": "INJECTED"}},
    ],
    ids=lambda row: f"{row['type']} {str(row)[-40:]}",
)
def test_what_the_client_or_a_sub_agent_said_is_left_out(row):
    assert claude(*TALK[:4], row, *TALK[4:]).text == TEXT


def test_a_command_is_kept_with_what_was_given_to_it():
    command = (
        "<command-message>fix is running…</command-message>\n<command-name>/fix</command-name>\n"
        "<command-args>the pump</command-args>"
    )

    assert claude(asked(0, command), answered(1, "Done.")).text.startswith("User: /fix the pump\n")


def test_words_beside_a_reminder_are_kept():
    text = claude(asked(0, "Why?<system-reminder>INJECTED</system-reminder>"), answered(1, "So."))

    assert text.text == "User: Why?\n\nClaude: So.\n\n"


@pytest.mark.parametrize(
    "mark",
    [
        "<system-reminder>",
        "<command-name>",
        "<command-name></command-name>",
        "<command-name></command-name><command-args>",
        "<a-b></a-b>",
        "<a-b>",
    ],
)
def test_marks_repeated_without_end_take_no_time(mark):
    began = time.process_time()
    load(CLAUDE, lines([asked(0, mark * 60_000), answered(1, "A lamp.")]))

    assert time.process_time() - began < 20, "by the square it would be minutes, or hours"


def test_of_a_prompt_with_a_log_in_it_the_middle_is_left_out():
    text = claude(asked(0, f"Why this? {'x ' * LONGEST} What now?"), answered(1, "So."))

    assert len(text.text) < LONGEST + 100
    assert "Why this?" in text.text
    assert "What now?" in text.text


def test_broken_lines_are_skipped_and_said_but_for_one_that_is_being_written():
    data = lines([*TALK[:4], "{broken", *TALK[4:]]) + b'{"type": "user", "mess'
    contents = load(CLAUDE, data)

    assert only(contents).text == TEXT
    assert contents.notes == ["line 5 is not JSON"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"type": "file-history-snapshot", "snapshot": {}}],
        [{"type": "summary", "summary": "Another's", "leafUuid": "zz"}],
        [asked(0, "Do it.", isSidechain=True), answered(1, "Done.", isSidechain=True)],
        codex(said("user", "Do it."), source={"subagent": {"thread_spawn": {}}}),
    ],
)
def test_a_file_in_which_nobody_spoke_is_no_text(rows):
    with pytest.raises(UnusableFile, match="holds no conversation"):
        load(CLAUDE, lines(rows))


def test_secrets_are_masked_always_and_counted():
    rows = exchange(0, "My token=abc123def, title?", "You said token=abc123def: change it.")
    rows[0] |= {"cwd": "/home/ada/token=abc123def", "gitBranch": "token=abc123def"}
    contents = load(CLAUDE, lines(rows), mask=False)

    assert "abc123def" not in repr(contents)
    assert only(contents).title == f"My token={MASK}, title?"
    assert contents.masked == 2


@pytest.mark.parametrize("secret", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("before", [50, 90, LONGEST // 2 - 10])
def test_no_part_of_a_secret_is_left_where_a_text_is_cut(before, secret):
    text = f"{'x' * before} {secret} {'y ' * LONGEST}"
    loaded = claude(asked(0, "Hello"), answered(1, "Hi"), asked(2, text), answered(3, "So."))
    first = claude(asked(0, text), answered(1, "So."))

    for held in (repr(loaded), repr(first)):
        assert secret[:24] not in held
        assert secret[-16:] not in held


def test_sections_are_where_they_were_once_secrets_are_masked():
    rows = [*exchange(0, f"token={'abc123' * 20} is it", "Yes."), *exchange(1, "Next?", "No.")]
    text = claude(*rows)

    assert text.text[text.marks[-1].start :].startswith("User: Next?")


def test_a_rollout_of_codex_is_read():
    text = only(
        load(
            CODEX,
            lines(
                codex(
                    said("developer", "INJECTED"),
                    said("user", "# AGENTS.md instructions for /home/ada/shed\n\nINJECTED"),
                    said(
                        "user", "<environment_context><cwd>/elsewhere</cwd></environment_context>"
                    ),
                    said(
                        "user", "# Context from my IDE\n## My request for Codex:\nWhy does it stop?"
                    ),
                    {
                        "type": "reasoning",
                        "summary": [{"type": "summary_text", "text": "INJECTED"}],
                    },
                    {"type": "function_call", "name": "shell", "arguments": "INJECTED"},
                    {"type": "function_call_output", "output": "INJECTED"},
                    said("assistant", "The float."),
                )
            ),
        )
    )

    assert text.text == "User: Why does it stop?\n\nCodex: The float.\n\n"
    assert text.metadata == {
        "client": "codex",
        "session": ID,
        "project": PROJECT,
        "branch": "pump",
        "days": ["2026-11-20"],
        "date": "2026-11-20",
    }


GEMINI_TALK = [
    {"id": "1", "type": "user", "content": [{"text": "Why?"}], "timestamp": "2026-11-20T10:00:00Z"},
    {"id": "2", "type": "info", "content": "INJECTED"},
    {
        "id": "3",
        "type": "gemini",
        "content": "So.",
        "thoughts": [{"description": "INJECTED"}],
        "toolCalls": [{"name": "shell", "result": "INJECTED"}],
    },
]
GEMINI_HEAD = {"sessionId": ID, "projectHash": "88", "startTime": "2026-11-20T10:00:00Z"}


def test_a_session_of_gemini_is_read_from_one_object():
    whole = {**GEMINI_HEAD, "messages": GEMINI_TALK, "summary": "About it"}
    text = only(load(f"{GEMINI}.json", json.dumps(whole, indent=2).encode()))

    assert (text.title, text.text) == ("About it", "User: Why?\n\nGemini: So.\n\n")
    assert (text.metadata or {})["client"] == "gemini-cli"


def test_lines_of_gemini_replace_earlier_ones_and_take_back_what_was_rewound():
    rows = [
        GEMINI_HEAD,
        GEMINI_TALK[0],
        {"id": "3", "type": "gemini", "content": "S"},
        {"id": "3", "type": "gemini", "content": "So."},
        {"id": "4", "type": "user", "content": "REWOUND"},
        {"id": "5", "type": "gemini", "content": "REWOUND"},
        {"$rewindTo": "4"},
        {"$set": {"summary": "About it"}},
        {"id": "6", "type": "user", "content": "THE WHOLE FILE", "displayContent": "And @file?"},
    ]
    text = only(load(f"{GEMINI}.jsonl", lines(rows)))

    assert text.title == "About it"
    assert text.text == "User: Why?\n\nGemini: So.\n\nUser: And @file?\n\n"


def test_what_a_sub_agent_of_gemini_did_is_no_text():
    with pytest.raises(UnusableFile, match="holds no conversation"):
        load(f"{GEMINI}.jsonl", lines([{**GEMINI_HEAD, "kind": "subagent"}, *GEMINI_TALK]))


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
ROWS = [*TALK, *codex(said("user", "Why?")), GEMINI_HEAD, *GEMINI_TALK, {"$rewindTo": "x"}]
KEYS = sorted({key for row in ROWS for key in row})


@given(st.lists(st.tuples(st.sampled_from(ROWS), st.dictionaries(st.sampled_from(KEYS), ANY))))
def test_whatever_a_line_holds_the_others_are_read(changes):
    """No form is promised: a value of another kind is one that is not there."""
    rows = [{**row, **change} for row, change in changes]
    try:
        contents = read(CLAUDE, lines(rows))
    except UnusableFile as error:
        assert str(error) == "holds no conversation"  # noqa: PT017
    else:
        assert all(isinstance(one.text, str) for one in contents.texts)


def test_other_lines_under_such_a_name_are_json_lines():
    contents = load(CLAUDE, lines([{"id": "a", "text": "One."}, {"id": "b", "text": "Two."}]))
    plain = load("x/session-notes.json", b'["not a session"]')

    assert [text.id for text in contents.texts] == ["a", "b"]
    assert [text.text for text in plain.texts] == ['["not a session"]']


def test_sessions_are_read_in_the_process_for_strangers_files():
    assert not format_of(CLAUDE).plain
    assert not format_of(CODEX).plain
